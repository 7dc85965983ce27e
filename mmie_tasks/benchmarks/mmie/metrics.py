"""What one sample adds to which number: the values behind each row of the runner's table.

`official`, `robust` and their parts have scores in percent of full marks, `points` 0 to 6.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TypeAlias, get_args

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, mean_points, percent_of
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample, Segment
from mmie_tasks.core.verdict import (
    Mean,
    Scored,
    Unscored,
    UnscoredReason,
    Verdict,
    as_row,
    differ,
    mean_of,
    tally,
    verdict_of,
)
from mmie_tasks.runs.replies import describe_replies

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


# The run's numbers, each made of the rows of the samples that count for it.
#
# A sample that the official script leaves out (`left_out`) is counted by `coverage` and moves no
# mean; and since no judge is at fault, it does not count against the floor of coverage either.

Rows: TypeAlias = Sequence[Mapping[str, object]]
Ends: TypeAlias = tuple[float, float]
Interval: TypeAlias = Callable[[Sequence[float]], Ends | None]
"""Gives both ends of an interval of a mean, or None where too little is known for one."""


def average(verdicts: Iterable[Verdict]) -> Mean:
    """The mean, 0 to 6, as the official script rounds it; none below the floor of coverage.

    The official script has no floor: it averages what it can read, however little.

    >>> average([Scored(4), Scored(3), Scored(3), Unscored("left_out")])
    Mean(value=3.333, why_not='')
    """
    counted = _counted(verdicts)
    found = mean_of(tally(counted))
    return found if found.value is None else Mean(mean_points(_points_totals(counted)))


def in_percent(verdicts: Iterable[Verdict]) -> Mean:
    """`average` in percent of full marks.

    >>> in_percent([Scored(4), Scored(3), Scored(3)]).value
    55.55
    """
    found = average(verdicts)
    return found if found.value is None else Mean(percent_of(found.value))


def ends(verdicts: Sequence[Verdict], interval: Interval) -> Ends | None:
    """Both ends of the interval of the mean, in percent; None where there is no mean either."""
    if average(verdicts).value is None:
        return None
    found = interval(_points_totals(verdicts))
    return found and (found[0] / FULL_MARKS * 100, found[1] / FULL_MARKS * 100)


def points(rows: Rows) -> float:
    """Mean points, 0 to 6, to 3 decimals; NaN below the floor of coverage."""
    return _or_nan(average(map(graded, rows)).value)


def percent(rows: Rows) -> float:
    """Mean in percent of full marks, to 2 decimals; NaN below the floor of coverage.

    >>> percent([{"points": 4, "score": 66.7}, {"points": 3, "score": 50.0}])
    58.33
    """
    return _or_nan(in_percent(map(graded, rows)).value)


def ci_low(rows: Rows, interval: Interval) -> float:
    """Lower end of the interval of the mean, in percent of full marks; NaN where there is none."""
    found = ends([graded(row) for row in rows], interval)
    return math.nan if found is None else found[0]


def ci_high(rows: Rows, interval: Interval) -> float:
    """Upper end of the interval of the mean, in percent of full marks; NaN where there is none."""
    found = ends([graded(row) for row in rows], interval)
    return math.nan if found is None else found[1]


def coverage(records: Rows) -> float:
    """Samples with an official score, in percent of all, those left out included."""
    verdicts = [official_of(record) for record in records]
    return 100 * tally(verdicts).coverage


def share(rows: Rows) -> float:
    """Samples of which something holds, in percent of those it can hold of."""
    return 100 * sum(bool(row["holds"]) for row in rows) / len(rows)


def total(rows: Rows) -> float:
    """The sum of what is counted.

    >>> total([{"count": 2}, {"count": 0}])
    2.0
    """
    return float(sum(count for row in rows if isinstance(count := row["count"], int)))


def plain_mean(scores: Sequence[float]) -> float:
    """Mean of plain scores, 0 to 1, for ``--baseline``."""
    return sum(scores) / len(scores)


def official_of(record: Mapping[str, object]) -> Verdict:
    """The official verdict, 0 to 6, in a record."""
    return _reading(record, "official")


def robust_of(record: Mapping[str, object]) -> Verdict:
    """The robust verdict, 0 to 6, in a record."""
    return _reading(record, "robust")


def _reading(record: Mapping[str, object], name: str) -> Verdict:
    row = record[name]
    return graded(row if isinstance(row, Mapping) else {})


def _counted(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if not (isinstance(v, Unscored) and v.reason == "left_out")]


def _points_totals(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


# What to know beside a run's numbers, a line each: what was not judged whole, and by whom.

PARSE_RATE_FLOOR = 95.0
"""Percent. The published numbers imply that nearly every reply could be read."""


def notes(records: Sequence[Record]) -> Iterator[str]:
    """The lines; each that counts something is there also where it counts none."""
    facts = [facts_in(record) for record in records]
    yield _answers(facts)
    dropped = sum(each.dropped for each in facts)
    yield f"left out by the official script, for more than 4 images: {dropped}"
    yield _images("missing", [each.missing_images for each in facts])
    yield _images("unusable", [each.bad_images for each in facts])
    yield _long(facts)
    cut = sum(each.truncated for each in facts)
    yield f"answers cut by the cap on images: {cut}"
    yield _typed(facts)
    yield _parse_rate([official_of(record) for record in records])
    yield f"the readings differ on {sum(bool(record['differ']) for record in records)}"
    for name, reading in (("official", official_of), ("robust", robust_of)):
        yield _unscored(name, [reading(record) for record in records])
    yield describe_replies(records)


def _answers(facts: Sequence[Facts]) -> str:
    shapes = _listed(Counter(each.shape or "none" for each in facts))
    given, shown = (
        sum(getattr(each, name) for each in facts) for name in ("answer_images", "shown_images")
    )
    tiles = sum(each.tiles for each in facts)
    return (
        f"answers: {shapes}; {given} images in them; "
        f"{shown} images shown to the judge, the questions' included, in {tiles} tiles"
    )


def _images(kind: str, counts: Sequence[int]) -> str:
    return f"{kind} images: {sum(counts)}, in {sum(map(bool, counts))} samples"


def _long(facts: Sequence[Facts]) -> str:
    """How many requests are longer than what the judge was trained on."""
    lengths = [each.judge_tokens for each in facts if each.judge_tokens is not None]
    exact = sum(each.judge_tokens_exact for each in facts if each.judge_tokens is not None)
    said = f"requests over {JUDGE_WINDOW:,} tokens of the judge: "
    if not lengths:
        return f"{said}unknown"
    how = [("counted", exact), ("estimated", len(lengths) - exact)]
    how.append(("unknown", len(facts) - len(lengths)))
    over = sum(length > JUDGE_WINDOW for length in lengths)
    return f"{said}{over} of {len(lengths)}; lengths {_listed({k: n for k, n in how if n})}"


def _typed(facts: Sequence[Facts]) -> str:
    typed: Counter[str] = Counter()
    for each in facts:
        typed.update(each.typed)
    samples = sum(any(each.typed.values()) for each in facts)
    listed = f": {_listed(+typed)}" if samples else ""
    return f"samples with a control string of the judge typed in them: {samples}{listed}"


def _parse_rate(verdicts: Sequence[Verdict]) -> str:
    read = [found for verdict in verdicts if (found := was_parsed(verdict)) is not None]
    if not read:
        return "replies read: there are none"
    rate = 100 * sum(read) / len(read)
    warning = ""
    if rate < PARSE_RATE_FLOOR:
        warning = (
            f"\nWARNING: below {PARSE_RATE_FLOOR:.0f} %: the mean is over the samples that the "
            "judge could put a score on, and these may not be like the others"
        )
    return f"replies read: {rate:.2f} % of {len(read)}{warning}"


def _unscored(name: str, verdicts: Sequence[Verdict]) -> str:
    reasons: Counter[str] = Counter()
    reasons.update(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
    return f"unscored in the {name} reading: {_listed(reasons)}" if reasons else ""


def _listed(counts: Mapping[str, int]) -> str:
    """Names and counts, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({n})" for name, n in ordered)


# The run in one table of words, and as a row of the leaderboard.

Record: TypeAlias = Mapping[str, object]

_NO_NUMBER = "n/a"


def summary(records: Sequence[Record], interval: Interval) -> str:
    """Lines of text.

    Args:
        records: What `metrics.rows` made of each sample under ``coverage``; at least one.
        interval: Gives the 95 % interval of a mean of points.
    """
    head = f"{'percent':<12}{'official':>9}{'95 % of it':>15}{'robust':>9}{'points':>8}  scored"
    parts: dict[str, Sequence[Record]] = {
        "AVG": records,
        **{each: [r for r in records if r["category"] == each] for each in CATEGORIES},
        **_by_field(records),
    }
    lines = [head, *(_line(name, members, interval) for name, members in parts.items())]
    lines += [_histogram(records), *notes(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def leaderboard_row(
    records: Sequence[Record], model: str, model_type: str
) -> dict[str, str | float | None]:
    """A row with the columns of the project's leaderboard, percent to 2 decimals.

    Args:
        records: As for `summary`.
        model: The tested model.
        model_type: ``Interleaved LVLM`` or ``Integrated LVLM``.

    Returns:
        None stands where there is no number: no samples, or too few with a score.
    """
    row: dict[str, str | float | None] = {"Model": model, "Model Type": model_type}
    for category in CATEGORIES:
        of = [official_of(record) for record in records if record["category"] == category]
        row[category] = in_percent(of).value
    return {**row, "AVG": in_percent(map(official_of, records)).value}


def _line(name: str, records: Sequence[Record], interval: Interval) -> str:
    if not records:
        return ""
    official, robust = [official_of(r) for r in records], [robust_of(r) for r in records]
    numbers = [in_percent(official), in_percent(robust)]
    texts = (
        f"{_number(numbers[0].value, 2):>9}{_ends(official, interval):>15}"
        f"{_number(numbers[1].value, 2):>9}{_number(average(official).value, 3):>8}"
    )
    scored = " and ".join(str(tally(verdicts).scored) for verdicts in (official, robust))
    why = next((f"  ({number.why_not})" for number in numbers if number.why_not), "")
    return f"{name:<12}{texts}  {scored} of {len(records)}{why}"


def _number(value: float | None, decimals: int) -> str:
    return _NO_NUMBER if value is None else f"{value:.{decimals}f}"


def _ends(verdicts: Sequence[Verdict], interval: Interval) -> str:
    found = ends(verdicts, interval)
    return _NO_NUMBER if found is None else f"{found[0]:.2f}-{found[1]:.2f}"


def _by_field(records: Sequence[Record]) -> dict[str, Sequence[Record]]:
    """The dataset's own name of each field, whatever it is, to its samples; sorted.

    Fields without a metric of their own are here as well. A sample without a field is nowhere.
    """
    named: dict[str, list[Record]] = {}
    for record in records:
        named.setdefault(slug(str(record["field"])), []).append(record)
    named.pop("", None)
    return {str(members[0]["field"]).strip(): members for _, members in sorted(named.items())}


def _histogram(records: Sequence[Record]) -> str:
    given = Counter(v.points for v in map(official_of, records) if isinstance(v, Scored))
    return "points given: " + ", ".join(f"{n}: {given[n]}" for n in range(FULL_MARKS + 1))
