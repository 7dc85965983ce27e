"""A benchmark of another package: six drawn shapes, one of which does not belong."""

__version__ = "0.1.0"
