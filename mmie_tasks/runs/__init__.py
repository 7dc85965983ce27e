"""Reads what a run logged with ``--output_path`` and ``--log_samples``."""
