"""Several runs over the same samples: ``mmie-tasks compare``."""
