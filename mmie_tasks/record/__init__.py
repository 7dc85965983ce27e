"""What a run writes and reads: replies, verdicts of several judges, samples, metrics."""
