"""Replaces functions of lmms-eval by wrappers, each once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_WRAPPED = "_mmie_tasks_wrapped"


def wrap_once(
    owner: object, name: str, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replace a function of a class or module by its wrapper, unless it is wrapped already."""
    original = getattr(owner, name)
    if not hasattr(original, _WRAPPED):
        wrapper = wrap(original)
        setattr(wrapper, _WRAPPED, True)
        setattr(owner, name, wrapper)
