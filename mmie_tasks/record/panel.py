"""A panel: several judges that make one verdict, and its rule."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

Rule: TypeAlias = Literal["mean", "median", "majority"]
RULES: tuple[Rule, ...] = get_args(Rule)
_DECIMALS = 9  # points that are equal up to these are the same vote: fractions computed in two ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How several judges make one verdict.

    Attributes:
        rule: Combines the points of the judges that gave any. ``majority``, which older logs have:
            the points that most judges give; of several such, their mean.
        min_valid: The fewest judges with points; with fewer, the sample is unscored.
    """

    rule: Rule = "median"
    min_valid: Annotated[int, Field(ge=1)]

    def combined(self, points: Sequence[float]) -> float:
        """The panel's points: one value of those of its judges, not rounded.

        >>> Panel(min_valid=2).combined([2, 2, 5])
        2
        """
        match self.rule:
            case "median":
                return statistics.median(points)
            case "majority":
                points = statistics.multimode(round(value, _DECIMALS) for value in points)
        return sum(points) / len(points)  # also of points that are infinite, unlike `fmean`
