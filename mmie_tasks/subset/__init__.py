"""Whether fewer samples would do: ``mmie-tasks subset``."""
