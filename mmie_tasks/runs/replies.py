"""Summarises the judge's replies in the records of a run: models, tokens and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

LoggedReply: TypeAlias = Mapping[str, Any]


def replies_of(record: Mapping[str, object]) -> list[LoggedReply]:
    """The replies under ``replies`` of a sample's record."""
    replies = record.get("replies")
    return replies if isinstance(replies, list) else []


def describe_replies(records: Sequence[Mapping[str, object]]) -> str:
    """One line: replies per model, replies from the cache, tokens, US dollars.

    Tokens and dollars of cached replies are those of the first time.
    """
    replies = [reply for record in records for reply in replies_of(record)]
    models = Counter(str(reply["model"]) for reply in replies)
    per_model = ", ".join(f"{model} ({count})" for model, count in models.most_common())
    cached = sum(bool(reply["cached"]) for reply in replies)
    usages = [reply["usage"] for reply in replies]
    tokens_in, tokens_out = (sum(usage[name] for usage in usages) for name in ("input_tokens", "output_tokens"))
    costs = [usage["cost_usd"] for usage in usages]
    dollars = "cost unknown" if None in costs else f"{sum(costs):.4f} USD"
    return (
        f"replies: {per_model or 'none'}; {cached} from the cache; "
        f"{tokens_in:.0f} tokens in, {tokens_out:.0f} out, {dollars}"
    )
