"""The rule by which a panel of judges gives one verdict."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import Field

Rule: TypeAlias = Literal["mean", "median", "majority"]
RULES: tuple[Rule, ...] = get_args(Rule)
_DECIMALS = 9  # equal up to these is the same vote: fractions may be computed in two ways


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How several judges give one verdict.

    Attributes:
        rule: How the points of the judges that gave any are combined. ``majority``, only in older
            logs, is the most frequent points, or the mean of several most frequent ones.
        min_valid: The sample is unscored if fewer judges give points.
    """

    rule: Rule = "median"
    min_valid: Annotated[int, Field(ge=1)]

    def combined(self, points: Sequence[float]) -> float:
        """The panel's points, not rounded.

        >>> Panel(min_valid=2).combined([2, 2, 5])
        2
        """
        match self.rule:
            case "median":
                return statistics.median(points)
            case "majority":
                points = statistics.multimode(round(value, _DECIMALS) for value in points)
        return sum(points) / len(points)  # works with infinite points, unlike `fmean`
