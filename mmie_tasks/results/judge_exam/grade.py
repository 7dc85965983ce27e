"""Grades of judges on people's verdicts: agreement, flips, preferences that have nothing to do with quality.

Pairs of one question are not independent, and neither are the two orders of one pair. So intervals are
bootstrap intervals over questions: a resample has a question with all of its verdicts, or without any.
In simulations with 100 questions and more, 94 to 96 % of them hold the true share, with fewer 90 to 96 %.

Each exam of a judge is stored as a file below `mmie_tasks.core.files.cache_dir`::

    judge_exams/<digest of the judge's signature>/<digest of the exam's>.json
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import numpy as np
from loguru import logger
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError
from scipy.special import betaincinv

from mmie_tasks.core.bootstrap import LEVEL, Floats, Interval, percentile_interval, resample_counts
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.core.tables import percent_cell, short_name
from mmie_tasks.results.judge_exam.verdicts import Judgement, Pair, Segments, Side, VerdictSet
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.summary import judge_signatures, signature_fields

Order: TypeAlias = Literal["forward", "reverse"]
"""Which answer the judge was shown first: A, or B."""

MIN_SAMPLES = 10
"""With fewer questions there is no interval."""

RESAMPLES = 10_000

_ORDERS: Mapping[Order, bool] = {"forward": False, "reverse": True}  # `Judgement.is_reversed`
_NO_VERDICTS = "the judge gave no verdict"
_NO_ORDER = "each answer is judged by itself"

COMPARE = "compare"
"""The method of an exam in which the judge compares two answers; of others, the benchmark whose prompt it got."""

_MAX_SHOWN = 2  # grades of one judge
_BEHIND_JUDGE = frozenset({"paper_judge", "prompt", "reader", "task", "data", "pkg", "replayed"})
_Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """How often something is the case, in percent.

    Attributes:
        value: 0 to 100; None where there is nothing to count.
        interval: 95 %, bootstrap over questions; None where there is none.
        n: Cases that were counted; both orders of a pair are two cases.
        why_not: Why there is no value, or no interval; empty if there are both.
    """

    value: float | None
    interval: Interval | None
    n: int
    why_not: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """How good a judge is that compares two answers, or gives points to each.

    An undecided judge counts as half, and so do equal points. What it gave no verdict on lowers the coverage, and
    nothing else. Shares that are about an order have no value for a judge that gave points.

    Attributes:
        asked: Judgements that were asked for.
        judged: Those with a verdict.
        agreement: With people's verdict. With both orders this is the accuracy of ``compute_accuracy.py`` in
            MMRB2's repository, where an undecided judge is wrong, however.
        agreement_untied: Agreement on the pairs that people did not call a tie.
        undecided: The judge prefers neither answer, or gives both the same points.
        by_order: Agreement by the order shown, for each order that was asked for.
        by_subset: Agreement by `Pair.subset`, sorted by name.
        flips: Of the pairs with verdicts in both orders, those on which the two verdicts differ.
        first_answer: The judge prefers the answer that was shown first.
        first_answer_people: People prefer it, for the same pairs in the same orders.
        more_images: The judge prefers the answer with more images, on pairs with unequal numbers.
        more_images_people: People prefer it, for the same pairs in the same orders.
        longer_text: The judge prefers the answer with the longer text.
        longer_text_people: People prefer it, for the same pairs in the same orders.
        raters: The ceiling: a single rater's side is people's verdict, on the judged pairs. People's verdict
            depends on this rater too, so another rater would agree with it less often.
        rater_pairs: Two raters of a judged pair prefer the same side.
    """

    asked: int
    judged: int
    agreement: Share
    agreement_untied: Share
    undecided: Share
    by_order: Mapping[Order, Share]
    by_subset: Mapping[str, Share]
    flips: Share
    first_answer: Share
    first_answer_people: Share
    more_images: Share
    more_images_people: Share
    longer_text: Share
    longer_text_people: Share
    raters: Share
    rater_pairs: Share

    @property
    def coverage(self) -> float | None:
        """Judgements with a verdict in percent of those asked for; None if none was."""
        return 100 * self.judged / self.asked if self.asked else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A judgement with a verdict, and its pair."""

    pair: Pair
    is_reversed: bool | None
    a_wins: float

    @property
    def first_side(self) -> Side:
        return "B" if self.is_reversed else "A"

    def preference(self, side: Side) -> float:
        """How far the judge prefers a side: 1, 0, or 0.5 if it is undecided."""
        return self.a_wins if side == "A" else 1 - self.a_wins


def grade(verdict_set: VerdictSet, judgements: Sequence[Judgement]) -> Grade:
    """The grade of a judge.

    Args:
        verdict_set: People's verdicts.
        judgements: What was asked for, in any order, with and without verdict.

    Raises:
        ValueError: Two judgements are of one pair in one order, or one is of a pair that is not in the set.

    >>> pair = Pair(
    ...     id="1", sample="q", subset="recipes", winner="A", is_tie=False, votes=(), models=("x", "y"),
    ...     question=(), answers=((), ()), images=(2, 1),
    ... )
    >>> people = VerdictSet(
    ...     name="mmrb2", title="", licence="", source="", pairs=(pair,), has_answers=False, both_orders=True
    ... )
    >>> verdicts = ((False, 1.0), (True, 0.5))
    >>> result = grade(people, [Judgement(pair="1", is_reversed=order, a_wins=a_wins) for order, a_wins in verdicts])
    >>> result.agreement.value, result.flips.value, result.more_images.value, result.coverage
    (75.0, 100.0, 75.0, 100.0)
    """
    pairs = {pair.id: pair for pair in verdict_set.pairs}
    if unknown := [judgement.pair for judgement in judgements if judgement.pair not in pairs]:
        raise ValueError(f"a judgement of `{unknown[0]}`, which is not a pair of {verdict_set.name}")
    if len({(judgement.pair, judgement.is_reversed) for judgement in judgements}) < len(judgements):
        raise ValueError("two judgements of one pair in one order")
    rows = [
        _Row(pair=pairs[judgement.pair], is_reversed=judgement.is_reversed, a_wins=judgement.a_wins)
        for judgement in judgements
        if judgement.a_wins is not None
    ]
    judged_pairs = list({row.pair.id: row.pair for row in rows}.values())
    orders = {judgement.is_reversed for judgement in judgements}
    rows_by_subset: dict[str, list[_Row]] = {pairs[judgement.pair].subset: [] for judgement in judgements}
    for row in rows:
        rows_by_subset[row.pair.subset].append(row)
    first = [(row, row.first_side) for row in rows if row.is_reversed is not None]
    untied = [row for row in rows if not row.pair.is_tie]
    images = [(row, side) for row in rows if (side := _larger(row.pair.images))]
    text = [(row, side) for row in rows if (side := _larger(tuple(map(_length, row.pair.answers))))]
    no_order = _NO_ORDER if orders == {None} else _NO_VERDICTS
    no_ties = "people called no judged pair a tie" if rows else _NO_VERDICTS
    no_images = "no judged pair is known to have unequal numbers of images" if rows else _NO_VERDICTS
    no_text = "no judged pair is known to have texts of unequal length" if rows else _NO_VERDICTS
    return Grade(
        asked=len(judgements),
        judged=len(rows),
        agreement=_agreement(rows),
        agreement_untied=_agreement(untied if len(untied) < len(rows) else [], no_ties),
        undecided=_share(((row.pair, float(row.a_wins == 0.5)) for row in rows), _NO_VERDICTS),
        by_order={
            order: _agreement([row for row in rows if row.is_reversed is is_reversed])
            for order, is_reversed in _ORDERS.items()
            if is_reversed in orders
        },
        by_subset={subset: _agreement(members) for subset, members in sorted(rows_by_subset.items())},
        flips=_flips(rows, _NO_ORDER if orders == {None} else "no pair has verdicts in both orders"),
        first_answer=_judge_prefers(first, no_order),
        first_answer_people=_people_prefer(first, no_order),
        more_images=_judge_prefers(images, no_images),
        more_images_people=_people_prefer(images, no_images),
        longer_text=_judge_prefers(text, no_text),
        longer_text_people=_people_prefer(text, no_text),
        raters=_share(
            ((pair, float(vote == pair.winner)) for pair in judged_pairs for vote in pair.votes),
            "no judged pair has published votes of single raters",
        ),
        rater_pairs=_share(
            ((pair, float(one == other)) for pair in judged_pairs for one, other in combinations(pair.votes, 2)),
            "no judged pair has published votes of two raters",
        ),
    )


def _agreement(rows: Sequence[_Row], why_none: str = _NO_VERDICTS) -> Share:
    return _share(((row.pair, row.preference(row.pair.winner)) for row in rows), why_none)


def _flips(rows: Sequence[_Row], why_none: str) -> Share:
    forward = {row.pair.id: row.a_wins for row in rows if not row.is_reversed}
    both = [row for row in rows if row.is_reversed and row.pair.id in forward]
    return _share(((row.pair, float(row.a_wins != forward[row.pair.id])) for row in both), why_none)


def _judge_prefers(sides: Sequence[tuple[_Row, Side]], why_none: str) -> Share:
    """How often the judge prefers the side beside each row."""
    return _share(((row.pair, row.preference(side)) for row, side in sides), why_none)


def _people_prefer(sides: Sequence[tuple[_Row, Side]], why_none: str) -> Share:
    return _share(((row.pair, float(row.pair.winner == side)) for row, side in sides), why_none)


def _larger(sizes: tuple[int, ...] | None) -> Side | None:
    """The side with the larger number; None if the numbers are equal or not known.

    >>> _larger((1, 3)), _larger((2, 2)), _larger(None)
    ('B', None, None)
    """
    if sizes is None or sizes[0] == sizes[1]:
        return None
    return "A" if sizes[0] > sizes[1] else "B"


def _length(answer: Segments) -> int:
    """Characters of an answer's texts."""
    return sum(len(segment) for segment in answer if isinstance(segment, str))


def _share(values: Iterable[tuple[Pair, float]], why_none: str) -> Share:
    """The mean of values from 0 to 1 in percent, one per case, with its interval over questions.

    Of no cases there is none, for the reason `why_none`.
    """
    by_sample: defaultdict[str, list[float]] = defaultdict(list)
    for pair, value in values:
        by_sample[pair.sample].append(value)
    if not by_sample:
        return Share(value=None, interval=None, n=0, why_not=why_none)
    sums_and_counts = np.array([(sum(sample), len(sample)) for sample in by_sample.values()])
    total, n = sums_and_counts.sum(axis=0)
    value = float(100 * total / n)
    if len(by_sample) < MIN_SAMPLES:
        why_not = f"too few questions for an interval: {len(by_sample)}"
        return Share(value=value, interval=None, n=int(n), why_not=why_not)
    return Share(value=value, interval=_interval(value, sums_and_counts), n=int(n))


def _interval(value: float, sums_and_counts: Floats) -> Interval:
    """The interval of a share of 0 to 100 %, from sum and number of each question's values, shape ``(questions, 2)``.

    All resamples of a share of 0 or 100 % are equal. There the interval is the exact one of as many independent
    cases as there are questions (Clopper and Pearson).
    """
    if value in (0, 100):
        questions = len(sums_and_counts)
        return exact_interval(0 if value == 0 else questions, questions)
    alike, times = np.unique(sums_and_counts, axis=0, return_counts=True)
    draws = (weights @ alike for weights in resample_counts(times, RESAMPLES))
    return percentile_interval(np.concatenate([100 * draw[:, 0] / draw[:, 1] for draw in draws]))


def exact_interval(count: int, total: int) -> Interval:
    """The exact 95 % interval of a share, in percent (Clopper and Pearson)."""
    tail = (1 - LEVEL) / 2
    low = betaincinv(count, total - count + 1, tail) if count else 0.0
    high = betaincinv(count + 1, total - count, 1 - tail) if count < total else 1.0
    return Interval(100 * float(low), 100 * float(high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """The result of an exam, as it is stored and printed.

    Attributes:
        judge: The judge's signature; of published verdicts their file's name and a digest.
        exam: What else can move the grade: set, pairs and people's verdicts, and the prompt.
        verdict_set: With the pairs of this exam only.
        grade: The grade.
        why_not: Reason to the number of comparisons that have no verdict for it.
        method: `COMPARE`, or the benchmark in whose prompt the judge gave points to each answer.
        cut_images: Images of all answers that this prompt did not show.
        cut_texts: Texts of all answers that it did not show.
        usd_per_1000: US dollars for 1,000 comparisons, or 1,000 answers with points; None if unknown.
        seconds_per_1000: Seconds for them; None if unknown.
    """

    judge: str
    exam: str
    verdict_set: VerdictSet
    grade: Grade
    why_not: Mapping[str, int]
    method: str = COMPARE
    cut_images: int = 0
    cut_texts: int = 0
    usd_per_1000: float | None = None
    seconds_per_1000: float | None = None


def exam_path(judge: str, exam: str, environment: Mapping[str, str]) -> Path:
    """The file of a grade: in a folder of the judge's signature, under a digest of the exam's."""
    digests = [hashlib.sha256(signature.encode()).hexdigest()[:16] for signature in (judge, exam)]
    return cache_dir(environment) / "judge_exams" / digests[0] / f"{digests[1]}.json"


def store(exam: Exam, environment: Mapping[str, str]) -> Exam:
    """Write the file of an exam. One without new replies keeps the seconds that were measured before.

    Returns:
        The exam as it is stored.

    Raises:
        SettingWrong: The file cannot be written.
    """
    path = exam_path(exam.judge, exam.exam, environment)
    if exam.seconds_per_1000 is None and path.is_file() and (before := _read(path, exam.judge)):
        exam = replace(exam, seconds_per_1000=before.seconds_per_1000)
    try:
        with atomic_write(path) as part:
            part.write_text(f"{as_json(exam)}\n", encoding="utf-8")
    except OSError as error:
        hint = "set `MMIE_TASKS_CACHE` to a folder that you can write"
        raise SettingWrong(f"`{path}` cannot be written: {error.strerror}.", hint=hint) from error
    return exam


def as_json(exam: Exam) -> str:
    """The exam as one object, without the pairs; null for missing values, with the reason beside them."""
    document = {
        "judge": exam.judge,
        "exam": exam.exam,
        "method": exam.method,
        "set": {**asdict(replace(exam.verdict_set, pairs=())), "pairs": len(exam.verdict_set.pairs)},
        "grade": {**asdict(exam.grade), "coverage": exam.grade.coverage},
        "without_verdict": exam.why_not,
        "not_shown": {"images": exam.cut_images, "texts": exam.cut_texts},
        "usd_per_1000": exam.usd_per_1000,
        "seconds_per_1000": exam.seconds_per_1000,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


class StoredExam(BaseModel):
    """What is shown of the file of an exam; see `as_json`. Shares are in percent."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    judge: str
    method: str = COMPARE
    set_title: str = Field(validation_alias=AliasPath("set", "title"))
    pairs: int = Field(validation_alias=AliasPath("set", "pairs"))
    asked: int = Field(validation_alias=AliasPath("grade", "asked"))
    judged: int = Field(validation_alias=AliasPath("grade", "judged"), gt=0)
    agreement: _Percent = Field(validation_alias=AliasPath("grade", "agreement", "value"))
    interval: tuple[_Percent, _Percent] | None = Field(validation_alias=AliasPath("grade", "agreement", "interval"))
    rater_pairs: _Percent | None = Field(validation_alias=AliasPath("grade", "rater_pairs", "value"))
    seconds_per_1000: Annotated[float, Field(gt=0)] | None = None

    def text(self, benchmark: str) -> str:
        """The grade as the end of "agrees with people on"; the title of the benchmark is that of its prompt."""
        method = "comparing" if self.method == COMPARE else f"by {benchmark}'s prompt"
        details = [short_name(self.set_title.partition(":")[0]), method]
        if self.judged < self.asked:
            details.append(f"verdicts on {percent_cell(100 * self.judged / self.asked)} %")
        if self.rater_pairs is not None:
            details.append(f"two people agree on {percent_cell(self.rater_pairs)} %")
        return f"{percent_cell(self.agreement, self.interval)} % of {self.pairs:,} pairs ({', '.join(details)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeGrades:
    """A judge of a task, with its grades.

    Attributes:
        benchmark: The title of the task's benchmark.
        judge: The judge's model, or else its kind.
        exams: The exams to show, the most telling first; empty if the judge is ungraded.
        command: The command that grades this judge; empty if there is none.
    """

    benchmark: str
    judge: str
    exams: tuple[StoredExam, ...]
    command: str

    @property
    def text(self) -> str:
        """Judge and grade, or that the judge is ungraded."""
        if self.exams:
            shares = " and on ".join(exam.text(self.benchmark) for exam in self.exams)
            return f"{self.judge} agrees with people on {shares}"
        return f"{self.judge} is ungraded ({self.command})" if self.command else f"{self.judge} is ungraded"

    @property
    def short_text(self) -> str:
        """The grade for a cell that names the judge."""
        return f"agreement with people {percent_cell(self.exams[0].agreement)} %" if self.exams else "ungraded"

    def as_json(self) -> dict[str, object]:
        """Benchmark, judge and exams for programs."""
        exams = [exam.model_dump(mode="json") for exam in self.exams]
        return {"benchmark": self.benchmark, "judge": self.judge, "exams": exams}


def judge_lines(judges: Iterable[JudgeGrades]) -> tuple[str, ...]:
    """A line for each judge and grade, with the titles of its benchmarks."""
    titles: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for judge in judges:
        titles[judge.text][judge.benchmark] = None
    return tuple(f"Judge of {', '.join(benchmarks)}: {text}." for text, benchmarks in titles.items())


class StoredGrades:
    """The stored grades of judges, each file read once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """With the cache folder that the environment names."""
        self._environment = environment
        self._exams: dict[str, tuple[StoredExam, ...]] = {}

    def judges_of(self, task_run: TaskRun) -> tuple[JudgeGrades, ...]:
        """The judges of a task, each with its grades; none for a benchmark that is scored by rule.

        An exam with the benchmark's prompt stands before one in which the judge compared. Of the exams on one set
        with one method the one with the most verdicts is shown, and at most two in all.
        """
        judges = []
        for logged in (part for signature in task_run.signatures for part in judge_signatures(signature)):
            fields = signature_fields(logged)
            judges.append(
                JudgeGrades(
                    benchmark=task_run.benchmark.title,
                    judge=short_name(fields.get("model") or fields["judge"]),
                    exams=_chosen(self._exams_of(logged), task_run.benchmark.name),
                    command=_command(fields),
                )
            )
        return tuple(dict.fromkeys(judges))

    def _exams_of(self, logged: str) -> tuple[StoredExam, ...]:
        """The exams of the judge with whose signature a logged one begins, the best last."""
        fields = logged.split("|")
        ends = [end for end, field in enumerate(fields) if field.partition(":")[0] in _BEHIND_JUDGE]
        judges = ["|".join(fields[:end]) for end in (len(fields), *reversed(ends))]
        for judge in judges:
            if judge not in self._exams:
                files = filter(Path.is_file, exam_path(judge, "", self._environment).parent.glob("*.json"))
                by_age = sorted(files, key=lambda file: file.stat().st_mtime)
                exams = (exam for file in by_age if (exam := _read(file, judge)))
                self._exams[judge] = tuple(sorted(exams, key=lambda exam: exam.judged))
        return next(filter(None, map(self._exams.__getitem__, judges)), ())


def _chosen(exams: Sequence[StoredExam], benchmark: str) -> tuple[StoredExam, ...]:
    methods = (benchmark, COMPARE)
    best = {(exam.method, exam.set_title): exam for exam in exams if exam.method in methods}
    return tuple(sorted(best.values(), key=lambda exam: (methods.index(exam.method), -exam.pairs))[:_MAX_SHOWN])


def _command(fields: Mapping[str, str]) -> str:
    """The command that grades a judge; empty for replayed replies and for judges of other packages."""
    words = {"mmie_score": "mmie_score", "openai": f"openai:{fields.get('model', '')}"}.get(fields["judge"], "")
    if not words or "replayed" in fields:
        return ""
    return f"mmie-tasks judge-exam {shlex.quote(f'{words},base_url=...' if 'host' in fields else words)}"


def _read(path: Path, judge: str) -> StoredExam | None:
    """A stored exam of a judge; None, with a warning, if the file is not one."""
    try:
        exam = StoredExam.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not a grade as `judge-exam` stores it"
    else:
        if exam.judge == judge:
            return exam
        problem = "it is of another judge"
    logger.warning(f"`{path}` is ignored: {problem}.")
    return None
