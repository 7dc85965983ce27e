"""Benchmarks for lmms-eval, scored as their papers score them. Importing this does nothing else."""

from __future__ import annotations

__version__ = "0.1.0"
