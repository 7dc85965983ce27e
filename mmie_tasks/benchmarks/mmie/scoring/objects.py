"""A verdict that is a JSON object: ``{"feedback": "...", "score": 4}``."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from mmie_tasks.benchmarks.mmie.scoring.claims import DOUBT, FULL_MARKS, Claim, value

_FENCE = "```"
_SCORES = {"score", "finalscore", "overallscore", "totalscore", "rating", "mmiescore"}
_MAXIMA = {"max", "maxscore", "maximum", "outof", "maximumscore", "fullmarks"}


def of_object(text: str) -> Claim | None:
    """What an object says that is the whole text; None where it is none, or says no score."""
    content = text.strip()
    if content.startswith(_FENCE) and content.endswith(_FENCE):
        content = content.partition("\n")[2].removesuffix(_FENCE).strip()
    if not (content.startswith("{") and content.endswith("}")):
        return None
    try:
        pairs = json.loads(content, object_pairs_hook=_Pairs)
    except (ValueError, RecursionError):
        return None
    said = {_said(item) for key, item in pairs.items if _folded(key) in _SCORES}
    maxima = [item for key, item in pairs.items if _folded(key) in _MAXIMA]
    if any(maximum not in (FULL_MARKS, "6") for maximum in maxima) or len(said) > 1:
        return DOUBT
    return said.pop() if said else None


class _Pairs:
    """An object with its keys as often as they stand in it."""

    def __init__(self, items: Sequence[tuple[str, object]]) -> None:
        self.items = items


def _folded(key: str) -> str:
    return re.sub(r"[^a-z]", "", key.lower())


def _said(item: object) -> Claim:
    if isinstance(item, str):
        claim = value(item, own_line=True)
        return DOUBT if claim is None else claim
    if isinstance(item, bool) or not isinstance(item, (int, float)):
        return DOUBT
    try:
        return float(item)
    except OverflowError:
        return float("inf")
