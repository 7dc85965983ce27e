"""What a run writes and reads: signatures, replies, panels, samples, logs, metrics."""
