"""Exams as JSON: printed, stored, and read again by the signature of the judge.

Each exam of a judge is a file below `mmie_tasks.core.files.cache_dir`::

    judge_exams/<digest of the judge's signature>/<digest of the exam's>.json

Only this module writes and reads its fields.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from loguru import logger
from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write, cache_dir
from mmie_tasks.quality.judge_exam.exam_result import ExamResult
from mmie_tasks.results.render import json_text

_Percent: TypeAlias = Annotated[float, Field(ge=0, le=100)]


def exam_json(exam: ExamResult) -> str:
    """The exam as one object, without the pairs; a missing value is null, with its reason next to
    it.
    """
    grade, verdict_set = exam.grade, asdict(replace(exam.verdict_set, pairs=()))
    leanings = {"verdict": grade.verdict, "leanings": grade.leanings}
    document = {
        "judge": str(exam.judge),
        "exam": exam.exam,
        "method": exam.method,
        "set": {**verdict_set, "pairs": len(exam.verdict_set.pairs)},
        "grade": {**asdict(grade), "coverage": grade.coverage, **leanings},
        "without_verdict": exam.why_not,
        "not_shown": {"images": exam.cut_images, "texts": exam.cut_texts},
        "usd_per_1000": exam.usd_per_1000,
        "seconds_per_1000": exam.seconds_per_1000,
    }
    return json_text(document)


def exam_path(judge: str, exam: str, environment: Mapping[str, str]) -> Path:
    """The file of an exam: in a folder for the judge's signature, named by the exam's digest."""
    digests = [hashlib.sha256(signature.encode()).hexdigest()[:16] for signature in (judge, exam)]
    return cache_dir(environment) / "judge_exams" / digests[0] / f"{digests[1]}.json"


def store_exam(exam: ExamResult, environment: Mapping[str, str]) -> ExamResult:
    """Write the file of an exam; returns the exam as stored. Without new replies, it keeps the
    seconds that were measured before. Raises `SettingWrong` if the file cannot be written.
    """
    judge = str(exam.judge)
    path = exam_path(judge, exam.exam, environment)
    if exam.seconds_per_1000 is None and path.is_file() and (before := _read(path, judge)):
        exam = replace(exam, seconds_per_1000=before.seconds_per_1000)
    try:
        with atomic_write(path) as part:
            part.write_text(f"{exam_json(exam)}\n", encoding="utf-8")
    except OSError as error:
        hint = "set `MMIE_TASKS_CACHE` to a folder that you can write"
        raise SettingWrong(f"`{path}` cannot be written: {error.strerror}.", hint=hint) from error
    return exam


def _at(*path: str) -> Any:  # noqa: ANN401 - as pydantic's `Field`
    return Field(validation_alias=AliasPath(*path))


class StoredExam(BaseModel):
    """The fields that are read from the file of an exam; shares are in percent."""

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    judge: str
    method: str
    set_title: str = _at("set", "title")
    pairs: int = _at("set", "pairs")
    asked: int = _at("grade", "asked")
    judged: Annotated[int, Field(gt=0)] = _at("grade", "judged")
    agreement: _Percent = _at("grade", "agreement", "value")
    interval: tuple[_Percent, _Percent] | None = _at("grade", "agreement", "interval")
    leanings: tuple[str, ...] = _at("grade", "leanings")
    seconds_per_1000: Annotated[float, Field(gt=0)] | None


def stored_exams(judge: str, environment: Mapping[str, str]) -> tuple[StoredExam, ...]:
    """A judge's stored exams by number of verdicts, then by age; the best one is the last."""
    files = filter(Path.is_file, exam_path(judge, "", environment).parent.glob("*.json"))
    by_age = sorted(files, key=lambda file: file.stat().st_mtime)
    exams = [exam for file in by_age if (exam := _read(file, judge))]
    return tuple(sorted(exams, key=lambda exam: exam.judged))


def _read(path: Path, judge: str) -> StoredExam | None:
    """None, with a warning, unless the file is an exam of this judge."""
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
