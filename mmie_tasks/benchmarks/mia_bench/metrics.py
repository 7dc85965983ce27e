"""What one sample adds to which number: the values behind each row of the runner's table.

All scores are in percent of full marks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.benchmarks.mia_bench import official
from mmie_tasks.benchmarks.mia_bench.robust import ParsedReply, read_reply
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import (
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

Row = dict[str, object]
NUMBERS = ("", "_clean", *(f"_{name}" for name in (*CATEGORIES, *TYPES)))
"""What comes after ``official`` and ``robust`` in the names of the metrics."""

REASONS: tuple[UnscoredReason, ...] = (
    "no_answer",
    "not_text",
    "bad_image",
    "unavailable",
    "unfit",
    "refused",
    "cut_off",
    "unparsed",
    "off_scale",
    "budget",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grading:
    """One sample's verdict, read twice; as fractions of full marks.

    Attributes:
        official: Of the first reply.
        official_text: That reply; empty where there is none.
        robust: Of the last reply: the second where the first was impossible.
        robust_text: That reply.
    """

    official: Verdict
    official_text: str = ""
    robust: Verdict
    robust_text: str = ""

    @property
    def differs(self) -> bool:
        """Whether the readings give different totals, or only one gives any."""
        return differ(self.official, self.robust)


def ungraded(reason: UnscoredReason, detail: str) -> Grading:
    """No verdict in either reading, for a reason outside the judge's reply."""
    verdict = Unscored(reason, detail)
    return Grading(official=verdict, robust=verdict)


def certain(sample: Sample) -> tuple[str, ...]:
    """The metrics that a sample has a row for, whatever comes of it."""
    names = ["", f"_{sample.type}", *(f"_{name}" for name in dict.fromkeys(sample.categories))]
    if not sample.contradictory:
        names.append("_clean")
    both = (f"{reading}{name}" for reading in ("official", "robust") for name in names)
    return ("coverage", "robust_coverage", "differ", *both)


def rows(sample: Sample, grading: Grading, logged: Mapping[str, object]) -> dict[str, Row]:
    """The rows of one sample, by metric.

    Args:
        sample: The instruction.
        grading: What came of it.
        logged: What else is needed to score it again: the replies, the signature.
    """
    parts = _parts(sample, grading)
    made: dict[str, Row] = {
        "coverage": {**record(sample, grading), **logged},
        "robust_coverage": {"scored": isinstance(grading.robust, Scored)},
        "differ": {"differ": grading.differs},
    }
    for name, verdict in (("official", grading.official), ("robust", grading.robust)):
        whole = _row(sample, verdict)
        made[name] = made[f"{name}_{sample.type}"] = whole
        if not sample.contradictory:
            made[f"{name}_clean"] = whole
        for category in dict.fromkeys(sample.categories):
            made[f"{name}_{category}"] = _part(sample, verdict, parts[name].get(category))
    if isinstance(grading.official, Unscored):
        made[f"unscored_{grading.official.reason}"] = {"id": sample.id}
    return made


def record(sample: Sample, grading: Grading) -> Row:
    """The sample, its verdicts, and what was read; the runner logs it under ``coverage``."""
    return {
        "id": sample.id,
        "type": sample.type,
        "categories": list(sample.categories),
        "weights": list(sample.weights),
        "contradictory": sample.contradictory,
        "asked": list(sample.components),
        **read_in(sample, grading),
    }


def read_in(sample: Sample, grading: Grading) -> Row:
    """What the readings put into a record."""
    reading = read_reply(grading.robust_text, sample.weights)
    return {
        "official": _row(sample, grading.official),
        "robust": _row(sample, grading.robust),
        "components": [mark and [mark.points, mark.out_of] for mark in reading.components],
        "total": reading.total and [reading.total.points, reading.total.out_of],
        "recomputed": None if reading.recomputed is None else 100 * reading.recomputed,
        "agrees": reading.agrees,
        "differ": grading.differs,
        "parts": _parts(sample, grading),
    }


def _parts(sample: Sample, grading: Grading) -> dict[str, dict[str, float]]:
    """Of each reading, category to its share of full marks."""
    reading = read_reply(grading.robust_text, sample.weights)
    robust = category_shares(sample, reading) if isinstance(grading.robust, Scored) else {}
    return {"official": _official_parts(sample, grading), "robust": robust}


def _row(sample: Sample, verdict: Verdict) -> Row:
    return as_row(_percent(verdict), id=sample.id)


def _part(sample: Sample, verdict: Verdict, share: float | None) -> Row:
    """The row of a category: scored where the sample is, and the reading has a mark for it."""
    if isinstance(verdict, Unscored):
        return _row(sample, verdict)
    if share is None:
        return _row(sample, Unscored("unparsed", "no mark for this category"))
    return _row(sample, Scored(share))


def _percent(verdict: Verdict) -> Verdict:
    return Scored(100 * verdict.points) if isinstance(verdict, Scored) else verdict


def _official_parts(sample: Sample, grading: Grading) -> dict[str, float]:
    if isinstance(grading.official, Unscored):
        return {}
    found = official.scores(sample.categories, grading.official_text)
    return {name: share for name, share in found.items() if name != official.TOTAL}


# The run in one table of words: both readings side by side, why not, who judged, what it cost.

Record = Mapping[str, object]
_READINGS = ("official", "robust")


def summary(records: Sequence[Record]) -> str:
    """Lines of text.

    Args:
        records: What `metrics.rows` made of each sample under ``coverage``; at least one.
    """
    clean = [record for record in records if not record["contradictory"]]
    lines = [f"{'percent of full marks':<22}{'official':>9}{'robust':>9}  scored"]
    lines += [_line("total", *_totals(records)), _line("clean", *_totals(clean))]
    for kind in TYPES:
        lines.append(_line(kind, *_totals([r for r in records if r["type"] == kind])))
    for category in CATEGORIES:
        lines.append(
            _line(category, *(_parts_summary(records, each, category) for each in _READINGS))
        )
    for reading, verdicts in zip(_READINGS, _totals(records), strict=True):
        lines.append(_unscored(reading, verdicts))
    lines += [_agreement(records), describe_replies(records)]
    lines += sorted({str(record["signature"]) for record in records})
    return "\n".join(line for line in lines if line)


def _totals(records: Sequence[Record]) -> list[list[Verdict]]:
    return [[_verdict(record, reading) for record in records] for reading in _READINGS]


def _verdict(record: Record, reading: str) -> Verdict:
    return verdict_of(_mapping(record[reading]))


def _parts_summary(records: Sequence[Record], reading: str, category: str) -> list[Verdict]:
    """The marks for a category, of the samples that have it."""
    found: list[Verdict] = []
    for record in records:
        categories = record["categories"]
        if isinstance(categories, list) and category in categories:
            share = _mapping(_mapping(record["parts"])[reading]).get(category)
            if isinstance(share, (int, float)):
                found.append(Scored(100 * share))
            else:
                found.append(Unscored("unparsed"))
    return found


def _line(name: str, official: Sequence[Verdict], robust: Sequence[Verdict]) -> str:
    if not official:
        return ""
    tallies = [tally(official), tally(robust)]
    means = [mean_of(found) for found in tallies]
    texts = ["n/a" if mean.value is None else f"{mean.value:.2f}" for mean in means]
    values = "".join(f"{text:>9}" for text in texts)
    scored = " and ".join(str(found.scored) for found in tallies)
    why = f"  ({means[0].why_not})" if means[0].why_not else ""
    return f"{name:<22}{values}  {scored} of {len(official)}{why}"


def _unscored(reading: str, verdicts: Sequence[Verdict]) -> str:
    reasons = Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
    listed = ", ".join(f"{reason} {n}" for reason, n in sorted(reasons.items()))
    return f"unscored in the {reading} reading: {listed}" if listed else ""


def _agreement(records: Sequence[Record]) -> str:
    differ = sum(bool(record["differ"]) for record in records)
    unsound = sum(not record["agrees"] for record in records)
    again = sum(len(replies_of(record)) > 1 for record in records)
    return (
        f"the readings differ on {differ}; the stated total is not that of its parts on {unsound}; "
        f"asked once more: {again}"
    )


def _mapping(value: object) -> Record:
    return value if isinstance(value, Mapping) else {}


def category_shares(sample: Sample, parsed: ParsedReply) -> dict[str, float]:
    """Category to the mean share of full marks (0 to 1) of its components; empty with a doubt."""
    shares: dict[str, list[float]] = defaultdict(list)
    if parsed.doubt is None:
        for category, mark in zip(sample.categories, parsed.components, strict=True):
            if mark is not None:
                shares[category].append(mark.share)
    return {category: sum(values) / len(values) for category, values in shares.items()}
