"""The robust reading: what the judge evidently said, whatever the marks and the order.

Beside the official one, never instead of it. The README of this room lists each difference.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.benchmarks.mia_bench.scoring.reading import Reading, read_reply
from mmie_tasks.verdict import Scored, Unscored, Verdict

_TENTHS = 10  # the official prompt asks for a total out of 10, whatever the weights


def robust(sample: Sample, reply: object) -> Verdict:
    """The total as a fraction of full marks, 0 to 1.

    The total the judge states; where it states none, or the weights do not add up to 10 and so the
    asked total has no full marks, the one that its components make.
    """
    if not isinstance(reply, str):
        return Unscored("unparsed", f"the reply is {type(reply).__name__}, not text")
    reading = read_reply(reply, sample.weights)
    return reading.doubt or Scored(points(reading, sample.weights))


def points(reading: Reading, weights: Sequence[int]) -> float:
    """The total of a reading without doubt, as a fraction of full marks, 0 to 1."""
    if reading.total is not None and sum(weights) == _TENTHS:
        return reading.total.share
    return reading.recomputed or 0.0


def impossible(sample: Sample, reply: str) -> bool:
    """Whether a reply says something that cannot be meant, and is worth asking for once more."""
    verdict = robust(sample, reply)
    return isinstance(verdict, Unscored) and verdict.reason == "off_scale"


def of_categories(sample: Sample, reading: Reading) -> dict[str, float]:
    """Category to the mean share of full marks of all its components; empty with a doubt."""
    shares: dict[str, list[float]] = {}
    if reading.doubt is None:
        for category, mark in zip(sample.categories, reading.components, strict=True):
            if mark is not None:
                shares.setdefault(category, []).append(mark.share)
    return {category: sum(values) / len(values) for category, values in shares.items()}
