"""Metrics of MIA-Bench, in percent of full marks, and the counts of a run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from mmie_tasks.benchmarks.mia_bench import official
from mmie_tasks.benchmarks.mia_bench.record import CLEAN, MiaRecord
from mmie_tasks.benchmarks.mia_bench.robust import read_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.rows import RunnerTable

FULL_MARKS = 100

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


def counts(records: Sequence[MiaRecord]) -> dict[str, float]:
    """Sample counts for the results file: ``unsound_totals`` and ``requested_twice``."""
    return {
        "unsound_totals": sum(
            not all(marks.agrees for marks in record.marks) for record in records
        ),
        "requested_twice": sum(
            any(judge.result.second_reply for judge in record.judgements) for record in records
        ),
    }


def notes(records: Sequence[MiaRecord]) -> Iterator[str]:
    """Log lines about the replies of a run, without counts of zero."""
    totals = counts(records)
    if unsound := totals["unsound_totals"]:
        yield f"the stated total is not that of its components: {unsound:,.0f}"
    if repeated := totals["requested_twice"]:
        yield f"requested twice, because the first reply was impossible: {repeated:,.0f}"
