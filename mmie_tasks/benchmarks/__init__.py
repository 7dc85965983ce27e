"""One room a benchmark."""
