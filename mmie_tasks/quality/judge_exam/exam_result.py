"""The result of a judge's exam on people's verdicts, and the same as text."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mmie_tasks.core.tables import percent_cell, short_name, signed_cell, table
from mmie_tasks.core.wording import counted, listed, wrapped
from mmie_tasks.quality.judge_exam.grade import Grade, Share
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, VerdictSet
from mmie_tasks.record.signature import Signature

COMPARE = "compare"
"""The method of an exam in which the judge compares two answers; every other method has the name of
the benchmark whose prompt the judge got.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedVerdicts:
    """A file of published verdicts, graded in place of a judge that is asked.

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
        exam: What else can move the grade: the set, its pairs, people's verdicts, and the prompt.
        verdict_set: Has only the pairs of this exam.
        no_verdicts: Number of comparisons without a verdict, by reason.
        method: `COMPARE`, or the benchmark in whose prompt the judge gave points to each answer.
        cut_images, cut_texts: How many images and texts of answers that prompt did not show.
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
        """`no_verdicts`, with each reason as text."""
        return {str(no_verdict): count for no_verdict, count in self.no_verdicts.items()}


def exam_text(exam: ExamResult) -> str:
    """The grade in tables, and sentences on coverage and cost."""
    verdict_set = exam.verdict_set
    how = "An undecided judge counts as half."
    if exam.method != COMPARE:
        scores = f"Official scores in the prompt of {exam.method}"
        how = f"{scores} are compared; equal scores count as half."
    rows, names_by_reason = [], defaultdict[str, list[str]](list)
    for name, judge, people in _shares(exam.grade):
        counts = [share.n for share in (judge, people) if share]
        if any(counts):
            cells = ["" if share is None else _cell(share) for share in (judge, people)]
            rows.append([name, *cells, f"{counts[0]:,}"])
        if judge and judge.why_not:
            names_by_reason[judge.why_not].append(name)
    reasons = [f"{', '.join(names)}: {why_not}." for why_not, names in names_by_reason.items()]
    by_subset = exam.grade.by_subset.items()
    subsets = [[short_name(name), _cell(share), f"{share.n:,}"] for name, share in by_subset]
    sentences = [wrapped(f"- {sentence}") for sentence in (*_sentences(exam), *reasons)]
    blocks = [
        f"# Grade of a judge on {counted(len(verdict_set.pairs), 'pair')} of answers",
        wrapped(f"{verdict_set.title}. {how} In percent, with 95 % intervals."),
        f"Verdict: {exam.grade.verdict}",
        table(["", "judge", "people", "cases"], rows),
        _leanings(exam.grade),
        table(["subset", "agreement", "cases"], subsets) if len(subsets) > 1 else "",
        "\n".join(sentences),
        f"judge: {exam.judge}\nexam: {exam.exam}",
    ]
    return "\n\n".join(block for block in blocks if block)


def _shares(result: Grade) -> Iterator[tuple[str, Share | None, Share | None]]:
    """Row titles, with the judge's and people's shares."""
    yield "agreement with people", result.agreement, None
    yield "agreement without people's ties", result.agreement_untied, None
    yield "prefers neither answer", result.undecided, None
    if len(result.by_order) > 1:
        yield "agreement with A shown first", result.by_order["forward"], None
        yield "agreement with B shown first", result.by_order["reverse"], None
    yield "another verdict in the other order", result.flips, None
    yield "prefers the answer shown first", result.first_answer, result.first_answer_people


def _leanings(result: Grade) -> str:
    """The judge's errors by what people prefer; empty if none is known."""
    rows = []
    for title, leaning in (
        ("the one shown first", result.order),
        ("the one with more pictures", result.more_images),
        ("the longer one", result.longer_text),
    ):
        if leaning.difference is not None:
            shares = [_cell(leaning.wrong_for), _cell(leaning.wrong_against)]
            rows.append([title, *shares, signed_cell(leaning.difference, leaning.interval)])
    header = ["wrong where people prefer ...", "that answer", "the other", "difference"]
    return table(header, rows) if rows else ""


def _cell(share: Share) -> str:
    return percent_cell(share.value, share.interval)


def _sentences(exam: ExamResult) -> Iterator[str]:
    result, verdict_set = exam.grade, exam.verdict_set
    reasons = listed(without_details(exam.no_verdicts))
    without = f". Without verdict: {reasons}" if reasons else ""
    judged = f"{result.judged:,} of {counted(result.asked, 'comparison')}"
    yield f"Coverage {percent_cell(result.coverage)} %: {judged} have a verdict{without}."
    if isinstance(exam.judge, Signature):
        noun = "comparisons" if exam.method == COMPARE else "answers"
        usd = "unknown" if exam.usd_per_1000 is None else f"{exam.usd_per_1000:.2f}"
        seconds = "unknown" if exam.seconds_per_1000 is None else f"{exam.seconds_per_1000:,.1f}"
        yield f"Per 1,000 {noun}: US dollars {usd}, seconds {seconds}."
    if exam.cut_images or exam.cut_texts:
        cut = f"{counted(exam.cut_images, 'picture')} and {counted(exam.cut_texts, 'text')}"
        yield f"The prompt of {exam.method} does not show {cut} of the answers."
    if verdict_set.missing_answers:
        missing = counted(verdict_set.missing_answers, "published pair")
        yield f"{missing} left out: their answers are not in the folder."
    yield f"Licence: {verdict_set.licence}. Source: {verdict_set.source}."


def without_details(no_verdicts: Mapping[NoVerdict, int]) -> Mapping[str, int]:
    """Counts by reason, without the details, which may quote the judge."""
    counts: Counter[str] = Counter()
    for no_verdict, count in no_verdicts.items():
        counts[short_name(no_verdict.reason)] += count
    return counts
