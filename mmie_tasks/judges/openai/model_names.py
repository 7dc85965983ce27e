"""Names of models without the prefix of a gateway or maker."""

from __future__ import annotations


def without_prefix(model: str) -> str:
    """A model's name without that of its gateway or maker: the part after the last slash."""
    return model.rpartition("/")[2]
