"""Verdicts, errors, options, settings, files and tables; imports nothing of ours."""

__version__ = "0.1.0"
