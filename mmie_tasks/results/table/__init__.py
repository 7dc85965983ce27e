"""``mmie-tasks table``: models by benchmarks."""
