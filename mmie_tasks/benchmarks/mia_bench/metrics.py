"""Metrics of MIA-Bench: the rows that one sample adds to each metric, and the summary of a run.

All scores are in percent of full marks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from mmie_tasks.benchmarks.mia_bench import official
from mmie_tasks.benchmarks.mia_bench.robust import ParsedReply, read_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import (
    COVERAGE_FLOOR,
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
from mmie_tasks.runs.replies import describe_replies, replies_of

MetricRow = dict[str, object]
"""What one sample adds to one metric, as the runner logs it."""

SampleRecord = Mapping[str, object]
"""A sample's row under ``coverage``: see `record`."""

SCORE_KINDS = ("official", "robust")
SUFFIXES = ("", "_clean", *(f"_{name}" for name in (*CATEGORIES, *TYPES)))
"""What follows ``official`` and ``robust`` in the names of the metrics."""

REASONS: tuple[UnscoredReason, ...] = tuple(
    reason for reason in get_args(UnscoredReason) if reason not in ("bad_gold", "not_scorable", "left_out")
)
"""Without those of gold answers, which no sample has, and of samples that the script leaves out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """The two verdicts of one sample, as fractions of full marks.

    Attributes:
        official: Verdict of the first reply.
        official_text: The first reply; empty if there is none.
        robust: Verdict of the last reply: the second one if the first was impossible.
        robust_text: The last reply; empty if there is none.
    """

    official: Verdict
    official_text: str = ""
    robust: Verdict
    robust_text: str = ""

    @property
    def differs(self) -> bool:
        """Whether official and robust totals differ, or only one of them exists."""
        return differ(self.official, self.robust)


def ungraded(reason: UnscoredReason, detail: str) -> Grading:
    """Unscored twice, for a reason outside the judge's reply."""
    verdict = Unscored(reason, detail)
    return Grading(official=verdict, robust=verdict)


def certain(sample: Sample) -> tuple[str, ...]:
    """The metrics that a sample has a row for whether or not it is scored."""
    names = ["", f"_{sample.type}", *(f"_{name}" for name in dict.fromkeys(sample.categories))]
    if not sample.contradictory:
        names.append("_clean")
    return ("coverage", "robust_coverage", "differ", *(f"{kind}{name}" for kind in SCORE_KINDS for name in names))


def rows(sample: Sample, grading: Grading, logged: Mapping[str, object]) -> dict[str, MetricRow]:
    """The rows of one sample, by metric.

    Args:
        sample: The instruction.
        grading: Its verdicts.
        logged: Further fields that scoring it again needs: the replies, the signature.
    """
    parts = _parts(sample, grading)
    by_metric: dict[str, MetricRow] = {
        "coverage": {**record(sample, grading), **logged},
        "robust_coverage": {"scored": isinstance(grading.robust, Scored)},
        "differ": {"differ": grading.differs},
    }
    for name, verdict in (("official", grading.official), ("robust", grading.robust)):
        whole = _row(sample, verdict)
        by_metric[name] = by_metric[f"{name}_{sample.type}"] = whole
        if not sample.contradictory:
            by_metric[f"{name}_clean"] = whole
        for category in dict.fromkeys(sample.categories):
            row, share = whole, parts[name].get(category)
            if isinstance(verdict, Scored):
                no_mark = Unscored("unparsed", "no mark for this category")
                row = _row(sample, no_mark if share is None else Scored(share))
            by_metric[f"{name}_{category}"] = row
    if isinstance(grading.official, Unscored):
        by_metric[f"unscored_{grading.official.reason}"] = {"id": sample.id}
    return by_metric


def record(sample: Sample, grading: Grading) -> MetricRow:
    """The sample, its verdicts and its marks; the runner logs it under ``coverage``."""
    return {
        "id": sample.id,
        "type": sample.type,
        "categories": list(sample.categories),
        "weights": list(sample.weights),
        "contradictory": sample.contradictory,
        "asked": list(sample.components),
        **graded_fields(sample, grading),
    }


def graded_fields(sample: Sample, grading: Grading) -> MetricRow:
    """The fields of a record that depend on the readers."""
    parsed = read_reply(grading.robust_text, sample.weights)
    return {
        "official": _row(sample, grading.official),
        "robust": _row(sample, grading.robust),
        "components": [mark and [mark.points, mark.out_of] for mark in parsed.components],
        "total": parsed.total and [parsed.total.points, parsed.total.out_of],
        "recomputed": None if parsed.recomputed is None else 100 * parsed.recomputed,
        "agrees": parsed.agrees,
        "differ": grading.differs,
        "parts": _parts(sample, grading),
    }


def category_shares(sample: Sample, parsed: ParsedReply) -> dict[str, float]:
    """Category to the mean share of full marks (0 to 1) of its components; empty with a doubt."""
    shares: dict[str, list[float]] = defaultdict(list)
    if parsed.doubt is None:
        for category, mark in zip(sample.categories, parsed.components, strict=True):
            if mark is not None:
                shares[category].append(mark.share)
    return {category: sum(values) / len(values) for category, values in shares.items()}


def _parts(sample: Sample, grading: Grading) -> dict[str, dict[str, float]]:
    """Score kind to category to the share of full marks, 0 to 1."""
    parts: dict[str, dict[str, float]] = {"official": {}, "robust": {}}
    if isinstance(grading.official, Scored):
        parts["official"] = official.scores(sample.categories, grading.official_text)
        del parts["official"][official.TOTAL]
    if isinstance(grading.robust, Scored):
        parts["robust"] = category_shares(sample, read_reply(grading.robust_text, sample.weights))
    return parts


def _row(sample: Sample, verdict: Verdict) -> MetricRow:
    return as_row(in_percent(verdict), id=sample.id)


def in_percent(verdict: Verdict) -> Verdict:
    """A verdict on a fraction of full marks, in percent of them."""
    return Scored(100 * verdict.points, verdict.reading) if isinstance(verdict, Scored) else verdict


def summary(records: Sequence[SampleRecord], floor: float = COVERAGE_FLOOR) -> str:
    """A table of official and robust scores, with reasons, judges and usage, as lines of text.

    Args:
        records: The `record` of each sample; at least one.
        floor: Of coverage, below which there is no mean, 0 to 1.
    """
    clean = [record for record in records if not record["contradictory"]]
    lines = [f"{'percent of full marks':<22}{'official':>9}{'robust':>9}  scored"]
    lines += [_line("total", floor, *_totals(records)), _line("clean", floor, *_totals(clean))]
    for name in TYPES:
        lines.append(_line(name, floor, *_totals([r for r in records if r["type"] == name])))
    for name in CATEGORIES:
        lines.append(_line(name, floor, *(_category_verdicts(records, kind, name) for kind in SCORE_KINDS)))
    for kind, verdicts in zip(SCORE_KINDS, _totals(records), strict=True):
        reasons = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
        listed = ", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items()))
        lines.append(f"without {kind} score: {listed}" if listed else "")
    lines += [_agreement(records), describe_replies(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def _totals(records: Sequence[SampleRecord]) -> list[list[Verdict]]:
    return [[verdict_of(_mapping(record[kind])) for record in records] for kind in SCORE_KINDS]


def _category_verdicts(records: Sequence[SampleRecord], kind: str, category: str) -> list[Verdict]:
    """The share of full marks for a category, of each sample that has it."""
    verdicts: list[Verdict] = []
    for record in records:
        categories = record["categories"]
        if isinstance(categories, list) and category in categories:
            share = _mapping(_mapping(record["parts"])[kind]).get(category)
            if isinstance(share, (int, float)):
                verdicts.append(Scored(100 * share))
            else:
                verdicts.append(Unscored("unparsed"))
    return verdicts


def _line(name: str, floor: float, official: Sequence[Verdict], robust: Sequence[Verdict]) -> str:
    if not official:
        return ""
    tallies = [tally(official), tally(robust)]
    means = [mean_of(counts, floor) for counts in tallies]
    texts = ["n/a" if mean.value is None else f"{mean.value:.2f}" for mean in means]
    values = "".join(f"{text:>9}" for text in texts)
    scored = " and ".join(str(counts.scored) for counts in tallies)
    reason = f"  ({means[0].why_not})" if means[0].why_not else ""
    return f"{name:<22}{values}  {scored} of {len(official)}{reason}"


def _agreement(records: Sequence[SampleRecord]) -> str:
    differ = sum(bool(record["differ"]) for record in records)
    unsound = sum(not record["agrees"] for record in records)
    repeated = sum(len(replies_of(record)) > 1 for record in records)
    return (
        f"official and robust scores differ: {differ}; the stated total is not that of its parts: "
        f"{unsound}; requested twice: {repeated}"
    )


def _mapping(value: object) -> SampleRecord:
    return value if isinstance(value, Mapping) else {}
