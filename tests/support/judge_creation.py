"""Judges as a run creates them."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.choice import Choice
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge


def create(name: str, options: Mapping[str, str], environment: Mapping[str, str]) -> Judge:
    """The judge of the registry, without its cache."""
    return registry.create(Choice(name=name, options=options), environment)
