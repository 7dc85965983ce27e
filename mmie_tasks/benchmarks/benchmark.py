"""The class `Benchmark`: everything that runner, preflight and results know about a benchmark.

A benchmark's folder has a module ``benchmark`` with an object ``BENCHMARK``. The registry
(`mmie_tasks.benchmarks.registry`) loads it; nothing else imports a benchmark by name.
"""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.sample_checks import check_groups, check_questions
from mmie_tasks.benchmarks.settings import TaskSettings, read_settings
from mmie_tasks.benchmarks.text_answer import answer_of_results, facts_of_results, shown_results
from mmie_tasks.core.errors import MmieTasksError, first_line
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.verdict import Unscored, UnscoredReason, Verdict, Verdicts
from mmie_tasks.hub.run_images import ImageOpener
from mmie_tasks.judges.batch import PendingSample
from mmie_tasks.judges.choice import ALL_OTHERS, JudgeChoices
from mmie_tasks.record.facts import Facts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import NO_REPLY, NOT_JUDGED, RECORD_KEY, BadRecord, Record
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import Row, RunnerTable, aggregation
from mmie_tasks.record.segment import Segment, text_segments
from mmie_tasks.record.signature import Signature

if TYPE_CHECKING:
    from datasets import Dataset
    from PIL import Image

    from mmie_tasks.hub.asset import Asset
    from mmie_tasks.judges.base import JudgeRequest
    from mmie_tasks.judges.session import BenchmarkJudge

Doc: TypeAlias = Mapping[str, Any]
"""A sample as lmms-eval passes it to a task's functions."""

Environment: TypeAlias = Mapping[str, str]
Options: TypeAlias = Mapping[str, Any] | None
"""``lmms_eval_specific_kwargs`` of a task file."""

NOT_IN_ANSWER = frozenset(("no_answer", "not_text", "bad_image"))
"""Reasons for no score that the saved answer does not show."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRow:
    """Scores that someone else published.

    Attributes:
        model: The tested model, as the publication names it.
        scores: Metric name to the score in percent.
        source: Where the scores are published, and what makes others not comparable with them.
    """

    model: str
    scores: Mapping[str, float]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """An answer before it is judged.

    Attributes:
        record: The sample's record, to which `Benchmark.process_results` adds groups and signature;
            without a request, its verdicts say why.
        request: None if the judge gets none.
        drawn_by: Protocol and drawer of an answer with drawn images, else None.
    """

    record: Record
    request: JudgeRequest | None
    drawn_by: str | None = None

    @classmethod
    def of(
        cls, record: Record, request: JudgeRequest | Unscored, drawn_by: str | None = None
    ) -> Prepared:
        """An answer with its request, or the reason why the judge gets none."""
        if isinstance(request, Unscored):
            record = record.scored(Verdicts(official=request, robust=request))
            return cls(record=record, request=None, drawn_by=drawn_by)
        return cls(record=record, request=request, drawn_by=drawn_by)

    def withdrawn(self, reason: UnscoredReason, detail: str) -> Prepared:
        """The same answer, unscored and without a request."""
        record = self.record.scored(Verdicts.unscored(reason, detail))
        return replace(self, record=record, request=None)


class Benchmark(ABC):
    """A benchmark: its samples, its questions, its judge, and what it reports.

    A benchmark with a judge overrides `question`, `request` and `read`; one that is scored by rule
    `question` and `score`. Everything else has a default. A task file names functions of a module,
    so the module of `BENCHMARK` has lines such as ``process_results = BENCHMARK.process_results``.

    Importing that module must stay cheap: no torch, datasets, numpy or lmms_eval, which methods
    import when called.

    Attributes:
        name: Prefix of the task names: ``mmie`` for ``mmie``, ``mmie_sa``, ...
        title: Display name: ``MMIE``.
        version: ``N-X`` of the tasks: N changes with the scores, X with the interface.
        scale: The scale of the verdicts.
        metrics: The reported metrics, headline first. A run without a metric's groups is shown
            without that metric.
        judge: Selects and calls the judge; None if the benchmark is scored by rule.
        image_token: Marks an image in a question, for models that take text and images separately;
            ``{n}`` in it counts from 1. A task file may set another ``image_token``.
        strata: The kind of group within which samples are drawn, for intervals; empty to draw from
            all samples alike.
        stratum_sizes: Stratum to its number of samples in the whole benchmark, by which intervals
            weigh the strata; empty without strata.
        published: Task to the number of samples that its published scores cover. Our own subsets
            have the number of the whole benchmark.
        two_of_each: Task to the smallest ``--limit`` with two samples of each group in the
            headline's mean, for a hint in a smaller run. Only for tasks whose samples take turns
            between groups.
        published_rows: A selection of published scores of the whole benchmark.
        datasets: Names of the datasets, if sample ids are ``<dataset>/<id>``. Saved answers with
            bare ids belong to the dataset that their folder is named after.
        settings_type: The class of `settings`.
        settings: The settings of the run, which `configure` reads.
        opener: Opens the images of questions, and remembers which could not be opened.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    version: ClassVar[str] = "1-A"
    scale: ClassVar[Scale]
    metrics: ClassVar[tuple[Metric, ...]] = (Metric(name="", title="All samples", kind="headline"),)
    judge: ClassVar[BenchmarkJudge | None] = None
    image_token: ClassVar[str] = "<image>"  # noqa: S105 - not a secret
    strata: ClassVar[str] = ""
    stratum_sizes: ClassVar[Mapping[str, int]] = {}
    published: ClassVar[Mapping[str, int]] = {}
    two_of_each: ClassVar[Mapping[str, int]] = {}
    published_rows: ClassVar[tuple[PublishedRow, ...]] = ()
    datasets: ClassVar[tuple[str, ...]] = ()
    settings_type: ClassVar[type[TaskSettings]] = TaskSettings
    settings: TaskSettings

    def __init__(self) -> None:
        self.settings = self.settings_type()
        self.opener = ImageOpener()

    def configure(self, choices: JudgeChoices, metadata: object = None) -> None:
        """Read the settings of a run from ``--judge_args`` and a task file's metadata.

        Raises:
            SettingWrong: A setting is unknown or invalid.
        """
        everywhere = choices[ALL_OTHERS].settings if ALL_OTHERS in choices else {}
        options = {k: v for k, v in everywhere.items() if k in self.settings_type.model_fields}
        if self.name in choices:
            options |= choices[self.name].settings
        self.settings = read_settings(self.settings_type, self.name, metadata, options)

    # The samples, and what they need.

    def documents(self, selection: str, environment: Environment) -> Dataset:
        """The samples of a task whose file names `process_docs`, by its ``dataset_name``.

        Raises:
            MmieTasksError: Data is missing or broken, or a setting is invalid.
        """
        raise NotImplementedError

    def check_data(self, docs: Any) -> None:  # noqa: ANN401 - a `Dataset`
        """Check a run's samples before anything is generated; raises a `MmieTasksError`.

        By default, that each has an ``id`` of its own, its groups, and a question of texts and of
        image files that exist.
        """
        check_groups(self.title, docs, self.groups, self.metrics)
        check_questions(self.title, docs, lambda doc: self.question(doc, {}))

    def assets(self, tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:  # noqa: ARG002
        """What the named tasks need on this machine; all tasks if none is named."""
        return ()

    # The question to the tested model.

    @abstractmethod
    def question(self, doc: Doc, options: Mapping[str, Any]) -> Sequence[str | Path]:
        """Texts and image files of a question, in order; `options` come from the task file."""

    def picture_limit(self, doc: Doc) -> int:  # noqa: ARG002 - for pictures in answers
        """How many pictures of an answer the judge can see; 0 if answers are texts."""
        return 0

    # The answer, and its score.

    def fields(self, doc: Doc) -> Mapping[str, Any]:
        """What the verdicts on an answer to a sample depend on, which the log has as JSON: by
        default, everything of the sample that JSON has.
        """
        return {name: value for name, value in doc.items() if _is_json(value)}

    def groups(self, doc: Doc) -> Mapping[str, str | tuple[str, ...]]:  # noqa: ARG002
        """Kind of group to the group that contains a sample, or to several, for `metrics`."""
        return {}

    def answer(self, results: Sequence[object]) -> str | Unscored:
        """The text of an answer without its thinking, or why there is none."""
        return answer_of_results(results)

    def request(self, doc: Doc, answer: str) -> JudgeRequest:
        """The request to the judge about an answer."""
        raise NotImplementedError

    def read(self, reply: str) -> Verdict:
        """The official verdict on the text of a judge's reply, on the benchmark's own scale."""
        raise NotImplementedError

    def read_robust(self, reply: str) -> Verdict:
        """What a reply evidently means; by default, the official verdict."""
        return self.read(reply)

    def grade(self, sample: Mapping[str, Any], result: JudgeResult) -> Verdicts:  # noqa: ARG002
        """Both verdicts on a judge's replies: by default, the official one on the first and the
        robust one on the last, without points that the scale does not have. `sample` is what
        `fields` returns.
        """
        official, robust = result.first_verdict(self.read), result.verdict(self.read_robust)
        return Verdicts(official=self._on_scale(official), robust=self._on_scale(robust))

    def _on_scale(self, verdict: Verdict) -> Verdict:
        if isinstance(verdict, Unscored) or self.scale.open_ended:
            return verdict
        is_possible = 0 <= verdict.points <= self.scale.full_marks
        return verdict if is_possible else Unscored("off_scale", f"{verdict.points:g} points")

    def is_impossible(self, sample: Mapping[str, Any], reply: str) -> bool:  # noqa: ARG002
        """Whether the request is sent a second time, because its reply has an impossible verdict,
        such as more points than the scale has.
        """
        return False

    def score(self, sample: Mapping[str, Any], answer: str) -> Verdicts:
        """Both verdicts on an answer, for a benchmark that is scored by rule; `sample` is what
        `fields` returns.
        """
        raise NotImplementedError

    def prepared(self, doc: Doc, results: Sequence[object]) -> Prepared:
        """The request to the judge, or the verdicts by rule, and the record of an answer. Never
        raises: a run's answers would be lost. By default an answer that is not a text, or that
        reports a failure of the model, is unscored; one with pictures overrides this.
        """
        answer = self.answer(results)
        record = Record(
            id=str(doc["id"]),
            question=tuple(map(_segment, self.question(doc, {}))),
            gold=text_segments(self.doc_to_target(doc)),
            answer=text_segments(answer) if isinstance(answer, str) else shown_results(results),
            verdicts=NOT_JUDGED,
            facts=facts_of_results(results),
            sample=self.fields(doc),
        )
        if self.judge is not None and isinstance(answer, str):
            return Prepared.of(record, self.request(doc, answer))
        verdicts = (
            Verdicts.unscored(answer.reason, answer.detail)
            if isinstance(answer, Unscored)
            else self._scored(record.sample, answer)
        )
        return Prepared(record=record.scored(verdicts), request=None)

    def _scored(self, sample: Mapping[str, Any], answer: str) -> Verdicts:
        """What `score` says, without points that the scale does not have."""
        verdicts = self.score(sample, answer)
        if not isinstance(verdicts, Verdicts):
            raise TypeError(f"`score` returned {type(verdicts).__name__}, not `Verdicts`")
        official, robust = map(self._on_scale, (verdicts.official, verdicts.robust))
        return replace(verdicts, official=official, robust=robust)

    def facts(self, doc: Doc, record: Record) -> Facts:  # noqa: ARG002 - most need none
        """What is noted of an answer when it has its verdicts; `prepared` notes what it is before
        that.
        """
        return {}

    def regraded(self, record: Record) -> Record:
        """The record with the verdicts of today's readers on its saved replies or answer. Raises
        `BadRecord` if the log does not hold what was scored.
        """
        reason = record.official.reason if isinstance(record.official, Unscored) else None
        if record.judgements:
            return record.regraded(functools.partial(self.grade, record.sample))
        if reason in NOT_IN_ANSWER or (reason and self.judge is not None):
            return record
        if self.judge is None:
            return record.scored(self._scored(record.sample, record.answer_text))
        raise BadRecord(NO_REPLY)

    def table(self, doc: Doc) -> RunnerTable:  # noqa: ARG002 - some tasks lack groups
        """The metrics in lmms-eval's table for a sample's task."""
        in_table = (metric for metric in self.metrics if metric.in_table)
        return RunnerTable(metrics=(self.metrics[0], *in_table), scale=self.scale)

    def row_fields(self, doc: Doc) -> Mapping[str, object]:  # noqa: ARG002 - most need none
        """What a sample's rows have besides its scores, such as a task file's ``cluster_key``."""
        return {}

    # What is reported.

    def provenance(self, doc: Doc) -> Mapping[str, object]:
        """What can move a score apart from judge and request: readers, task version and data. A key
        with the value None is left out.
        """
        task = f"{self.name}@{self.version}"
        return {"reader": "official+robust", "task": task, "data": doc.get("data")}

    def request_provenance(self) -> Mapping[str, object]:
        """What in the request can move a score: the prompt. Raises a `MmieTasksError` if it is not
        available, or a setting is invalid; so it is called before anything is generated.
        """
        return {}

    def signature(self, doc: Doc) -> Signature:
        """Everything that can move the score; marks a judge that is not the paper's. Raises a
        `MmieTasksError` if judge or prompt is not available, or a setting is invalid.
        """
        judges = None if self.judge is None else self.judge.signature()
        fields = {**self.request_provenance(), **self.provenance(doc)}
        return Signature.of_run(fields, judges, self.settings.min_coverage)

    def counts(self, records: Sequence[Record]) -> Mapping[str, float]:  # noqa: ARG002
        """The benchmark's own numbers for the results file, besides those of facts; a whole number
        of zero is left out.
        """
        return {}

    def notes(self, records: Sequence[Record]) -> Iterable[str]:  # noqa: ARG002
        """Lines for the log about anything unusual that facts do not say."""
        return ()

    def export(self, arguments: Sequence[str], environment: Environment) -> str:
        """Run ``mmie-tasks export NAME ARGUMENTS``; returns what to print."""
        raise NotImplementedError

    # What runner and results call.

    @property
    def has_picture_answers(self) -> bool:
        """Whether answers may have pictures, because `picture_limit` is overridden."""
        return type(self).picture_limit is not Benchmark.picture_limit

    @property
    def has_export(self) -> bool:
        """Whether `export` is overridden."""
        return type(self).export is not Benchmark.export

    def check_setup(self) -> None:
        """Check what judging needs besides judges, such as official prompts; raises a
        `MmieTasksError`.
        """
        self.request_provenance()

    def add_answer_folder(self, folder: Path) -> None:
        """Add a folder to search for images that a run's answers refer to."""
        model_answers.add_answer_folder(folder)

    # The functions that a task file names.

    def process_docs(self, stub: Dataset) -> Dataset:
        """The samples, in place of the stub that the task file loads. Missing or broken data ends
        the process with a message: lmms-eval would retry an exception.
        """
        try:
            return self.documents(stub.config_name, os.environ)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from error

    def doc_to_messages(
        self, doc: Doc, lmms_eval_specific_kwargs: Options = None
    ) -> list[dict[str, object]]:
        """The question as one user turn with opened images, in order."""
        content = self.question(doc, lmms_eval_specific_kwargs or {})
        return user_turn(
            part if isinstance(part, str) else self._open(doc, part) for part in content
        )

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
        """The opened images of the question, in order."""
        return [self._open(doc, part) for part in self.question(doc, {}) if isinstance(part, Path)]

    def doc_to_target(self, doc: Doc) -> str:
        """The text of the gold answer, for the log: ``gold`` of the sample, which is a text, a
        number, or a list of texts or of parts ``{"text": ...}``.
        """
        gold = doc.get("gold")
        parts = gold if isinstance(gold, list | tuple) else [gold]
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
        return "\n".join(str(text) for text in texts if text not in (None, ""))

    def percent(self, rows: Sequence[Row]) -> float:
        """The score in percent of a line of lmms-eval's table, from the rows of its samples."""
        return aggregation(self.scale)(rows)

    def process_results(self, doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
        """The rows of one answer; if there is a judge, it fills them in later. An error of another
        package's benchmark costs this sample, and not the run.
        """
        try:
            prepared = self.prepared(doc, results)
        except Exception as error:  # noqa: BLE001 - another package's benchmark
            prepared = _unscorable(doc, results, error)
        if problem := self.opener.failures.get(prepared.record.id):
            prepared = prepared.withdrawn("bad_image", problem)
        groups = {k: (v,) if isinstance(v, str) else v for k, v in self.groups(doc).items()}
        record, table = prepared.record.model_copy(update={"groups": groups}), self.table(doc)

        def make_rows(judgements: Sequence[Judgement]) -> dict[str, Row]:
            graded = record.judged(judgements) if judgements else record
            added = {
                "signature": self._logged_signature(doc, prepared.drawn_by),
                "facts": {**record.facts, **self.facts(doc, graded)},
            }
            return table.rows(graded.model_copy(update=added), **self.row_fields(doc))

        if prepared.request is None:
            return make_rows(())
        assert self.judge is not None  # noqa: S101 - there is a request to it
        pending = PendingSample(
            request=prepared.request,
            is_impossible=functools.partial(self.is_impossible, record.sample),
            grade=functools.partial(self.grade, record.sample),
            make_rows=make_rows,
            metrics=(RECORD_KEY, *table.names),
        )
        return self.judge.submit(pending)

    def _logged_signature(self, doc: Doc, drawn_by: str | None) -> Signature:
        """The signature after judging: a judge in this process fixes its own when it starts."""
        try:
            signature = self.signature(doc)
        except MmieTasksError as error:
            why = {"judge": "unknown", "why": first_line(error).replace("|", " ")}
            unknown = Signature(judges=(why,), benchmark={"paper_judge": "no"})
            floor = self.settings.min_coverage
            signature = Signature.of_run(self.provenance(doc), unknown, floor)
        return signature.with_answers(drawn_by)

    def _open(self, doc: Doc, path: Path) -> Image.Image:
        """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
        return self.opener.open(str(doc["id"]), path)


def _unscorable(doc: Doc, results: Sequence[object], error: Exception) -> Prepared:
    """The answer to a sample for which a method of the benchmark raised an error."""
    detail = f"{type(error).__name__}: {first_line(error)}"
    record = Record(
        id=str(doc.get("id")),
        answer=shown_results(results),
        verdicts=Verdicts.unscored("not_scorable", detail),
    )
    return Prepared(record=record, request=None)


def _segment(part: str | Path) -> Segment:
    return Segment(text=part) if isinstance(part, str) else Segment(image=str(part))


def _is_json(value: object) -> bool:
    """Whether JSON has such a value; an opened image of a dataset is not logged."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(part) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int | float | bool)
