"""Two raters' points of the same samples: distinct pairs, and how often each occurs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mmie_tasks.agreement.resampling import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """What two raters gave to the same samples.

    Attributes:
        judge: Points of one rater; shape ``(distinct pairs,)``, in ascending order.
        reference: Points of the other; the same shape.
        counts: How many samples have this pair.
    """

    judge: Floats
    reference: Floats
    counts: Ints

    @property
    def samples(self) -> int:
        """How many samples both rated."""
        return int(self.counts.sum())

    @property
    def one_by_one(self) -> tuple[Floats, Floats]:
        """Both raters' points, one entry a sample."""
        return np.repeat(self.judge, self.counts), np.repeat(self.reference, self.counts)

    @property
    def rounded(self) -> Pairs:
        """With points rounded to whole numbers, halves to the even one."""
        return Pairs(np.rint(self.judge), np.rint(self.reference), self.counts)

    @property
    def whole(self) -> bool:
        """Whether all points are whole numbers."""
        return bool(np.all(np.rint(self.judge) == self.judge)) and bool(
            np.all(np.rint(self.reference) == self.reference)
        )


def pairs_of(judge: Floats, reference: Floats) -> Pairs:
    """The pairs of the samples that both rated.

    Args:
        judge: Points of one rater, one entry a sample; NaN where there are none.
        reference: Of the other, in the same order.
    """
    both = np.isfinite(judge) & np.isfinite(reference)
    rows = np.column_stack((judge[both], reference[both]))
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return Pairs(distinct[:, 0], distinct[:, 1], counts)
