"""What runs saved with ``--output_path`` and ``--log_samples``, read again."""
