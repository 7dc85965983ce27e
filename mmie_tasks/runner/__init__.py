"""The only place that imports lmms_eval."""
