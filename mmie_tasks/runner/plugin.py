"""Entry point of the group ``lmms_eval.models``."""
from __future__ import annotations


def manifests() -> list[object]:
    """Nothing yet."""
    return []
