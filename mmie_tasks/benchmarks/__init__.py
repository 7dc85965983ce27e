"""The benchmarks, one folder each, and their registry."""
