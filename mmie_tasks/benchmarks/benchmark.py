"""The class `Benchmark`: everything that runner, preflight and results know of a benchmark.

A benchmark's folder has a module ``benchmark`` with an object ``BENCHMARK``. The registry
(`mmie_tasks.benchmarks.registry`) loads it; nothing else imports a benchmark by name.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeAlias

from typing_extensions import TypeVar

from mmie_tasks.benchmarks.text_answer import answer_of_results, facts_of_results
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.settings import coverage_floor
from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdicts
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.judging.batch import PendingSample
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import NO_REPLY, BadRecord, Line, NoJudgeRequest, Record, read_record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import Row, RunnerTable, plain_score
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment, Segments, text_segments
from mmie_tasks.record.signature import Signature

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image

    from mmie_tasks.hub.asset import Asset
    from mmie_tasks.judges.base import JudgeRequest
    from mmie_tasks.judging.benchmark_judge import BenchmarkJudge

Doc: TypeAlias = Mapping[str, Any]
"""One sample as the runner hands it to a task's functions."""

Environment: TypeAlias = Mapping[str, str]
Options: TypeAlias = Mapping[str, Any] | None
"""``lmms_eval_specific_kwargs`` of a task file."""

RecordT = TypeVar("RecordT", bound=Record, default=Any)

_NO_ANSWER = ("no_answer", "not_text", "bad_image")  # reasons outside the saved answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Scores that someone else published.

    Attributes:
        model: The tested model, as the publication names it.
        scores: Name of a metric to the score in percent.
        source: Where the scores are, and what makes them incomparable with others.
    """

    model: str
    scores: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared(Generic[RecordT]):
    """An answer before it is judged.

    Attributes:
        record: The record of its sample; without a request, its verdicts say why.
        request: The request to the judge; None if the judge gets none.
        cut_images: Images of the answer that the benchmark's prompt does not show.
        cut_texts: Texts of the answer that it does not show.
        drawn_by: Protocol and drawer of an answer of ``--model interleaved``; None for others.
    """

    record: RecordT
    request: JudgeRequest | None
    cut_images: int = 0
    cut_texts: int = 0
    drawn_by: str | None = None

    def withdrawn(self, reason: UnscoredReason, detail: str) -> Prepared[RecordT]:
        """The same answer without a request, and why."""
        verdicts = Judged(verdicts=Verdicts.unscored(reason, detail))
        return replace(self, record=self.record.graded(verdicts), request=None)


class Benchmark(ABC, Generic[RecordT]):
    """A benchmark: its samples, its questions, who judges the answers, and what it reports.

    A task file names functions of a module, so a benchmark's module ``task`` has lines such as
    ``process_docs = BENCHMARK.process_docs``.

    A benchmark with a judge overrides `request` and `grade`, one that is scored by rule `score`; a
    benchmark whose answers are more than a text overrides `prepared`. Importing a module that
    defines one must stay cheap: no torch, datasets, numpy or lmms_eval; methods import what they
    need when they are called.

    Attributes:
        name: Prefix of its task names: ``mmie`` for ``mmie``, ``mmie_sa``, ...
        title: For display: ``MMIE``.
        version: ``N-X`` of its tasks: N changes with the scores, X with the interface.
        scale: The scale of its verdicts.
        metrics: What it reports, the headline first. A run that lacks a metric's groups is shown
            without that metric.
        record: The class of its records.
        judge: Selects and calls the judge; None for a benchmark that is scored by rule.
        takes_any_question: Whether `judge_request` takes questions that are not its samples.
        has_picture_answers: Whether answers may have pictures, so that `picture_limit` counts.
        has_expected_score: Whether `grade` gives expected scores, where a judge reports
            probabilities.
        has_export: Whether `export` does anything.
        image_token: What marks an image in a question for models that take text and images
            separately; ``{n}`` in it counts from 1. A task file may have another ``image_token``.
        strata: The kind of group within which samples are drawn for people to score; empty to draw
            from all samples alike.
        stratum_sizes: Stratum to its number of samples in the whole benchmark; empty without
            strata. Intervals for the benchmark weigh the strata by them.
        published: Task to the number of samples that its published scores are for. Subsets of ours
            have that of the whole benchmark.
        two_of_each: Task to the smallest ``--limit`` with two samples of each group that the
            headline is a mean of, for a hint in a smaller run. For tasks whose samples take turns
            between the groups.
        published_rows: A selection of published scores of the whole benchmark.
        datasets: Names of its datasets, if its sample ids are ``<dataset>/<id>``. Saved answers
            with bare ids in a folder of such a name belong to that dataset.
        opener: Opens the images of questions, and remembers which could not be opened.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str] = "1-A"
    scale: ClassVar[Scale]
    metrics: ClassVar[tuple[Metric, ...]]
    record: type[RecordT]
    judge: ClassVar[BenchmarkJudge | None] = None
    takes_any_question: ClassVar[bool] = False
    has_picture_answers: ClassVar[bool] = False
    has_expected_score: ClassVar[bool] = False
    has_export: ClassVar[bool] = False
    image_token: ClassVar[str] = "<image>"  # noqa: S105 - not a secret
    strata: ClassVar[str] = ""
    stratum_sizes: ClassVar[Mapping[str, int]] = {}
    published: ClassVar[Mapping[str, int]] = {}
    two_of_each: ClassVar[Mapping[str, int]] = {}
    published_rows: ClassVar[tuple[PublishedRow, ...]] = ()
    datasets: ClassVar[tuple[str, ...]] = ()

    def __init__(self) -> None:
        self.opener = ImageOpener()

    # The samples, and what they need.

    def documents(self, selection: str, environment: Environment) -> Dataset:
        """The samples of a task whose file names `process_docs`, by its ``dataset_name``.

        Raises:
            MmieTasksError: Data is missing or broken, or a setting is invalid.
        """
        raise NotImplementedError

    def check_data(self, docs: Any) -> None:  # noqa: ANN401 - a `Dataset`
        """Check the samples of a run before anything is generated; raises a `MmieTasksError`."""

    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:  # noqa: ARG002
        """What the named tasks (all if none is named) need on this machine."""
        return ()

    # The question to the tested model.

    @abstractmethod
    def question(self, doc: Doc, options: Mapping[str, Any]) -> Sequence[str | Path]:
        """Texts and image files of a question, in order; `options` are those of the task file."""

    def add_answer_folder(self, folder: Path) -> None:
        """Add a folder to search for images that answers of a run refer to."""

    def picture_limit(self, doc: Doc) -> int:  # noqa: ARG002 - for pictures in answers
        """How many pictures of an answer the judge can see; 0 if answers are texts."""
        return 0

    # The answer, and its score.

    def fields(self, doc: Doc) -> Mapping[str, object]:
        """What the record has of its sample: by default each field of the record that the sample
        has, too.
        """
        return doc

    def request(self, doc: Doc, answer: str) -> JudgeRequest:
        """The request to the judge about an answer."""
        raise NotImplementedError

    def grade(self, record: RecordT, result: JudgeResult) -> Verdicts:
        """Every verdict on a judge's replies, on the benchmark's own scale."""
        raise NotImplementedError

    def score(self, record: RecordT, answer: str) -> Verdicts:
        """Every verdict on an answer, of a benchmark that is scored by rule."""
        raise NotImplementedError

    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared[RecordT]:
        """The request to the judge for an answer, and the record of its sample. Never raises: a
        run's answers would be lost.

        By default an answer that is not a text, or says that the tested model failed, is unscored.
        """
        answer = answer_of_results(results)
        question = (
            Segment(text=part) if isinstance(part, str) else Segment(image=str(part))
            for part in self.question(doc, {})
        )
        fields = {
            **self.fields(doc),
            "question": tuple(question),
            "answer": text_segments(answer) if isinstance(answer, str) else (),
            "facts": asdict(facts_of_results(results)),
        }
        record = self.record.of(Verdicts.unscored("unavailable", ""), **fields)
        if self.judge is not None and isinstance(answer, str):
            return Prepared(record=record, request=self.request(doc, answer))
        return Prepared(record=self._scored(record, answer), request=None)

    def is_impossible(self, record: RecordT, reply: str) -> bool:  # noqa: ARG002 - see `CheckedRequest`
        """Whether a reply is impossible, so that the request is sent a second time."""
        return False

    def regraded(self, record: RecordT, line: Line) -> RecordT:
        """A record with the verdicts of today's readers on its saved replies, or answer.

        Args:
            record: A sample's record.
            line: The line of the log that has it.

        Raises:
            BadRecord: The log does not hold the replies or the answer that was scored.
        """
        reason = record.official.reason if isinstance(record.official, Unscored) else None
        answer = line.get("filtered_resps")
        if record.judgements:
            return record.regraded(functools.partial(self.grade, record))
        if reason in _NO_ANSWER or (reason and self.judge is not None):
            return record
        if self.judge is None and isinstance(answer, str):
            return self._scored(record, answer_of_results([answer]))
        raise BadRecord(NO_REPLY)

    def _scored(self, record: RecordT, answer: str | Unscored) -> RecordT:
        if isinstance(answer, Unscored):
            return record.graded(Judged(verdicts=Verdicts.unscored(answer.reason, answer.detail)))
        return record.graded(Judged(verdicts=self.score(record, answer)))

    def table(self, doc: Doc) -> RunnerTable:  # noqa: ARG002 - some tasks lack groups
        """The lines of a sample's task in the runner's table."""
        in_table = (metric for metric in self.metrics if metric.in_table)
        return RunnerTable(metrics=(self.metrics[0], *in_table), scale=self.scale)

    def judge_request(
        self, question: Segments, answer: Segments, line: Line | None
    ) -> GradedRequest:
        """The request for any question and answer, in the benchmark's own judge prompt.

        Args:
            question: The question.
            answer: The answer.
            line: The log line of a sample, from which everything else is: its category, gold,
                components. None: the question is not a sample of the benchmark.

        Raises:
            NoJudgeRequest: A run would not ask the judge either.
            BadRecord: The line is not a sample of this benchmark.
            MmieTasksError: The prompt is not available.
        """
        raise NotImplementedError

    # What is reported.

    def provenance(self, doc: Doc) -> Mapping[str, object]:
        """What can move a score besides judge and request, key to value: readers, task version and
        data; a key with the value None is left out.
        """
        task = f"{self.name}@{self.version}"
        return {"reader": "official+robust", "task": task, "data": doc.get("data")}

    def request_provenance(self) -> Mapping[str, object]:
        """What can move a score of the request to the judge, key to value: the prompt.

        Raises:
            MmieTasksError: The prompt is not available, or a setting is invalid.
        """
        return {}

    def signature(self, doc: Doc) -> Signature:
        """Everything that can move the score; another judge than the paper's is marked as such.

        Raises:
            MmieTasksError: The chosen judge cannot be opened, or as `request_provenance`.
        """
        judges = None if self.judge is None else self.judge.signature()
        fields = {**self.request_provenance(), **self.provenance(doc)}
        return Signature.of_run(fields, os.environ, judges)

    def counts(self, records: Sequence[RecordT]) -> Mapping[str, float]:  # noqa: ARG002
        """The benchmark's own counts for the results file: name to number."""
        return {}

    def notes(self, records: Sequence[RecordT]) -> Iterable[str]:  # noqa: ARG002
        """Lines for the log about what is not as usual."""
        return ()

    def export(self, arguments: Sequence[str], environment: Environment) -> str:
        """Runs ``mmie-tasks export NAME ARGUMENTS``; returns what to print.

        Raises:
            MmieTasksError: An input is unusable.
        """
        raise NotImplementedError

    def read_line(self, line: Line) -> LoggedSample:
        """The sample of a line of a log.

        Raises:
            BadRecord: The line is not a scored sample of this benchmark.
        """
        return self.read_record(line).sample(line)

    def read_record(self, line: Line) -> RecordT:
        """The record of a line of a log.

        Raises:
            BadRecord: The line is not a scored sample of this benchmark.
        """
        return read_record(self.record, line)

    # The functions that a task file names.

    def process_docs(self, stub: Dataset) -> Dataset:
        """The samples, in place of the stub that the task file loads.

        Missing or broken data ends the process with a message: the runner would retry an exception.
        """
        try:
            coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
            return self.documents(stub.config_name, os.environ)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from error

    def doc_to_messages(
        self, doc: Doc, lmms_eval_specific_kwargs: Options = None
    ) -> list[dict[str, object]]:
        """The question as one user turn with opened images, in order."""
        parts = self.question(doc, lmms_eval_specific_kwargs or {})
        return user_turn(part if isinstance(part, str) else self._open(doc, part) for part in parts)

    def doc_to_text(self, doc: Doc, lmms_eval_specific_kwargs: Options = None) -> str:
        """The question for wrappers that take text and images separately."""
        options = lmms_eval_specific_kwargs or {}
        token = str(options.get("image_token", self.image_token))
        count, texts = 0, []
        for part in self.question(doc, options):
            count += isinstance(part, Path)
            texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
        return "".join(texts)

    def doc_to_visual(self, doc: Doc) -> list[Image.Image]:
        """The images of the question, opened, in order."""
        return [self._open(doc, part) for part in self.question(doc, {}) if isinstance(part, Path)]

    def doc_to_target(self, doc: Doc) -> str:
        """The text of the gold answer, for the log."""
        gold = doc.get("gold") or ()
        return "\n".join(segment["text"] for segment in gold if segment["text"])

    def process_results(self, doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
        """The rows of one answer; with a judge, filled in once it is judged."""
        prepared = self.prepared(doc, results)
        if problem := self.opener.failure(prepared.record.id):
            prepared = prepared.withdrawn("bad_image", problem)
        record, table = prepared.record, self.table(doc)

        def make_rows(judged: Judged) -> dict[str, Row]:
            signature = self._logged_signature(doc, prepared.drawn_by)
            graded = record if prepared.request is None else record.graded(judged)
            return table.rows(graded.model_copy(update={"signature": signature}))

        if prepared.request is None:
            return make_rows(Judged(verdicts=record.verdicts))
        assert self.judge is not None  # noqa: S101 - there is a request to it
        request = self.graded_request(prepared)
        pending = PendingSample(request=request, make_rows=make_rows, metrics=table.names)
        return self.judge.submit(pending, plain=plain_score)

    def graded_request(self, prepared: Prepared[RecordT]) -> GradedRequest:
        """The request for an answer with the readers of its reply.

        Raises:
            NoJudgeRequest: The judge gets none.
        """
        record = prepared.record
        if prepared.request is None:
            raise NoJudgeRequest(_reason(record))
        return GradedRequest(
            request=prepared.request,
            is_impossible=functools.partial(self.is_impossible, record),
            grade=functools.partial(self.grade, record),
            cut_images=prepared.cut_images,
            cut_texts=prepared.cut_texts,
        )

    def _logged_signature(self, doc: Doc, drawn_by: str | None) -> Signature:
        """The signature in the record of a judged sample, which may be unscored for lack of a
        judge: one in this process fixes its signature when it starts.
        """
        try:
            signature = self.signature(doc)
        except MmieTasksError as error:
            why = {"judge": "unknown", "why": first_line(error).replace("|", " ")}
            unknown = Signature(judges=(why,), benchmark={"paper_judge": "no"})
            signature = Signature.of_run(self.provenance(doc), {}, unknown)
        return signature.with_answers(drawn_by)

    def _open(self, doc: Doc, path: Path) -> Image.Image:
        """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
        return self.opener.open(doc["id"], lambda: path)


def _reason(record: Record) -> Unscored:
    assert isinstance(record.official, Unscored)  # noqa: S101 - it was not judged
    return record.official
