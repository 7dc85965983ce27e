"""What one sample adds to which number: the values behind each row of the runner's table.

`official`, `robust` and their parts have scores in percent of full marks, `points` 0 to 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import get_args

from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample, Segment
from mmie_tasks.benchmarks.mmie.scoring.percent import FULL_MARKS
from mmie_tasks.verdict import Scored, Unscored, UnscoredReason, Verdict, as_row, differ, verdict_of

Row = dict[str, object]

FIELDS = (
    *("literature", "education", "finance", "health", "eecs", "art", "sports", "philosophy"),
    *("mathematics", "statistics", "physics", "coding"),
)
"""The dataset's fields as the names of metrics have them: see `slug`."""

JUDGE_WINDOW = 4096
"""Tokens up to which the judge was trained; beyond it its author warns of its scores (issue 5)."""

COUNTED = (
    *("dropped", "missing_images", "bad_images", "truncated", "typed_controls", "over_4096"),
    "differ",
)
REASONS: tuple[UnscoredReason, ...] = get_args(UnscoredReason)

_UNREAD = {"unparsed", "off_scale", "cut_off"}  # there is a reply, and no points are read from it


def _aggregations() -> Iterator[tuple[str, str]]:
    yield from (("coverage", "coverage"), ("robust_coverage", "share"), ("parse_rate", "share"))
    for part in ("", *(f"_{category}" for category in CATEGORIES)):
        yield from ((f"official{part}", "percent"), (f"robust{part}", "percent"))
        yield from ((f"points{part}", "points"), (f"ci95_low{part}", "ci_low"))
        yield f"ci95_high{part}", "ci_high"
    yield from ((f"official_{name}", "percent") for name in FIELDS)
    yield from ((f"points_{points}", "total") for points in range(FULL_MARKS + 1))
    yield from ((name, "total") for name in COUNTED)
    yield from ((f"unscored_{reason}", "total") for reason in REASONS)
    yield "score", "plain_mean"  # only with --baseline, which wants plain numbers: 0 to 1


AGGREGATIONS: Mapping[str, str] = dict(_aggregations())
"""Every metric, and the function of ``task.py`` that makes its number of its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """One sample's verdict, 0 to 6, read twice."""

    official: Verdict
    robust: Verdict

    @property
    def differs(self) -> bool:
        """Whether the readings give different points, or only one gives any."""
        return differ(self.official, self.robust)


def ungraded(reason: UnscoredReason, detail: str) -> Grading:
    """No verdict in either reading, for a reason outside the judge's reply."""
    verdict = Unscored(reason, detail)
    return Grading(official=verdict, robust=verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """About an answer, and the request that the judge is sent; nothing is sent of some.

    Attributes:
        dropped: The official script leaves the sample out: it has more than 4 images.
        missing_images: How many are named, and no file is there.
        bad_images: How many files cannot be used as an image.
        truncated: The cap on images took away text or images of the answer.
        typed: Control string to how often it is typed in the question or the answer.
        judge_tokens: Of the whole request; None where nobody knows, or none is sent.
        judge_tokens_exact: They are counted, not estimated.
        tiles: Of all images the judge is shown.
        shown_images: How many images the judge is shown, the question's included.
        answer_images: How many images the answer holds, shown or not.
        shape: The form of the answer, as its reader names it.
    """

    dropped: bool = False
    missing_images: int = 0
    bad_images: int = 0
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)
    judge_tokens: int | None = None
    judge_tokens_exact: bool = False
    tiles: int = 0
    shown_images: int = 0
    answer_images: int = 0
    shape: str = ""


def certain(sample: Sample) -> tuple[str, ...]:
    """The metrics that a sample has a row for, whatever comes of it.

    >>> from mmie_tasks.benchmarks.mmie.sample import Sample
    >>> one = Sample(id="SA-1", index=0, category="SA", field="", question=(), gold=())
    >>> "official_SA" in certain(one), "official_PBL" in certain(one)
    (True, False)
    """
    whole = ("official", "robust", "points", "ci95_low", "ci95_high")
    counted = (name for name in COUNTED if name != "over_4096")
    parts = (*whole, *(f"{name}_{sample.category}" for name in whole))
    own = [f"official_{slug(sample.field)}"] if slug(sample.field) in FIELDS else []
    return ("coverage", "robust_coverage", *counted, *parts, *own)


def rows(
    sample: Sample, grading: Grading, facts: Facts, logged: Mapping[str, object]
) -> dict[str, Row]:
    """The rows of one sample, by metric: only those it counts for.

    Args:
        sample: The question.
        grading: What came of it.
        facts: What is known of the request.
        logged: What else is needed to score it again: the replies, the signature.
    """
    who = {"id": sample.id}
    official, robust = _row(sample, grading.official), _row(sample, grading.robust)
    made: dict[str, Row] = {
        "coverage": {**record(sample, grading, facts), **logged},
        "robust_coverage": {**who, "holds": isinstance(grading.robust, Scored)},
    }
    for part in ("", f"_{sample.category}"):
        made[f"official{part}"], made[f"robust{part}"] = official, robust
        made[f"points{part}"] = {**who, **_points(grading.official, "score")}
        made[f"ci95_low{part}"] = {**who, **_points(grading.official)}
        made[f"ci95_high{part}"] = {**who, **_points(grading.official)}
    if slug(sample.field) in FIELDS:
        made[f"official_{slug(sample.field)}"] = official
    for name, count in _counts(grading, facts).items():
        made[name] = {**who, "count": count}
    if (parsed := was_parsed(grading.official)) is not None:
        made["parse_rate"] = {**who, "holds": parsed}
    return made


def record(sample: Sample, grading: Grading, facts: Facts) -> Row:
    """The sample, its verdicts and the facts; the runner logs it under ``coverage``."""
    known = {each.name: getattr(facts, each.name) for each in fields(facts)}
    return {
        "id": sample.id,
        "index": sample.index,
        "category": sample.category,
        "field": sample.field,
        **read_in(grading),
        "facts": {**known, "typed": dict(facts.typed)},
        "question": [_shown(segment) for segment in sample.question],
        "gold": [_shown(segment) for segment in sample.gold],
    }


def read_in(grading: Grading) -> Row:
    """What the readings put into a record."""
    return {
        "official": _points(grading.official),
        "robust": _points(grading.robust),
        "differ": grading.differs,
    }


def _shown(segment: Segment) -> Row:
    return {"text": segment.text, "image": segment.image}


def graded(row: Mapping[str, object]) -> Verdict:
    """The verdict, 0 to 6, that a row was made from.

    >>> graded({"id": "SA-1", "points": 3, "score": 50.0})
    Scored(points=3.0, reading='')
    """
    return verdict_of({name: value for name, value in row.items() if name != "score"})


def facts_in(one: Mapping[str, object]) -> Facts:
    """The facts in a record: the inverse of `record`."""
    known = one["facts"]
    return Facts(**known) if isinstance(known, dict) else Facts()


def slug(name: str) -> str:
    """A field's name as the names of metrics have it.

    >>> slug("EECS"), slug(" Project Work ")
    ('eecs', 'project_work')
    """
    return re.sub(r"\W+", "_", name.strip()).lower()


def _row(sample: Sample, verdict: Verdict) -> Row:
    """A row with a score in percent, and the points it is made of."""
    if isinstance(verdict, Scored):
        percent = Scored(verdict.points / FULL_MARKS * 100, verdict.reading)
        return as_row(percent, id=sample.id, points=verdict.points)
    return as_row(verdict, id=sample.id)


def _points(verdict: Verdict, *also: str) -> Row:
    """A verdict with its points and, under the names in `also`, the same.

    Where a row has no ``score``, the runner gives the number no standard error: of an end of an
    interval it would be that of the mean.
    """
    row = as_row(verdict)
    if isinstance(verdict, Scored):
        del row["score"]
        row |= dict.fromkeys(("points", *also), verdict.points)
    return row


def _counts(grading: Grading, facts: Facts) -> dict[str, int]:
    """Metric to what the sample adds to it; zeros stand for "looked at, and none"."""
    counts = {
        "dropped": int(facts.dropped),
        "missing_images": facts.missing_images,
        "bad_images": facts.bad_images,
        "truncated": int(facts.truncated),
        "typed_controls": int(any(facts.typed.values())),
        "differ": int(grading.differs),
    }
    if facts.judge_tokens is not None:
        counts["over_4096"] = int(facts.judge_tokens > JUDGE_WINDOW)
    match grading.official:
        case Scored(points=points):
            counts[f"points_{points:g}"] = 1
        case Unscored(reason=reason):
            counts[f"unscored_{reason}"] = 1
    return counts


def was_parsed(verdict: Verdict) -> bool | None:
    """Whether the reply was read; None where there is none."""
    if isinstance(verdict, Unscored):
        return False if verdict.reason in _UNREAD else None
    return True
