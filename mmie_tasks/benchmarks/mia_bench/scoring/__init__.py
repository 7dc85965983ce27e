"""A judge's words to verdicts. Pure: no files, network, clock, environment or logging."""
