"""Metrics of MIA-Bench: the rows that one sample adds to each metric, and the summary of a run.

All scores are in percent of full marks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.mia_bench import official
from mmie_tasks.benchmarks.mia_bench.robust import ParsedReply, read_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Scored, Unscored, UnscoredReason, Verdict, as_row, differ
from mmie_tasks.runs.benchmark import LoggedSample, Metric, Scale, ScoreKind
from mmie_tasks.runs.rows import RunnerTable, replies_of

MetricRow = dict[str, object]
"""What one sample adds to one metric, as the runner logs it."""

SampleRecord = Mapping[str, object]
"""A sample's row under ``coverage``: see `record`."""

FULL_MARKS = 100
CLEAN = "clean"
"""The group of the samples that do not contradict themselves."""

SCALE = Scale(full_marks=FULL_MARKS, unit="percent of full marks", percent=lambda mean: mean)
METRICS = (
    Metric(name="", title="Total", kind="headline"),
    Metric(name=CLEAN, title="Total without contradictory samples", kind="headline", by=CLEAN, weights={CLEAN: 1}),
    *(
        Metric(
            name=name,
            title=name.replace("_", " ").capitalize(),
            kind=kind,
            by=kind,
            weights={name: 1},
            in_table=True,
            part=name if kind == "component" else "",
        )
        for kind, names in (("component", CATEGORIES), ("type", TYPES))
        for name in names
    ),
)
TABLE = RunnerTable(metrics=(METRICS[0], *(metric for metric in METRICS if metric.in_table)), scale=SCALE)


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


def graded_sample(sample: Sample, grading: Grading) -> LoggedSample:
    """The sample with its verdicts, in percent, and its groups, as the runner's table needs it."""
    return LoggedSample(
        id=sample.id,
        official=in_percent(grading.official),
        robust=in_percent(grading.robust),
        groups=groups(sample.type, sample.categories, contradictory=sample.contradictory),
        parts=_parts(sample, grading),
    )


def groups(kind: str, categories: Iterable[str], *, contradictory: bool) -> dict[str, tuple[str, ...]]:
    """Kind of group to the groups of a sample."""
    clean = {} if contradictory else {CLEAN: (CLEAN,)}
    return {"type": (kind,), "component": tuple(dict.fromkeys(categories)), **clean}


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


def _parts(sample: Sample, grading: Grading) -> dict[ScoreKind, dict[str, float]]:
    """Score kind to category to the share of full marks, 0 to 1."""
    parts: dict[ScoreKind, dict[str, float]] = {"official": {}, "robust": {}}
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


def counts(records: Sequence[SampleRecord]) -> dict[str, float]:
    """MIA-Bench's own counts, for the results file: ``unsound_totals`` and ``requested_twice``, in samples."""
    return {
        "unsound_totals": float(sum(not record["agrees"] for record in records)),
        "requested_twice": float(sum(len(replies_of(record)) > 1 for record in records)),
    }


def notes(records: Sequence[SampleRecord]) -> Iterator[str]:
    """Lines about the replies of a run; what did not occur has no line."""
    totals = counts(records)
    if unsound := totals["unsound_totals"]:
        yield f"the stated total is not that of its parts: {unsound:,.0f}"
    if repeated := totals["requested_twice"]:
        yield f"requested twice, because the first reply was impossible: {repeated:,.0f}"
