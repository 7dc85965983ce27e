"""Metrics of MIA-Bench, in percent of full marks, and what is noted of replies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import zip_longest

from mmie_tasks.benchmarks.mia_bench import official
from mmie_tasks.benchmarks.mia_bench.robust import Mark, is_impossible, read_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, MiaSample
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import RunnerTable

FULL_MARKS = 100
CLEAN = "clean"
"""The group of samples whose components do not contradict the instruction."""

SCALE = Scale(
    full_marks=FULL_MARKS, unit="percent of full marks", percent=lambda mean: mean, open_ended=True
)
METRICS = (
    Metric(name="", title="Total", kind="headline"),
    Metric(
        name=CLEAN,
        title="Total without contradictory samples",
        kind="headline",
        by=CLEAN,
        weights={CLEAN: 1},
    ),
    *(
        Metric.of_group(
            kind,
            name,
            name.replace("_", " ").capitalize(),
            component=name if kind == "component" else "",
        )
        for kind, names in (("component", CATEGORIES), ("type", TYPES))
        for name in names
    ),
)
TABLE = RunnerTable(metrics=METRICS[:1], scale=SCALE)


def official_shares(categories: Sequence[str], reply: str) -> dict[str, float]:
    """Category to share of full marks (0 to 1), for a reply that the official script can read."""
    shares = official.scores(categories, reply)
    return {category: share for category, share in shares.items() if category != official.TOTAL}


def robust_shares(
    categories: Sequence[str], weights: Sequence[int], reply: str
) -> dict[str, float]:
    """Category to mean share of full marks (0 to 1); empty for a reply without a verdict."""
    parsed = read_reply(reply, weights)
    shares: dict[str, list[float]] = defaultdict(list)
    if parsed.doubt is None:
        for category, mark in zip(categories, parsed.components, strict=True):
            if mark is not None:
                shares[category].append(mark.share)
    return {category: sum(values) / len(values) for category, values in shares.items()}


def in_percent(verdict: Verdict) -> Verdict:
    """Converts a verdict from a fraction of full marks to percent."""
    return Scored(100 * verdict.points, verdict.reading) if isinstance(verdict, Scored) else verdict


def needed_replies(weights: Sequence[int], result: JudgeResult) -> JudgeResult:
    """The result without a second reply that today's reader would not request."""
    first = result.reply
    is_needed = first is not None and first.finish == "stop" and is_impossible(weights, first.text)
    return result if is_needed else JudgeResult(reply=first, failure=result.failure)


def groups(sample: MiaSample) -> dict[str, str | tuple[str, ...]]:
    """The groups of a sample: its type, those of its components, and whether it is clean."""
    clean = {} if sample.contradictory else {CLEAN: CLEAN}
    return {"type": sample.type, "component": tuple(dict.fromkeys(sample.categories)), **clean}


def reply_facts(sample: MiaSample, record: Record) -> Facts:
    """What the replies say of the components, as the robust reader finds it.

    * ``component_<n>``: category, each judge's mark, and text: ``math 3/4: the sum``.
    * ``contradictory``: the components contradict the instruction.
    * ``unsound_totals``: a stated total is not that of its components; ``component_total`` is the
      percentage that they come to, for a single judge.
    * ``requested_twice``: the first reply was impossible.
    """
    results = [judgement.result for judgement in record.judgements]
    replies = [
        read_reply(needed_replies(sample.weights, result).last_text, sample.weights)
        for result in results
    ]
    facts: dict[str, int | float | str] = {}
    columns = zip_longest(
        sample.categories,
        sample.weights,
        sample.components,
        zip_longest(*(reply.components for reply in replies)),
    )
    for number, (category, weight, text, marks) in enumerate(columns, 1):
        of_judges = marks or (None,) * max(1, len(replies))
        shown = ", ".join(_shown_mark(mark, weight) for mark in of_judges)
        facts[f"component_{number}"] = f"{category or '?'} {shown}{f': {text}' if text else ''}"
    total = replies[0].recomputed if len(replies) == 1 else None
    return facts | facts_of(
        contradictory=sample.contradictory,
        unsound_totals=not all(reply.agrees for reply in replies),
        component_total=None if total is None else 100 * total,
        requested_twice=any(result.second_reply for result in results),
    )


def _shown_mark(mark: Mark | None, weight: int | None) -> str:
    """``3/4``; ``-/4`` if the reply gives no mark."""
    return f"{mark.points:g}/{mark.out_of:g}" if mark else f"-/{weight or '?'}"
