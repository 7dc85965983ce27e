"""The judges of a task with their stored grades, as tables name them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.core.tables import percent_cell, short_name
from mmie_tasks.quality.judge_exam.exam_result import COMPARE
from mmie_tasks.quality.judge_exam.stored_exams import StoredExam, stored_exams
from mmie_tasks.record.signature import Signature
from mmie_tasks.runs.run import TaskRun

_MAX_SHOWN = 2  # grades of one judge


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedJudge:
    """A judge of a task, with the exams to show.

    Attributes:
        judge: Its model, or else its kind.
        exams: The most telling first.
        command: The command that grades it; may be empty.
    """

    benchmark: str
    judge: str
    exams: tuple[StoredExam, ...]
    command: str

    @property
    def text(self) -> str:
        """The judge and its grades, or that it is ungraded."""
        if self.exams:
            shares = " and on ".join(_exam_text(exam, self.benchmark) for exam in self.exams)
            return f"{self.judge} agrees with people on {shares}"
        command = f" ({self.command})" if self.command else ""
        return f"{self.judge} is ungraded{command}"

    @property
    def short_text(self) -> str:
        """The first grade, for a cell that names the judge."""
        if not self.exams:
            return "ungraded"
        return f"agreement with people {percent_cell(self.exams[0].agreement)} %"


def _exam_text(exam: StoredExam, benchmark: str) -> str:
    """The end of a sentence that begins with "agrees with people on"."""
    method = "comparing" if exam.method == COMPARE else f"by {benchmark}'s prompt"
    details = [exam.set_title.partition(":")[0], method]
    if exam.judged < exam.asked:
        details.append(f"verdicts on {percent_cell(100 * exam.judged / exam.asked)} %")
    details += exam.leanings
    share = percent_cell(exam.agreement, exam.interval)
    return f"{share} % of {exam.pairs:,} pairs ({', '.join(details)})"


class StoredGrades:
    """The stored grades of judges, each file read once; the environment names the cache folder."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment
        self._exams: dict[str, tuple[StoredExam, ...]] = {}

    def judges_of(self, task_run: TaskRun) -> tuple[GradedJudge, ...]:
        """The judges of a task, each with at most two grades; none if it is scored by rule.

        An exam with the benchmark's prompt comes before one in which the judge compared. For each
        set and method, the exam with the most verdicts is shown.
        """
        benchmark = task_run.benchmark
        judges = [
            GradedJudge(
                benchmark=benchmark.title,
                judge=short_name(logged.name),
                exams=_chosen(self._exams_of(logged), benchmark.name),
                command=_command(logged),
            )
            for signature in task_run.signatures
            for logged in signature.each_judge
        ]
        return tuple(dict.fromkeys(judges))

    def _exams_of(self, logged: Signature) -> tuple[StoredExam, ...]:
        """The exams of a judge, or else of the judge whose replies it replays; the best last."""
        judges = [str(logged), str(logged.without("replayed"))]
        for judge in judges:
            if judge not in self._exams:
                self._exams[judge] = stored_exams(judge, self._environment)
        return next(filter(None, map(self._exams.__getitem__, judges)), ())


def _chosen(exams: Sequence[StoredExam], benchmark: str) -> tuple[StoredExam, ...]:
    methods = (benchmark, COMPARE)
    best = {(exam.method, exam.set_title): exam for exam in exams if exam.method in methods}
    ordered = sorted(best.values(), key=lambda exam: (methods.index(exam.method), -exam.pairs))
    return tuple(ordered[:_MAX_SHOWN])


def _command(judge: Signature) -> str:
    """The command that grades a judge; empty for replayed replies and other packages' judges."""
    fields = judge.fields
    choices = {"mmie_score": "mmie_score", "openai": f"openai:{judge.name}"}
    choice = choices.get(fields["judge"], "")
    if not choice or "replayed" in fields:
        return ""
    server = ",base_url=..." if "host" in fields else ""
    return f"mmie-tasks judge-exam {shlex.quote(choice + server)} --folder ..."
