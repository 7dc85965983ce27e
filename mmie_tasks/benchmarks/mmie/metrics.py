"""Metrics of MMIE, and counts and notes about a run.

Verdicts are points from 0 to 6; every score is in percent of full marks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, percent_of
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.metrics import Metric, Scale, slug
from mmie_tasks.record.record import Record
from mmie_tasks.record.rows import RunnerTable

FIELDS = (
    *("literature", "education", "finance", "health", "eecs", "art", "sports", "philosophy"),
    *("mathematics", "statistics", "physics", "coding"),
)
"""The dataset's fields as metric names; see `slug`."""

JUDGE_WINDOW = 4096
"""Tokens up to which the judge was trained; its author warns about scores of more (issue 5)."""

SCALE = Scale(full_marks=FULL_MARKS, unit="points, 0 to 6", whole=True, percent=percent_of)

_HEADLINE = Metric(name="", title="AVG", kind="headline")


def _columns(kind: str, titles: Mapping[str, str]) -> tuple[Metric, ...]:
    return tuple(Metric.of_group(kind, name, title) for name, title in titles.items())


_CATEGORIES = _columns(
    "category",
    {"SA": "Situational analysis", "PBL": "Project-based learning", "MSR": "Multi-step reasoning"},
)
_FIELDS = _columns("field", {name: name.capitalize() for name in FIELDS} | {"eecs": "EECS"})
METRICS = (_HEADLINE, *_CATEGORIES, *_FIELDS)

TABLE = RunnerTable(metrics=(_HEADLINE, *_CATEGORIES), scale=SCALE)
CATEGORY_TABLE = RunnerTable(metrics=(_HEADLINE,), scale=SCALE)
"""lmms-eval's table of a task with a single category."""

PARSE_RATE_FLOOR = 95.0
"""Percent. The published scores imply that nearly every reply could be read."""

_UNREAD = {"unparsed", "off_scale", "cut_off"}  # there is a reply without readable points


def groups(sample: MmieSample) -> dict[str, str]:
    """The groups of a sample: its category, and its field if the data has one."""
    field = slug(sample.field)
    return {"category": sample.category, **({"field": field} if field else {})}


def judge_facts(record: Record) -> Facts:
    """The request's length as the (first) judge reports it, if it does: ``judge_tokens`` is a
    measure, ``over_4096`` counts those that are longer than the judge was trained on.
    """
    reply = record.judgements[0].result.reply if record.judgements else None
    tokens = reply.usage.input_tokens if reply else 0
    return facts_of(judge_tokens=float(tokens), over_4096=tokens > JUDGE_WINDOW)


def counts(records: Sequence[Record]) -> dict[str, float]:
    """``parse_rate``: percent of the replies with readable points; absent without replies."""
    verdicts = [judge.verdicts.official for record in records for judge in record.judgements]
    scored = sum(isinstance(official, Scored) for official in verdicts)
    unread = sum(isinstance(v, Unscored) and v.reason in _UNREAD for v in verdicts)
    return {"parse_rate": 100 * scored / (scored + unread)} if scored or unread else {}


def notes(records: Sequence[Record]) -> Iterator[str]:
    """A warning if too few replies could be read; how many answers the judge saw in part."""
    rate = counts(records).get("parse_rate", 100)
    if rate < PARSE_RATE_FLOOR:
        yield (
            f"WARNING: only {rate:.2f} % of the replies could be read: the mean covers the samples "
            "with a readable score, which may differ from the others"
        )
    if cut := sum("truncated" in record.facts for record in records):
        yield (
            "answers judged without what follows the third image of question and answer, as by the "
            f"official script: {cut:,}"
        )
