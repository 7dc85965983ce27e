"""Metrics of MMIE: the rows that one sample adds to each metric, their means, and the summary.

`official`, `robust` and their parts have scores in percent of full marks, `points` 0 to 6.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TypeAlias, get_args

from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, mean_points, percent_of
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.verdict import (
    COVERAGE_FLOOR,
    Mean,
    Scored,
    Unscored,
    UnscoredReason,
    Verdict,
    Verdicts,
    as_row,
    mean_of,
    tally,
    verdict_of,
)
from mmie_tasks.runs.replies import describe_replies

MetricRow = dict[str, object]
"""What one sample adds to one metric, as the runner logs it."""

SampleRecord: TypeAlias = Mapping[str, object]
"""A sample's row under ``coverage``: see `record`."""

FIELDS = (
    *("literature", "education", "finance", "health", "eecs", "art", "sports", "philosophy"),
    *("mathematics", "statistics", "physics", "coding"),
)
"""The dataset's fields in the form of metric names: see `slug`."""

JUDGE_WINDOW = 4096
"""Tokens up to which the judge was trained; beyond it its author warns of its scores (issue 5)."""

COUNTED = (*("dropped", "missing_images", "bad_images", "truncated", "typed_controls", "over_4096"), "differ")
REASONS: tuple[UnscoredReason, ...] = get_args(UnscoredReason)

_UNREAD = {"unparsed", "off_scale", "cut_off"}  # there is a reply without readable points


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
    yield "score", "plain_mean"  # only with --baseline, which needs plain numbers: 0 to 1


AGGREGATIONS: Mapping[str, str] = dict(_aggregations())
"""Every metric, to the function of ``task.py`` that aggregates its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestFacts:
    """Counts about an answer and its request; some answers have no request.

    Attributes:
        dropped: The official script leaves the sample out: it has more than 4 images.
        missing_images: Image references without a file.
        bad_images: Files that cannot be used as an image.
        truncated: The limit on images removed text or images of the answer.
        typed: Control string in the question or the answer to its number.
        judge_tokens: Tokens of the request, as the judge reports with its reply; None without.
        judge_tokens_exact: Whether the judge counted them. Older logs also hold estimates.
        shown_images: Images in the request, the question's included.
        answer_images: Images of the answer, in the request or not.
        shape: How the answer was written.
        thinking: Thinking was removed from the answer.
        unfilled_placeholders: Placeholders of the answer without an image.
        unread: Texts and images of the answer that were not read, by key or type.
    """

    dropped: bool = False
    missing_images: int = 0
    bad_images: int = 0
    truncated: bool = False
    typed: Mapping[str, int] = field(default_factory=dict)
    judge_tokens: int | None = None
    judge_tokens_exact: bool = False
    shown_images: int = 0
    answer_images: int = 0
    shape: str = ""
    thinking: bool = False
    unfilled_placeholders: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)


def certain(sample: Sample) -> tuple[str, ...]:
    """The metrics that a sample has a row for whether or not it is scored.

    >>> from mmie_tasks.benchmarks.mmie.sample import Sample
    >>> one = Sample(id="SA-1", index=0, row=0, category="SA", field="", question=(), gold=())
    >>> "official_SA" in certain(one), "official_PBL" in certain(one)
    (True, False)
    """
    whole = ("official", "robust", "points", "ci95_low", "ci95_high")
    counted = (name for name in COUNTED if name != "over_4096")
    parts = (*whole, *(f"{name}_{sample.category}" for name in whole))
    own = [f"official_{slug(sample.field)}"] if slug(sample.field) in FIELDS else []
    return ("coverage", "robust_coverage", *counted, *parts, *own)


def rows(sample: Sample, verdicts: Verdicts, facts: RequestFacts, logged: Mapping[str, object]) -> dict[str, MetricRow]:
    """The rows of one sample, by metric: only those it counts for.

    Args:
        sample: The question.
        verdicts: Its verdicts.
        facts: Counts about the request.
        logged: Further fields that scoring it again needs: the replies, the signature.
    """
    identity = {"id": sample.id}
    official, robust = _row(sample, verdicts.official), _row(sample, verdicts.robust)
    by_metric: dict[str, MetricRow] = {
        "coverage": {**record(sample, verdicts, facts), **logged},
        "robust_coverage": {**identity, "holds": isinstance(verdicts.robust, Scored)},
    }
    for part in ("", f"_{sample.category}"):
        by_metric[f"official{part}"], by_metric[f"robust{part}"] = official, robust
        by_metric[f"points{part}"] = {**identity, **_points(verdicts.official, "score")}
        by_metric[f"ci95_low{part}"] = by_metric[f"ci95_high{part}"] = {**identity, **_points(verdicts.official)}
    if slug(sample.field) in FIELDS:
        by_metric[f"official_{slug(sample.field)}"] = official
    for name, count in _counts(verdicts, facts).items():
        by_metric[name] = {**identity, "count": count}
    if (parsed := was_parsed(verdicts.official)) is not None:
        by_metric["parse_rate"] = {**identity, "holds": parsed}
    return by_metric


def record(sample: Sample, verdicts: Verdicts, facts: RequestFacts) -> MetricRow:
    """The sample, its verdicts and the facts; the runner logs it under ``coverage``."""
    return {
        "id": sample.id,
        "index": sample.index,
        "category": sample.category,
        "field": sample.field,
        **graded_fields(verdicts),
        "facts": asdict(facts),
        **{
            name: [{"text": segment.text, "image": segment.image} for segment in segments]
            for name, segments in (("question", sample.question), ("gold", sample.gold))
        },
    }


def graded_fields(verdicts: Verdicts) -> MetricRow:
    """The fields of a record that depend on the readers."""
    return {"official": _points(verdicts.official), "robust": _points(verdicts.robust), "differ": verdicts.differ}


def graded(row: Mapping[str, object]) -> Verdict:
    """The verdict, 0 to 6, of a row.

    >>> graded({"id": "SA-1", "points": 3, "score": 50.0})
    Scored(points=3.0, reading='')
    """
    return verdict_of({name: value for name, value in row.items() if name != "score"})


def facts_of(record: SampleRecord) -> RequestFacts:
    """The facts in a record: the inverse of `record`. Fields of older versions are ignored."""
    facts = record["facts"]
    if not isinstance(facts, Mapping):
        return RequestFacts()
    names = {attribute.name for attribute in fields(RequestFacts)}
    return RequestFacts(**{name: value for name, value in facts.items() if name in names})


def slug(name: str) -> str:
    """A field's name in the form of metric names.

    >>> slug("EECS"), slug(" Project Work ")
    ('eecs', 'project_work')
    """
    return re.sub(r"\W+", "_", name.strip()).lower()


def _row(sample: Sample, verdict: Verdict) -> MetricRow:
    """A row with a score in percent, and the points it is by_metric of."""
    if isinstance(verdict, Scored):
        return as_row(Scored(verdict.points / FULL_MARKS * 100, verdict.reading), id=sample.id, points=verdict.points)
    return as_row(verdict, id=sample.id)


def _points(verdict: Verdict, *also: str) -> MetricRow:
    """A verdict with its points, also under the names in `also`.

    Without ``score`` in the rows, the runner computes no standard error: for the end of an interval
    it would be that of the mean.
    """
    row = as_row(verdict)
    if isinstance(verdict, Scored):
        del row["score"]
        row |= dict.fromkeys(("points", *also), verdict.points)
    return row


def _counts(verdicts: Verdicts, facts: RequestFacts) -> dict[str, int]:
    """Metric to the count that the sample adds; 0 if there is none."""
    counts = {
        "dropped": int(facts.dropped),
        "missing_images": facts.missing_images,
        "bad_images": facts.bad_images,
        "truncated": int(facts.truncated),
        "typed_controls": int(any(facts.typed.values())),
        "differ": int(verdicts.differ),
    }
    if facts.judge_tokens is not None:
        counts["over_4096"] = int(facts.judge_tokens > JUDGE_WINDOW)
    match verdicts.official:
        case Scored(points=points):
            counts[f"points_{points:g}"] = 1
        case Unscored(reason=reason):
            counts[f"unscored_{reason}"] = 1
    return counts


def was_parsed(verdict: Verdict) -> bool | None:
    """Whether points could be read from the reply; None without a reply."""
    if isinstance(verdict, Unscored):
        return False if verdict.reason in _UNREAD else None
    return True


# Aggregation. A sample that the official script leaves out (`left_out`) is counted by `coverage`,
# moves no mean, and does not count against the floor of coverage: no judge is at fault.

Rows: TypeAlias = Sequence[Mapping[str, object]]
Ends: TypeAlias = tuple[float, float]
Interval: TypeAlias = Callable[[Sequence[float]], Ends | None]
"""Computes both ends of an interval of a mean; None for too few points."""


def average(verdicts: Iterable[Verdict], floor: float = COVERAGE_FLOOR) -> Mean:
    """The mean, 0 to 6, rounded as officially; without value below the floor of coverage.

    The official script has no floor: it averages what it can read, however little.

    >>> average([Scored(4), Scored(3), Scored(3), Unscored("left_out")])
    Mean(value=3.333, why_not='')
    """
    counted = [v for v in verdicts if not (isinstance(v, Unscored) and v.reason == "left_out")]
    mean = mean_of(tally(counted), floor)
    return mean if mean.value is None else Mean(mean_points(_point_list(counted)))


def in_percent(verdicts: Iterable[Verdict], floor: float = COVERAGE_FLOOR) -> Mean:
    """`average` in percent of full marks.

    >>> in_percent([Scored(4), Scored(3), Scored(3)]).value
    55.55
    """
    mean = average(verdicts, floor)
    return mean if mean.value is None else Mean(percent_of(mean.value))


def ends(verdicts: Sequence[Verdict], interval: Interval, floor: float = COVERAGE_FLOOR) -> Ends | None:
    """Both ends of the interval of the mean, in percent; None without a mean."""
    if average(verdicts, floor).value is None:
        return None
    limits = interval(_point_list(verdicts))
    return limits and (limits[0] / FULL_MARKS * 100, limits[1] / FULL_MARKS * 100)


def points(rows: Rows, floor: float = COVERAGE_FLOOR) -> float:
    """Mean points, 0 to 6, to 3 decimals; NaN below the floor of coverage."""
    return _or_nan(average(map(graded, rows), floor).value)


def percent(rows: Rows, floor: float = COVERAGE_FLOOR) -> float:
    """Mean in percent of full marks, to 2 decimals; NaN below the floor of coverage.

    >>> percent([{"points": 4, "score": 66.7}, {"points": 3, "score": 50.0}])
    58.33
    """
    return _or_nan(in_percent(map(graded, rows), floor).value)


def ci_low(rows: Rows, interval: Interval, floor: float = COVERAGE_FLOOR) -> float:
    """Lower end of the interval of the mean, in percent of full marks; NaN without one."""
    limits = ends([graded(row) for row in rows], interval, floor)
    return math.nan if limits is None else limits[0]


def ci_high(rows: Rows, interval: Interval, floor: float = COVERAGE_FLOOR) -> float:
    """Upper end of the interval of the mean, in percent of full marks; NaN without one."""
    limits = ends([graded(row) for row in rows], interval, floor)
    return math.nan if limits is None else limits[1]


def coverage(records: Rows) -> float:
    """Samples with an official score, in percent of all, those left out included."""
    return 100 * tally(verdict_in(record, "official") for record in records).coverage


def share(rows: Rows) -> float:
    """Samples whose flag is set, in percent of all that have it."""
    return 100 * sum(bool(row["holds"]) for row in rows) / len(rows)


def total(rows: Rows) -> float:
    """The sum of the counts.

    >>> total([{"count": 2}, {"count": 0}])
    2.0
    """
    return float(sum(count for row in rows if isinstance(count := row["count"], int)))


def plain_mean(scores: Sequence[float]) -> float:
    """Mean of plain scores, 0 to 1, for ``--baseline``."""
    return sum(scores) / len(scores)


def verdict_in(record: Mapping[str, object], kind: str) -> Verdict:
    """The verdict, 0 to 6, that a record has under ``official`` or ``robust``."""
    row = record[kind]
    return graded(row if isinstance(row, Mapping) else {})


def _point_list(verdicts: Iterable[Verdict]) -> list[float]:
    return [verdict.points for verdict in verdicts if isinstance(verdict, Scored)]


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


PARSE_RATE_FLOOR = 95.0
"""Percent. The published scores imply that nearly every reply could be read."""


def notes(records: Sequence[SampleRecord]) -> Iterator[str]:
    """Lines about a run beside its scores; a count has a line also if it is 0."""
    facts = [facts_of(record) for record in records]
    shapes = _listed(Counter(sample.shape or "none" for sample in facts))
    yield (
        f"answers: {shapes}; {sum(sample.answer_images for sample in facts)} images in them; "
        f"{sum(sample.shown_images for sample in facts)} images in the requests to the judge, the "
        "questions' included"
    )
    unread = sum((Counter(sample.unread) for sample in facts), Counter[str]())
    yield f"texts and images of answers that were not read: {_listed(unread) or 0}"
    placeholders = sum(sample.unfilled_placeholders for sample in facts)
    thinking = sum(sample.thinking for sample in facts)
    yield f"answers with thinking: {thinking}; placeholders without an image: {placeholders}"
    yield f"left out by the official script, for more than 4 images: {sum(sample.dropped for sample in facts)}"
    for problem, name in (("missing", "missing_images"), ("unusable", "bad_images")):
        images: list[int] = [getattr(sample, name) for sample in facts]
        yield f"{problem} images: {sum(images)}, in {sum(map(bool, images))} samples"
    yield _long(facts)
    yield f"answers cut by the limit on images: {sum(sample.truncated for sample in facts)}"
    typed = sum((Counter(sample.typed) for sample in facts), Counter[str]())
    samples = sum(any(sample.typed.values()) for sample in facts)
    listed = f": {_listed(typed)}" if samples else ""
    yield f"samples with a control string of the judge in their texts: {samples}{listed}"
    yield _parse_rate([verdict_in(record, "official") for record in records])
    yield f"official and robust scores differ: {sum(bool(record['differ']) for record in records)}"
    for kind in ("official", "robust"):
        verdicts = (verdict_in(record, kind) for record in records)
        reasons = Counter[str](verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
        yield f"without {kind} score: {_listed(reasons)}" if reasons else ""
    yield describe_replies(records)


def _long(facts: Sequence[RequestFacts]) -> str:
    """The number of requests that are longer than those the judge was trained on."""
    lengths = [sample.judge_tokens for sample in facts if sample.judge_tokens is not None]
    title = f"requests over {JUDGE_WINDOW:,} tokens of the judge"
    if not lengths:
        return f"{title}: unknown"
    exact = sum(sample.judge_tokens_exact for sample in facts if sample.judge_tokens is not None)
    sources = {"counted": exact, "estimated": len(lengths) - exact}
    sources["unknown"] = len(facts) - len(lengths)
    long = sum(length > JUDGE_WINDOW for length in lengths)
    listed = _listed({source: count for source, count in sources.items() if count})
    return f"{title}: {long} of {len(lengths)}; lengths {listed}"


def _parse_rate(verdicts: Sequence[Verdict]) -> str:
    parsed = [flag for verdict in verdicts if (flag := was_parsed(verdict)) is not None]
    if not parsed:
        return "replies read: none, as there are no replies"
    rate = 100 * sum(parsed) / len(parsed)
    line = f"replies read: {rate:.2f} % of {len(parsed)}"
    if rate >= PARSE_RATE_FLOOR:
        return line
    warning = "the mean covers only samples with a readable score, and these may differ from the others"
    return f"{line}\nWARNING: below {PARSE_RATE_FLOOR:.0f} %: {warning}"


def _listed(counts: Mapping[str, int]) -> str:
    """Names and counts, the highest count first."""
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{name} ({count})" for name, count in ordered)


_NO_NUMBER = "n/a"


def summary(records: Sequence[SampleRecord], interval: Interval, floor: float = COVERAGE_FLOOR) -> str:
    """A table of scores with their intervals, and the notes, as lines of text.

    Args:
        records: The `record` of each sample; at least one.
        interval: Computes the 95 % interval of a mean of points.
        floor: Of coverage, below which there is no mean, 0 to 1.
    """
    head = f"{'percent':<12}{'official':>9}{'95 % of it':>15}{'robust':>9}{'points':>8}  scored"
    by_field: dict[str, list[SampleRecord]] = {}
    for record in records:
        by_field.setdefault(slug(str(record["field"])), []).append(record)
    by_field.pop("", None)
    parts: dict[str, Sequence[SampleRecord]] = {
        "AVG": records,
        **{name: [r for r in records if r["category"] == name] for name in CATEGORIES},
        **{str(rows[0]["field"]).strip(): rows for _, rows in sorted(by_field.items())},
    }
    counts = Counter(_point_list(verdict_in(record, "official") for record in records))
    histogram = ", ".join(f"{points}: {counts[points]}" for points in range(FULL_MARKS + 1))
    lines = [head, *(_line(name, members, interval, floor) for name, members in parts.items())]
    lines += [f"official points: {histogram}", *notes(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def leaderboard_row(records: Sequence[SampleRecord], model: str, model_type: str) -> dict[str, str | float | None]:
    """A row with the columns of the project's leaderboard, percent to 2 decimals.

    Args:
        records: As for `summary`.
        model: The tested model.
        model_type: ``Interleaved LVLM`` or ``Integrated LVLM``.

    Returns:
        None where there are no samples, or too few with a score.
    """
    row: dict[str, str | float | None] = {"Model": model, "Model Type": model_type}
    official = [(record["category"], verdict_in(record, "official")) for record in records]
    for name in CATEGORIES:
        row[name] = in_percent(verdict for category, verdict in official if category == name).value
    return {**row, "AVG": in_percent(verdict for _, verdict in official).value}


def _line(name: str, records: Sequence[SampleRecord], interval: Interval, floor: float) -> str:
    if not records:
        return ""
    official, robust = ([verdict_in(record, kind) for record in records] for kind in ("official", "robust"))
    means = [in_percent(official, floor), in_percent(robust, floor)]
    limits = ends(official, interval, floor)
    shown_limits = f"{limits[0]:.2f}-{limits[1]:.2f}" if limits else _NO_NUMBER
    texts = (
        f"{_number(means[0].value, 2):>9}{shown_limits:>15}"
        f"{_number(means[1].value, 2):>9}{_number(average(official, floor).value, 3):>8}"
    )
    scored = " and ".join(str(tally(verdicts).scored) for verdicts in (official, robust))
    reason = next((f"  ({mean.why_not})" for mean in means if mean.why_not), "")
    return f"{name:<12}{texts}  {scored} of {len(records)}{reason}"


def _number(value: float | None, decimals: int) -> str:
    return _NO_NUMBER if value is None else f"{value:.{decimals}f}"
