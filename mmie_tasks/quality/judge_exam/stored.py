"""Stored grades of judges, and how they are shown next to the judge.

Each exam of a judge is a file below `mmie_tasks.core.files.cache_dir`::

    judge_exams/<digest of the judge's signature>/<digest of the exam's>.json
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from loguru import logger
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.core.tables import percent_cell, short_name
from mmie_tasks.quality.judge_exam.grade import Grade
from mmie_tasks.quality.judge_exam.verdicts import VerdictSet
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.render import json_text
from mmie_tasks.runs.run import TaskRun

COMPARE = "compare"
"""The method of an exam in which the judge compares two answers; of others, the benchmark whose
prompt it got.
"""

_MAX_SHOWN = 2  # grades of one judge
_Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """The result of an exam, as it is stored and printed.

    Attributes:
        judge: The judge's signature; of published verdicts their file's name and a digest.
        exam: What else can move the grade: set, pairs and people's verdicts, and the prompt.
        verdict_set: With the pairs of this exam only.
        why_not: Reason to the number of comparisons that have no verdict for it.
        method: `COMPARE`, or the benchmark in whose prompt the judge gave points to each answer;
            `cut_images` and `cut_texts` are those of all answers that this prompt did not show.
        usd_per_1000, seconds_per_1000: US dollars and seconds for 1,000 comparisons, or 1,000
            answers with points; None if unknown.
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
    """Write the file of an exam. One without new replies keeps the seconds that were measured
    before.

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
    """The exam as one object, without the pairs; null for missing values, with the reason beside
    them.
    """
    grade, verdict_set = exam.grade, asdict(replace(exam.verdict_set, pairs=()))
    document = {
        "judge": exam.judge,
        "exam": exam.exam,
        "method": exam.method,
        "set": {**verdict_set, "pairs": len(exam.verdict_set.pairs)},
        "grade": {**asdict(grade), "coverage": grade.coverage, "verdict": grade.verdict},
        "without_verdict": exam.why_not,
        "not_shown": {"images": exam.cut_images, "texts": exam.cut_texts},
        "usd_per_1000": exam.usd_per_1000,
        "seconds_per_1000": exam.seconds_per_1000,
    }
    return json_text(document)


def _at(*path: str) -> Any:  # noqa: ANN401 - as pydantic's `Field`
    return Field(validation_alias=AliasPath(*path))


class StoredExam(BaseModel):
    """What is shown of the file of an exam; see `as_json`. Shares are in percent."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    judge: str
    method: str = COMPARE
    set_title: str = _at("set", "title")
    pairs: int = _at("set", "pairs")
    asked: int = _at("grade", "asked")
    judged: Annotated[int, Field(gt=0)] = _at("grade", "judged")
    agreement: _Percent = _at("grade", "agreement", "value")
    interval: tuple[_Percent, _Percent] | None = _at("grade", "agreement", "interval")
    rater_pairs: _Percent | None = _at("grade", "rater_pairs", "value")
    verdict: Annotated[str, _at("grade", "verdict")] = ""
    seconds_per_1000: Annotated[float, Field(gt=0)] | None = None

    def text(self, benchmark: str) -> str:
        """The grade as the end of "agrees with people on"; the title of the benchmark is that of
        its prompt.
        """
        method = "comparing" if self.method == COMPARE else f"by {benchmark}'s prompt"
        details = [short_name(self.set_title.partition(":")[0]), method]
        if self.judged < self.asked:
            details.append(f"verdicts on {percent_cell(100 * self.judged / self.asked)} %")
        if self.rater_pairs is not None:
            details.append(f"two people agree on {percent_cell(self.rater_pairs)} %")
        leaning = self.verdict.partition(" (")[0]
        if leaning not in ("", "none", "nothing found"):
            details.append(leaning)
        return (
            f"{percent_cell(self.agreement, self.interval)} % of {self.pairs:,} pairs "
            f"({', '.join(details)})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeGrades:
    """A judge of a task (its model, or else its kind), with the exams to show, the most telling
    first, and the command that grades it; empty if there is none.
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
        command = f" ({self.command})" if self.command else ""
        return f"{self.judge} is ungraded{command}"

    @property
    def short_text(self) -> str:
        """The grade for a cell that names the judge."""
        if not self.exams:
            return "ungraded"
        return f"agreement with people {percent_cell(self.exams[0].agreement)} %"


class StoredGrades:
    """The stored grades of judges, each file read once."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """With the cache folder that the environment names."""
        self._environment = environment
        self._exams: dict[str, tuple[StoredExam, ...]] = {}

    def judges_of(self, task_run: TaskRun) -> tuple[JudgeGrades, ...]:
        """The judges of a task, each with its grades; none for a benchmark that is scored by rule.

        An exam with the benchmark's prompt stands before one in which the judge compared. Of the
        exams on one set with one method the one with the most verdicts is shown, and at most two in
        all.
        """
        benchmark = task_run.benchmark
        judges = [
            JudgeGrades(
                benchmark=benchmark.title,
                judge=short_name(logged.fields.get("model") or logged.fields["judge"]),
                exams=_chosen(self._exams_of(logged), benchmark.name),
                command=_command(logged.fields),
            )
            for signature in task_run.signatures
            for logged in signature.judges
        ]
        return tuple(dict.fromkeys(judges))

    def _exams_of(self, logged: Signature) -> tuple[StoredExam, ...]:
        """The exams of a logged judge, or else of the judge whose replies it replays; the best
        last.
        """
        judges = [str(logged), str(logged.recorded)]
        for judge in judges:
            if judge not in self._exams:
                files = filter(
                    Path.is_file, exam_path(judge, "", self._environment).parent.glob("*.json")
                )
                by_age = sorted(files, key=lambda file: file.stat().st_mtime)
                exams = (exam for file in by_age if (exam := _read(file, judge)))
                self._exams[judge] = tuple(sorted(exams, key=lambda exam: exam.judged))
        return next(filter(None, map(self._exams.__getitem__, judges)), ())


def _chosen(exams: Sequence[StoredExam], benchmark: str) -> tuple[StoredExam, ...]:
    methods = (benchmark, COMPARE)
    best = {(exam.method, exam.set_title): exam for exam in exams if exam.method in methods}
    ordered = sorted(best.values(), key=lambda exam: (methods.index(exam.method), -exam.pairs))
    return tuple(ordered[:_MAX_SHOWN])


def _command(fields: Mapping[str, str]) -> str:
    """The command that grades a judge; empty for replayed replies and for judges of other
    packages.
    """
    by_kind = {"mmie_score": "mmie_score", "openai": f"openai:{fields.get('model', '')}"}
    judge = by_kind.get(fields["judge"], "")
    if not judge or "replayed" in fields:
        return ""
    server = ",base_url=..." if "host" in fields else ""
    return f"mmie-tasks judge-exam {shlex.quote(judge + server)}"


def _read(path: Path, judge: str) -> StoredExam | None:
    """A stored exam of a judge; None, with a warning, if the file is not one."""
    try:
        exam = StoredExam.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        problem = (
            error.strerror
            if isinstance(error, OSError)
            else "it is not a grade as `judge-exam` stores it"
        )
    else:
        if exam.judge == judge:
            return exam
        problem = "it is of another judge"
    logger.warning(f"`{path}` is ignored: {problem}.")
    return None
