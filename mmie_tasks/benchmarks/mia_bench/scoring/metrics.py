"""What one sample adds to which number: the values behind each row of the runner's table.

All scores are in percent of full marks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.benchmarks.mia_bench.scoring import official
from mmie_tasks.benchmarks.mia_bench.scoring.reading import read_reply
from mmie_tasks.benchmarks.mia_bench.scoring.robust import of_categories
from mmie_tasks.verdict import Scored, Unscored, UnscoredReason, Verdict, as_row, differ

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
    robust = of_categories(sample, reading) if isinstance(grading.robust, Scored) else {}
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
