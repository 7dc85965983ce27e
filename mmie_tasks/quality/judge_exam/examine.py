"""Examines a judge on people's verdicts: asks it, or reads verdicts that are published for it."""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.wording import counted
from mmie_tasks.judges.base import Judge
from mmie_tasks.quality.judge_exam.exam_result import COMPARE, ExamResult, PublishedVerdicts
from mmie_tasks.quality.judge_exam.grade import grade_judge
from mmie_tasks.quality.judge_exam.methods import ExamMethod
from mmie_tasks.quality.judge_exam.opening import read_judgements
from mmie_tasks.quality.judge_exam.stored_exams import store_exam
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, Pair, PairVerdict, VerdictSet
from mmie_tasks.record.signature import Signature, signature_text

FOLDER_HINT = (
    "`--folder FOLDER` with the answers and pictures; `--verdicts FILE` grades "
    "published verdicts without them"
)


def published_exam(path: Path, verdict_set: VerdictSet) -> ExamResult:
    """Grade a judge's published verdicts; makes no judge calls and stores nothing."""
    judgements = read_judgements(path, verdict_set)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    return ExamResult(
        judge=PublishedVerdicts(file=path.name, digest=digest),
        exam=_set_signature(verdict_set),
        verdict_set=verdict_set,
        grade=grade_judge(verdict_set, judgements),
        no_verdicts=_reasons(judgements),
    )


def examine(
    judge: Judge,
    method: ExamMethod,
    whole: VerdictSet,
    limit: int | None,
    environment: Mapping[str, str],
) -> ExamResult:
    """Ask a judge about at most `limit` pairs, grade it, and store the exam if it gave a verdict.

    Raises:
        SettingWrong: The set has no answers, or the exam cannot be stored.
        MmieTasksError: The judge cannot be used.
    """
    if not whole.has_answers or not whole.pairs:
        message = f"{whole.title} has people's verdicts here, and no answers to ask a judge about."
        raise SettingWrong(message, hint=FOLDER_HINT)
    verdict_set = replace(whole, pairs=choose_pairs(whole.pairs, limit))
    count = len(verdict_set.pairs)
    how = "each in both orders"
    if method.name != COMPARE:
        how = f"each answer by itself in the prompt of {method.name}"
    sys.stderr.write(
        f"{verdict_set.title}\nlicence: {verdict_set.licence}\nsource: {verdict_set.source}\n"
        f"{counted(count, 'pair')} of {len(whole.pairs):,}, {how}: {counted(2 * count, 'request')} "
        "at most; what is in the cache is not asked again.\n"
    )
    comparisons = method.ask(judge, verdict_set.pairs, f"pairs of {verdict_set.name}")
    exam = ExamResult(
        judge=Signature.of_judges([judge.signature]),
        exam=signature_text(_set_signature(verdict_set), method.signature),
        verdict_set=verdict_set,
        grade=grade_judge(verdict_set, comparisons.judgements),
        no_verdicts=_reasons(comparisons.judgements),
        method=method.name,
        cut_images=comparisons.cut_images,
        cut_texts=comparisons.cut_texts,
        usd_per_1000=comparisons.outcome.usd_per_1000,
        seconds_per_1000=comparisons.outcome.seconds_per_1000,
    )
    return store_exam(exam, environment) if exam.grade.judged else exam


def choose_pairs(pairs: Sequence[Pair], limit: int | None) -> tuple[Pair, ...]:
    """A fixed random choice of `limit` pairs, in which every subset has about its share.

    A smaller choice is the beginning of a larger one, whatever the order of the pairs. Without a
    limit, or with fewer pairs, returns all of them in their order.
    """
    if limit is None or limit >= len(pairs):
        return tuple(pairs)
    by_subset: defaultdict[str, list[Pair]] = defaultdict(list)
    for pair in sorted(pairs, key=lambda pair: _fraction(pair.id)):
        by_subset[pair.subset].append(pair)
    # Systematic sampling: a subset's pairs are spread evenly from 0 to 1, with a random start.
    positions = {
        pair.id: ((rank + _fraction(subset)) / len(members), _fraction(pair.id), pair.id)
        for subset, members in by_subset.items()
        for rank, pair in enumerate(members)
    }
    return tuple(sorted(pairs, key=lambda pair: positions[pair.id])[:limit])


def _fraction(name: str) -> float:
    """A pseudo-random number from 0 to 1, the same in every process."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:6], "big") / 256**6


def _set_signature(verdict_set: VerdictSet) -> str:
    verdicts = sorted((pair.id, pair.winner, pair.is_tie) for pair in verdict_set.pairs)
    digest = hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()[:12]
    return signature_text(set=verdict_set.name, pairs=f"{len(verdicts)},{digest}")


def _reasons(judgements: Iterable[PairVerdict]) -> Mapping[NoVerdict, int]:
    return Counter(judgement.why_not for judgement in judgements if judgement.why_not)
