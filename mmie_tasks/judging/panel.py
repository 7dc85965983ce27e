"""Several judges of one benchmark: the rule that makes one verdict of theirs, and what a sample's record has of them.

Each judge's replies are read by the benchmark's own readers and cached under the judge's own signature. The rule is
applied to the verdicts, so another rule makes no requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Literal, TypeAlias

from mmie_tasks.core.verdict import Verdicts
from mmie_tasks.judging.requests import JudgeResult

Rule: TypeAlias = Literal["mean", "median", "majority"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """How several judges make one verdict.

    Attributes:
        rule: Combines the points of the judges that gave any. ``majority``: the points that most judges give; of
            several such, their mean.
        min_valid: The fewest judges with points; with fewer, the sample is unscored.
        is_cascade: Whether a judge is asked only where those before it are unsure.
        max_entropy_bits: In a cascade, a single verdict with an entropy up to this one is sure.
        max_spread: In a cascade, verdicts whose points differ by no more than this agree; in percent of full marks.
    """

    rule: Rule = "mean"
    min_valid: int
    is_cascade: bool = False
    max_entropy_bits: float = 1.0
    max_spread: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResult:
    """What one judge replied to a request.

    Attributes:
        judge: The judge's signature.
        result: Its replies, or why there are none.
        verdicts: Its verdicts, on the benchmark's own scale.
    """

    judge: str
    result: JudgeResult
    verdicts: Verdicts


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """The verdicts on an answer, and the judges' replies.

    Attributes:
        verdicts: On the benchmark's own scale; of a panel, the combined ones.
        members: The judges that were asked, in the panel's order; one without a panel, none if nothing was sent.
        panel: None for a single judge.
    """

    verdicts: Verdicts
    members: tuple[MemberResult, ...] = ()
    panel: Panel | None = None

    @property
    def result(self) -> JudgeResult:
        """The result of the first judge."""
        return self.members[0].result if self.members else JudgeResult()

    @property
    def fields(self) -> Mapping[str, object]:
        """The fields of a sample's record about the judges: ``replies``."""
        return {"replies": [asdict(reply) for reply in self.result.replies]}
