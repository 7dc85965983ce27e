"""Metrics of OpenING, and counts and notes about a run.

Verdicts are points from 0 to 10, the mean of a reply's metrics; every score is in percent of full
marks. The official table has other units and rounds twice: see `official_row`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.opening import official, robust
from mmie_tasks.benchmarks.opening.official import FULL_MARKS, METRICS, OVERALL
from mmie_tasks.benchmarks.opening.record import OpeningRecord
from mmie_tasks.benchmarks.opening.sample import TOPICS
from mmie_tasks.core.verdict import ScoreKind, Unscored
from mmie_tasks.core.wording import listed
from mmie_tasks.record.answer_facts import answer_notes, total_of
from mmie_tasks.record.metrics import Metric, Scale, slug
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


def official_row(records: Iterable[OpeningRecord]) -> dict[str, float]:
    """The official table's row, to the digit: metric to its mean, 0 to 10, and `OVERALL`. Samples
    without an official score are left out.
    """
    return official.summary(
        {name: round(share * FULL_MARKS, 9) for name, share in shares.items()}
        for record in records
        if (shares := record.shares.get("official"))
    )


def counts(records: Sequence[OpeningRecord]) -> dict[str, float]:
    """OpenING's own counts, for the results file.

    * Pictures that the judge did not see: ``pictures_lost`` (of answers),
      ``question_pictures_lost``.
    * Answers: ``without_picture``, ``pictures_unplaced`` (the text has no place for its pictures),
      and ``other_length`` (another number of steps than the gold answer).
    * Samples: ``asked_twice``.
    * The official table's row, 0 to 10: ``table_<metric>`` and ``table_overall``.
    """
    facts = [record.facts for record in records]
    answered = [sample for sample in facts if sample.shape]
    totals = {
        "pictures_lost": sum(sum(sample.pictures_lost.values()) for sample in facts),
        "question_pictures_lost": sum(sample.question_pictures_lost for sample in facts),
        "pictures_unplaced": sum(bool(sample.unplaced) for sample in facts),
        "without_picture": sum(not sample.answer_pictures for sample in answered),
        "other_length": sum(sample.steps != sample.gold_steps for sample in answered),
        "asked_twice": sum(len(record.replies) > 1 for record in records),
    }
    row = {f"table_{slug(name)}": score for name, score in official_row(records).items()}
    return {**totals, **row}


def notes(records: Sequence[OpeningRecord]) -> Iterator[str]:
    """Lines for the log about a run's answers and requests; what did not occur has no line."""
    facts = [record.facts for record in records]
    totals = counts(records)
    shapes = Counter(sample.shape or "none" for sample in facts)
    yield (
        f"answers: {listed(shapes)}; {sum(sample.answer_pictures for sample in facts):,} pictures "
        f"in them; {sum(sample.shown_pictures for sample in facts):,} pictures in the requests to "
        "the judge, with the questions'"
    )
    if row := official_row(records):
        cells = ", ".join(f"{name} {score:.2f}" for name, score in row.items())
        yield f"as in the official table, 0 to 10: {cells}"
    yield from answer_notes(facts)
    lost = total_of(sample.pictures_lost for sample in facts)
    titles = {
        "question_pictures_lost": "pictures of questions that the judge did not see",
        "without_picture": "answers without a picture",
        "other_length": "answers with another number of steps than the gold answer",
        "asked_twice": "asked twice, because the first reply was no JSON",
    }
    if lost:
        yield f"pictures of answers that the judge did not see: {listed(lost)}"
    for name, title in titles.items():
        if totals[name]:
            yield f"{title}: {totals[name]:,.0f}"
