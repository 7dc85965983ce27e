"""The judge's side of a benchmark whose readers need nothing but the judge's replies."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mmie_tasks.benchmarks.answer_request import BuiltRequest
from mmie_tasks.benchmarks.benchmark import Doc
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.verdict import Unscored, Verdict, Verdicts
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.benchmark_judge import BenchmarkJudge
from mmie_tasks.judging.deferred import MetricRows
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record import log_line
from mmie_tasks.record.fields import Line, NoJudgeRequest, Record
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import plain_score
from mmie_tasks.record.signature import run_signature, signature_text


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBenchmark:
    """How samples are judged, signed, and read from a log again.

    Attributes:
        judge: Selects and calls the judge.
        version: ``N-X`` of every task: N changes with the scores, X with the interface.
        request_signature: The part of the signature about the request. Raises a `MmieTasksError`.
        grade: All verdicts on a judge's replies.
        is_impossible: See `CheckedRequest`.
        full_marks: Logged points outside 0 to `full_marks` become NaN.
        record_of: The record of a line. Raises `BadRecord` if it is not of this benchmark.
        form: Of the verdicts in a record.
    """

    judge: BenchmarkJudge
    version: str
    request_signature: Callable[[], str]
    grade: Callable[[JudgeResult], Verdicts]
    is_impossible: Callable[[str], bool] = lambda _: False
    full_marks: float
    record_of: Callable[[Line], Record]
    form: log_line.RecordForm

    def provenance(self, doc: Doc) -> str:
        """Task version, readers and data revision in one line; without judge and request."""
        task = f"{self.judge.benchmark}@{self.version}"
        return signature_text(reader="official+robust", task=task, data=doc["data"])

    def signature(self, doc: Doc) -> str:
        """Everything that can move the score; another judge than the paper's is marked as such.

        Raises:
            MmieTasksError: The chosen judge cannot be opened.
        """
        parts = (self.judge.signature(), self.request_signature(), self.provenance(doc))
        return run_signature(*parts, environment=os.environ)

    def logged_signature(self, doc: Doc, built: BuiltRequest[Any]) -> str:
        """The signature in the record of a judged sample, which may be unscored for lack of a
        judge: one in this process fixes its signature when it starts.
        """
        try:
            signature = self.signature(doc)
        except MmieTasksError as error:
            why = signature_text(judge="unknown", why=first_line(error))
            signature = signature_text(why, self.provenance(doc))
        if built.answer_signature is None:
            return signature
        return signature_text(signature, answers=built.answer_signature)

    def graded(self, built: BuiltRequest[Any]) -> GradedRequest:
        """The request with the readers of its reply.

        Raises:
            NoJudgeRequest: The judge gets none.
        """
        if built.request is None:
            raise NoJudgeRequest(Unscored(built.reason, built.detail))
        return GradedRequest(
            request=built.request,
            is_impossible=self.is_impossible,
            grade=self.grade,
            cut_images=built.cut_images,
            cut_texts=built.cut_texts,
        )

    def submit(
        self,
        built: BuiltRequest[Any],
        make_rows: Callable[[Judged], MetricRows],
        metrics: tuple[str, ...],
    ) -> Mapping[str, object]:
        """The rows of one answer, filled in once it is judged.

        Args:
            built: The request; without one, the answer is not judged.
            make_rows: Of the task's metrics.
            metrics: Their names.
        """
        if built.request is None:
            return make_rows(Judged(verdicts=Verdicts.unscored(built.reason, built.detail)))
        pending = PendingSample(request=self.graded(built), make_rows=make_rows, metrics=metrics)
        return self.judge.submit(pending, plain=plain_score)

    def reread(self, line: Line) -> Mapping[str, Verdict] | None:
        """Apply the current readers to a line's saved replies; None if the line lacks them.

        Raises:
            BadRecord: The line is not a scored sample of this benchmark.
        """
        self.record_of(line)
        return log_line.reread(line, self.grade, self.full_marks)

    def rerecord(self, line: Line) -> Record:
        """The record with the current readers' results; unchanged if it has no reply.

        Raises:
            BadRecord: As `reread`.
        """
        return log_line.rerecord(self.record_of(line), self.grade, self.full_marks, self.form)
