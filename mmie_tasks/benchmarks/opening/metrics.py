"""Metrics of OpenING, and counts and notes about a run.

Verdicts are points from 0 to 10, the mean of a reply's metrics; every score is in percent of full
marks. The official table has other units and rounds twice: see `official_row`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.opening import official, robust
from mmie_tasks.benchmarks.opening.official import FULL_MARKS, METRICS, OVERALL
from mmie_tasks.benchmarks.opening.sample import TOPICS, OpeningSample
from mmie_tasks.core.verdict import ScoreKind, Unscored
from mmie_tasks.record.metrics import Metric, Scale, slug
from mmie_tasks.record.record import Record
from mmie_tasks.record.rows import RunnerTable

SCALE = Scale(
    full_marks=FULL_MARKS,
    unit="points, 0 to 10",
    percent=lambda mean: round(100 * mean / FULL_MARKS, 2),
    open_ended=True,
)
_HEADLINE = Metric(name="", title=OVERALL, kind="headline")
_METRICS = tuple(
    Metric(name=slug(name), title=name, kind="metric", component=name, in_table=True)
    for name in METRICS
)
_TOPICS = tuple(
    Metric.of_group("topic", slug(title), title, in_table=False) for title in TOPICS.values()
)
ALL_METRICS = (_HEADLINE, *_METRICS, *_TOPICS)
TABLE = RunnerTable(metrics=(_HEADLINE,), scale=SCALE)


def shares(reply: str) -> dict[ScoreKind, dict[str, float]]:
    """For ``official`` and ``robust``, metric to its share of full marks, where a reply has points.

    >>> shares('{"Correctness": {"Score": 7}}')
    {'official': {'Correctness': 0.7}}
    """
    by_kind: dict[ScoreKind, Mapping[str, float] | Unscored] = {
        "official": official.read_scores(reply),
        "robust": robust.read_scores(reply),
    }
    return {
        kind: {name: points / FULL_MARKS for name, points in scores.items()}
        for kind, scores in by_kind.items()
        if not isinstance(scores, Unscored)
    }


def groups(sample: OpeningSample) -> dict[str, str]:
    """The groups of a sample: its topic and its subtask."""
    return {"topic": sample.topic, "subtask": slug(sample.subtask)}


def official_row(records: Iterable[Record]) -> dict[str, float]:
    """The official table's row, to the digit: metric to its mean, 0 to 10, and `OVERALL`. Samples
    without an official score are left out.
    """
    return official.summary(
        {name: round(share * FULL_MARKS, 9) for name, share in shares.items()}
        for record in records
        if (shares := record.verdicts.shares.get("official"))
    )


def counts(records: Sequence[Record]) -> dict[str, float]:
    """The official table's row, 0 to 10: ``table_<metric>`` and ``table_overall``."""
    return {f"table_{slug(name)}": score for name, score in official_row(records).items()}


def notes(records: Sequence[Record]) -> Iterator[str]:
    """The official table's row for the log."""
    if row := official_row(records):
        cells = ", ".join(f"{name} {score:.2f}" for name, score in row.items())
        yield f"as in the official table, 0 to 10: {cells}"
