"""The result of a judge's exam on people's verdicts: its grade and what that depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mmie_tasks.quality.judge_exam.grade import Grade
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, VerdictSet
from mmie_tasks.record.signature import Signature

COMPARE = "compare"
"""The method of an exam in which the judge compares two answers; of others, the benchmark whose
prompt it got.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVerdicts:
    """A file of verdicts that are published for a judge, by name and digest: in an exam in the
    place of a judge who is asked.

    >>> str(PublishedVerdicts(file="gpt-5.json", digest="0123456789ab"))
    'verdicts:gpt-5.json,0123456789ab'
    """

    file: str
    digest: str

    def __str__(self) -> str:
        return f"verdicts:{self.file},{self.digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamResult:
    """The result of an exam.

    Attributes:
        judge: The signature of the judge that was asked, or the verdicts published for one.
        exam: What else can move the grade: set, pairs and people's verdicts, and the prompt.
        verdict_set: With the pairs of this exam only.
        no_verdicts: Why comparisons have no verdict, to their number.
        method: `COMPARE`, or the benchmark in whose prompt the judge gave points to each answer;
            `cut_images` and `cut_texts` are those of all answers that this prompt did not show.
        usd_per_1000, seconds_per_1000: US dollars and seconds for 1,000 comparisons, or 1,000
            answers with points; None if unknown.
    """

    judge: Signature | PublishedVerdicts
    exam: str
    verdict_set: VerdictSet
    grade: Grade
    no_verdicts: Mapping[NoVerdict, int]
    method: str = COMPARE
    cut_images: int = 0
    cut_texts: int = 0
    usd_per_1000: float | None = None
    seconds_per_1000: float | None = None

    @property
    def why_not(self) -> Mapping[str, int]:
        """The texts of `no_verdicts`, to their number."""
        return {str(no_verdict): count for no_verdict, count in self.no_verdicts.items()}
