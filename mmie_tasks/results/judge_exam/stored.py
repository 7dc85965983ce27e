"""Stored grades of judges: one JSON file for each exam of a judge.

They lie below `mmie_tasks.core.paths.cache_dir`::

    judge_exams/<digest of the judge's signature>/<digest of the exam's>.json
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.results.judge_exam.grade import Grade
from mmie_tasks.results.judge_exam.verdicts import VerdictSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Exam:
    """The result of an exam, as it is stored and printed.

    Attributes:
        judge: The judge's signature; of published verdicts their file's name and a digest.
        exam: What else can move the grade: set, pairs and people's verdicts, and the prompt.
        verdict_set: With the pairs of this exam only.
        grade: The grade.
        why_not: Reason to the number of comparisons that have no verdict for it.
        usd_per_1000: US dollars for 1,000 comparisons; None if unknown.
        seconds_per_1000: Seconds for 1,000 comparisons; None if unknown.
    """

    judge: str
    exam: str
    verdict_set: VerdictSet
    grade: Grade
    why_not: Mapping[str, int]
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
    if exam.seconds_per_1000 is None:
        exam = replace(exam, seconds_per_1000=_measured_seconds(path))
    try:
        with atomic_write(path) as part:
            part.write_text(f"{as_json(exam)}\n", encoding="utf-8")
    except OSError as error:
        hint = "set `MMIE_TASKS_CACHE` to a folder that you can write"
        raise SettingWrong(f"`{path}` cannot be written: {error.strerror}.", hint=hint) from error
    return exam


def _measured_seconds(path: Path) -> float | None:
    """The seconds for 1,000 comparisons in the file of an exam; None without a usable file."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    seconds = stored.get("seconds_per_1000") if isinstance(stored, dict) else None
    return float(seconds) if isinstance(seconds, (int, float)) and 0 < seconds < math.inf else None


def as_json(exam: Exam) -> str:
    """The exam as one object, without the pairs; null for missing values, with the reason beside them."""
    document = {
        "judge": exam.judge,
        "exam": exam.exam,
        "set": {**asdict(replace(exam.verdict_set, pairs=())), "pairs": len(exam.verdict_set.pairs)},
        "grade": {**asdict(exam.grade), "coverage": exam.grade.coverage},
        "without_verdict": exam.why_not,
        "usd_per_1000": exam.usd_per_1000,
        "seconds_per_1000": exam.seconds_per_1000,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
