"""The models that replies name, if they are not the ones that were asked for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

from mmie_tasks.record.answering_model import is_other_name, other_models, shown_model
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.signature import Signature


def with_answerers(sample: LoggedSample) -> LoggedSample:
    """The sample; if its replies name models other than its judges, so does its signature."""
    others = [
        shown_model(model)
        for judged in sample.judgements
        for model in other_models(judged.judge, [reply.model for reply in judged.result.replies])
    ]
    if not others:
        return sample
    return replace(sample, signature=sample.signature.with_replies_by(sorted(set(others))))


def answerer_marks(samples: Iterable[LoggedSample]) -> Iterator[str]:
    """For each judge, the other models that its replies name, or else the different snapshots.

    A mark is ``replies by gemini-3.8-flash (3 of 8)``, without the count if all replies name it.
    """
    models: dict[Signature, Counter[str]] = defaultdict(Counter)
    for sample in samples:
        for judged in sample.judgements:
            models[judged.judge].update(reply.model for reply in judged.result.replies)
    for judge, counts in models.items():
        names = other_models(judge, counts) or _different(counts)
        shown = ", ".join(_counted(name, counts) for name in names)
        if shown:
            yield f"{judge.name}: replies by {shown}" if len(models) > 1 else f"replies by {shown}"


def _different(counts: Counter[str]) -> list[str]:
    """All of these models, if two differ."""
    differ = any(is_other_name(a, b) for a, b in combinations(counts, 2))
    return [model for model in counts if model] if differ else []


def _counted(model: str, counts: Counter[str]) -> str:
    count, total = counts[model], counts.total()
    share = "" if count == total else f" ({count:,} of {total:,})"
    return f"{shown_model(model)}{share}"
