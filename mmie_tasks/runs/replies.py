"""The judge's replies in a run's records: who gave them, at what cost. Pure, as scoring is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

Record: TypeAlias = Mapping[str, object]


def replies_of(record: Record) -> list[Record]:
    """The replies that a sample's record holds under ``replies``, as mappings."""
    replies = record.get("replies")
    return [_mapping(reply) for reply in replies] if isinstance(replies, list) else []


def replies_in_words(records: Sequence[Record]) -> str:
    """A line: models and how often each replied, remembered replies, tokens, US dollars."""
    replies = [reply for record in records for reply in replies_of(record)]
    models = Counter(str(reply["model"]) for reply in replies)
    listed = ", ".join(f"{model} ({n})" for model, n in models.most_common())
    cached = sum(bool(reply["cached"]) for reply in replies)
    return f"replies of {listed or 'nobody'}; {cached} of them remembered; {_cost(replies)}"


def _cost(replies: Sequence[Record]) -> str:
    """The tokens and dollars of all replies, when they were new."""
    used = [_mapping(reply["usage"]) for reply in replies]
    asked, said = (_sum(used, name) for name in ("input_tokens", "output_tokens"))
    known = all(isinstance(each["cost_usd"], (int, float)) for each in used)
    dollars = f"{_sum(used, 'cost_usd'):.4f} USD" if known else "cost unknown"
    return f"{asked:.0f} tokens in, {said:.0f} out, {dollars}"


def _sum(used: Sequence[Record], name: str) -> float:
    values = (each[name] for each in used)
    return sum(value for value in values if isinstance(value, (int, float)))


def _mapping(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}
