"""The result of an exam as text: the grade in tables, and sentences on coverage and cost."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from mmie_tasks.core.tables import percent_cell, short_name, signed_cell, table
from mmie_tasks.core.wording import counted, listed, wrapped
from mmie_tasks.quality.judge_exam.exam_result import COMPARE, ExamResult
from mmie_tasks.quality.judge_exam.grade import Grade
from mmie_tasks.quality.judge_exam.question_shares import Share
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict
from mmie_tasks.record.signature import Signature


def exam_text(exam: ExamResult) -> str:
    """The grade in tables, by order and by subset, and what it is of."""
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
    """Titles of rows, with the judge's and people's share."""
    yield "agreement with people", result.agreement, None
    yield "agreement without people's ties", result.agreement_untied, None
    yield "prefers neither answer", result.undecided, None
    if len(result.by_order) > 1:
        yield "agreement with A shown first", result.by_order["forward"], None
        yield "agreement with B shown first", result.by_order["reverse"], None
    yield "another verdict in the other order", result.flips, None
    yield "prefers the answer shown first", result.first_answer, result.first_answer_people


def _leanings(result: Grade) -> str:
    """The judge's errors by what people prefer; empty if nothing of it is known."""
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
        yield _cost_text(noun, exam.usd_per_1000, exam.seconds_per_1000)
    if exam.cut_images or exam.cut_texts:
        cut = f"{counted(exam.cut_images, 'picture')} and {counted(exam.cut_texts, 'text')}"
        yield f"The prompt of {exam.method} does not show {cut} of the answers."
    if verdict_set.missing_answers:
        missing = counted(verdict_set.missing_answers, "published pair")
        yield f"{missing} left out: their answers are not in the folder."
    yield f"Licence: {verdict_set.licence}. Source: {verdict_set.source}."


def _cost_text(noun: str, usd_per_1000: float | None, seconds_per_1000: float | None) -> str:
    """The cost as a sentence."""
    usd = "unknown" if usd_per_1000 is None else f"{usd_per_1000:.2f}"
    seconds = "unknown" if seconds_per_1000 is None else f"{seconds_per_1000:,.1f}"
    return f"Per 1,000 {noun}: US dollars {usd}, seconds {seconds}."


def without_details(no_verdicts: Mapping[NoVerdict, int]) -> Mapping[str, int]:
    """Reasons without their details, which may quote the judge."""
    counts: Counter[str] = Counter()
    for no_verdict, count in no_verdicts.items():
        counts[short_name(no_verdict.reason)] += count
    return counts
