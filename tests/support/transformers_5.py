"""Skips tests of the judge MMIE-Score where transformers 4 is installed."""

from importlib.metadata import version

import pytest

needs_transformers_5 = pytest.mark.skipif(
    version("transformers").startswith("4."),
    reason=f"the judge MMIE-Score needs transformers 5, and {version('transformers')} is installed",
)
