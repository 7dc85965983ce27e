"""``doctor`` and ``prefetch``: two loops over the assets of benchmarks and judges."""
