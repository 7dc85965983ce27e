"""Summarises the judge's replies in the records of a run: models, tokens and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

LoggedReply: TypeAlias = Mapping[str, object]


def replies_of(record: Mapping[str, object]) -> list[LoggedReply]:
    """The replies under ``replies`` of a sample's record."""
    replies = record.get("replies")
    return [_mapping(reply) for reply in replies] if isinstance(replies, list) else []


def describe_replies(records: Sequence[Mapping[str, object]]) -> str:
    """One line: replies per model, replies from the cache, tokens, US dollars."""
    replies = [reply for record in records for reply in replies_of(record)]
    models = Counter(str(reply["model"]) for reply in replies)
    per_model = ", ".join(f"{model} ({count})" for model, count in models.most_common())
    cached = sum(bool(reply["cached"]) for reply in replies)
    return f"replies: {per_model or 'none'}; {cached} from the cache; {_cost(replies)}"


def _cost(replies: Sequence[LoggedReply]) -> str:
    """Tokens and US dollars of all replies; those of cached replies as they were at first."""
    usages = [_mapping(reply["usage"]) for reply in replies]
    input_tokens, output_tokens = (_sum(usages, name) for name in ("input_tokens", "output_tokens"))
    priced = all(isinstance(usage["cost_usd"], (int, float)) for usage in usages)
    dollars = f"{_sum(usages, 'cost_usd'):.4f} USD" if priced else "cost unknown"
    return f"{input_tokens:.0f} tokens in, {output_tokens:.0f} out, {dollars}"


def _sum(usages: Sequence[LoggedReply], name: str) -> float:
    values = (usage[name] for usage in usages)
    return sum(value for value in values if isinstance(value, (int, float)))


def _mapping(value: object) -> LoggedReply:
    return value if isinstance(value, Mapping) else {}
