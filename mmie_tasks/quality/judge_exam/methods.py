"""Methods of an exam: a judge compares two answers, or gives points to each one.

Comparisons use our own prompt, sent in both orders. Points use a benchmark's own prompt, with one
request for each answer, and its official reader.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.verdict import Scored, Unscored, differ
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.content import content_key
from mmie_tasks.judging.judge import judge_together
from mmie_tasks.judging.requests import CheckedRequest, GradedRequest
from mmie_tasks.quality.judge_exam.comparison_prompt import (
    comparison_request,
    prompt_version,
    read_verdict,
)
from mmie_tasks.quality.judge_exam.exam_result import COMPARE
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, Pair, PairVerdict, PartsInOrder
from mmie_tasks.record.record import BadRecord, NoJudgeRequest
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.segment import Segment, Segments
from mmie_tasks.record.signature import signature_text

RequestMaker: TypeAlias = Callable[[Segments, Segments], GradedRequest]
"""`Benchmark.judge_request`, for questions that are not samples of the benchmark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostedResults:
    """Results in the order of the requests, and their cost.

    Attributes:
        usd_per_1000: US dollars for 1,000 replies, cached ones at their original cost; None if
            there is no reply, or one without a known price.
        seconds_per_1000: Seconds at the judge's concurrency; None if all replies were cached.
    """

    results: Sequence[JudgeResult]
    usd_per_1000: float | None
    seconds_per_1000: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparisons:
    """A judge's replies to all pairs.

    Attributes:
        judgements: Two for each pair if the judge compares, one in each order; else one.
        cut_images, cut_texts: How many images and texts of answers the prompt did not show; an
            answer in several pairs counts once.
    """

    judgements: tuple[PairVerdict, ...]
    outcome: CostedResults
    cut_images: int = 0
    cut_texts: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExamMethod:
    """How a judge is asked about pairs.

    Attributes:
        name: `COMPARE`, or the benchmark in whose prompt the judge gives points to each answer.
        signature: Its part of an exam's signature: name, prompt and token limit.
        ask: Asks a judge about all pairs together; the text is for the progress bar. A request
            that fails or cannot be made gives a judgement without a verdict.
    """

    name: str
    signature: str
    ask: Callable[[Judge, Sequence[Pair], str], Comparisons]


def comparing() -> ExamMethod:
    """Asks which answer of a pair is better, with A first and with B first."""
    return ExamMethod(
        name=COMPARE,
        signature=signature_text(method=COMPARE, prompt=prompt_version()),
        ask=_compare_pairs,
    )


def giving_points(benchmark: str, judge_request: RequestMaker) -> ExamMethod:
    """Has points given to each answer by itself, in a benchmark's own prompt, and compares the
    official scores.

    The signature contains a digest of the request for an answer with the text ``<image>``, which
    some settings of MMIE change. Raises `MmieTasksError` if the prompt is not available.
    """
    request = judge_request((Segment("How?"),), (Segment("So <image>."),)).request
    prompt = f"{content_key(request)[:12]},max_tokens={request.max_tokens}"
    return ExamMethod(
        name=benchmark,
        signature=signature_text(method=benchmark, prompt=prompt),
        ask=partial(_score_answers, judge_request),
    )


def _compare_pairs(judge: Judge, pairs: Sequence[Pair], title: str) -> Comparisons:
    orders = [(pair, is_reversed) for pair in pairs for is_reversed in (False, True)]
    requests = [
        CheckedRequest(request=comparison_request(pair, is_reversed=is_reversed))
        for pair, is_reversed in orders
    ]
    outcome = _judge_with_cost(judge, requests, title)
    judgements = []
    for (pair, order), result in zip(orders, outcome.results, strict=True):
        verdict = result.verdict(read_verdict)
        if isinstance(verdict, Scored):
            judgement = PairVerdict.in_order(pair.id, is_reversed=order, first_wins=verdict.points)
        else:
            why_not = _no_verdict(verdict)
            judgement = PairVerdict(pair=pair.id, is_reversed=order, a_wins=None, why_not=why_not)
        judgements.append(judgement)
    return Comparisons(judgements=tuple(judgements), outcome=outcome)


def _score_answers(
    judge_request: RequestMaker, judge: Judge, pairs: Sequence[Pair], title: str
) -> Comparisons:
    """Compare the points of each pair's answers; an answer in several pairs is judged once."""
    answers = dict.fromkeys((pair.question, answer) for pair in pairs for answer in pair.answers)
    request_or_reason = {answer: _request_or_reason(judge_request, *answer) for answer in answers}
    requests = [r for r in request_or_reason.values() if isinstance(r, GradedRequest)]
    by_content = {request.request: request for request in requests}
    outcome = _judge_with_cost(judge, list(by_content.values()), title)
    results = dict(zip(by_content, outcome.results, strict=True))
    points: dict[tuple[PartsInOrder, PartsInOrder], float | NoVerdict] = {}
    for answer, request in request_or_reason.items():
        if isinstance(request, NoVerdict):
            points[answer] = request
        else:
            verdict = request.grade(results[request.request]).official
            points[answer] = verdict.points if isinstance(verdict, Scored) else _no_verdict(verdict)
    judgements = []
    for pair in pairs:
        a, b = (points[pair.question, answer] for answer in pair.answers)
        judgements.append(_compared(pair.id, a, b))
    return Comparisons(
        judgements=tuple(judgements),
        cut_images=sum(request.cut_images for request in requests),
        cut_texts=sum(request.cut_texts for request in requests),
        outcome=outcome,
    )


def _compared(pair: str, a: float | NoVerdict, b: float | NoVerdict) -> PairVerdict:
    if isinstance(a, NoVerdict):
        return PairVerdict(pair=pair, is_reversed=None, a_wins=None, why_not=a)
    if isinstance(b, NoVerdict):
        return PairVerdict(pair=pair, is_reversed=None, a_wins=None, why_not=b)
    a_wins = float(a > b) if differ(Scored(a), Scored(b)) else 0.5
    return PairVerdict(pair=pair, is_reversed=None, a_wins=a_wins)


def _request_or_reason(
    judge_request: RequestMaker, question: PartsInOrder, answer: PartsInOrder
) -> GradedRequest | NoVerdict:
    try:
        return judge_request(_logged(question), _logged(answer))
    except NoJudgeRequest as error:
        return _no_verdict(error.unscored)
    except (BadRecord, MmieTasksError) as error:
        return NoVerdict(first_line(error))


def _logged(content: PartsInOrder) -> Segments:
    return tuple(
        Segment(part or None) if isinstance(part, str) else Segment(image=str(part))
        for part in content
    )


def _no_verdict(unscored: Unscored) -> NoVerdict:
    return NoVerdict(unscored.reason, unscored.detail)


def _judge_with_cost(judge: Judge, requests: Sequence[CheckedRequest], title: str) -> CostedResults:
    began_s = time.monotonic()
    results = judge_together(judge, requests, title)
    elapsed_s = time.monotonic() - began_s
    replies = [reply for result in results for reply in result.replies]
    sent = sum(not reply.cached for reply in replies)
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None]
    return CostedResults(
        results=results,
        usd_per_1000=1000 * sum(known) / len(known) if known and len(known) == len(costs) else None,
        seconds_per_1000=1000 * elapsed_s / sent if sent else None,
    )
