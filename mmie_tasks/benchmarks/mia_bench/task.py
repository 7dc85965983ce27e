"""MIA-Bench's task: the functions that its YAML names, its `Benchmark`, and its samples in a
log.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import count, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mmie_tasks.answers.parsing import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.benchmark import Benchmark, Doc
from mmie_tasks.benchmarks.mia_bench import data, metrics, prompts
from mmie_tasks.benchmarks.mia_bench.official import read_official
from mmie_tasks.benchmarks.mia_bench.robust import is_impossible, read_robust
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core import __version__
from mmie_tasks.core.errors import DataBroken, MmieTasksError
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.options import coverage_floor, floor_signature
from mmie_tasks.core.verdict import Scored, Verdict, Verdicts
from mmie_tasks.hub.asset import Asset, installed_asset
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import BenchmarkJudge, MetricRows, PendingSample
from mmie_tasks.record import log_line
from mmie_tasks.record.log_line import NOT_LOGGED
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import aggregation, plain_score
from mmie_tasks.record.sample import SCORE_KINDS, BadRecord, Line, LoggedSample, Record, ScoreKind
from mmie_tasks.record.segment import LoggedSegment, Segments

if TYPE_CHECKING:
    import datasets
    from PIL import Image

VERSION = "3-B"
"""``N-X``: N changes with the scores, X with the interface."""

_OPENER = ImageOpener()  # of this process: a sample whose image could not be opened is not scored
_SKIPPED = "error"  # the notebook leaves out an answer that is only this word (cell 11)


@functools.cache
def prompt_maker() -> prompts.PromptMaker:
    """The prompt maker in the installed runner's file, which is read as data and not imported.

    Raises:
        OfficialTextChanged: No such file or function.
    """
    spec = find_spec("lmms_eval")
    for folder in (spec and spec.submodule_search_locations) or ():
        path = Path(folder) / "tasks" / "mia_bench" / "utils.py"
        if path.is_file():
            return prompts.runner_prompt(path.read_text(encoding="utf-8"))
    raise prompts.OfficialTextChanged("This lmms-eval has no MIA-Bench prompt.")


def check_prompt() -> None:
    """Check that the installed runner has the text that the official prompt is made from.

    Raises:
        DataBroken: It has not.
    """
    try:
        prompts.check(prompt_maker())
    except prompts.OfficialTextChanged as error:
        raise DataBroken(str(error), hint=prompts.HINT) from error


DEFAULT_JUDGE = "openai:gpt-4o-2024-11-20"
JUDGE = BenchmarkJudge(
    "mia_bench",
    DEFAULT_JUDGE,
    paper="openai:gpt-4o",  # the notebook's alias, dated
    title="MIA-Bench",
    check_setup=check_prompt,
)


def grade(sample: Sample, result: JudgeResult) -> Verdicts:
    """The official verdict of the first reply and the robust verdict of the last, in percent of
    full marks.
    """
    result = _with_needed_replies(sample, result)
    official = result.first_verdict(lambda reply: read_official(sample.categories, reply))
    robust = result.verdict(lambda reply: read_robust(sample, reply))
    parts: dict[ScoreKind, Mapping[str, float]] = {}
    if isinstance(official, Scored):
        parts["official"] = metrics.official_shares(sample, result.replies[0].text)
    if isinstance(robust, Scored):
        parts["robust"] = metrics.robust_shares(sample, result.last_text)
    return Verdicts(
        official=metrics.in_percent(official), robust=metrics.in_percent(robust), parts=parts
    )


def _with_needed_replies(sample: Sample, result: JudgeResult) -> JudgeResult:
    """The result; without a second reply if the first is possible, so that it would not be
    requested again today.
    """
    first = result.reply
    is_needed = first is not None and first.finish == "stop" and is_impossible(sample, first.text)
    return result if is_needed else replace(result, second_reply=None)


def last_reply(sample: Sample, judged: Judged) -> str | tuple[str, ...]:
    """The text of the judge's last reply, of a panel that of each judge; empty without a reply."""
    texts = tuple(
        _with_needed_replies(sample, member.result).last_text for member in judged.members
    )
    return texts if judged.panel is not None else "".join(texts)


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:  # noqa: ARG001 - the runner's signature
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        return data.dataset(os.environ)
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The image, then the instruction, as one user turn."""
    return user_turn([_open(doc), doc_to_text(doc, lmms_eval_specific_kwargs)])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The instruction, between ``pre_prompt`` and ``post_prompt`` as in the runner's own task."""
    options = lmms_eval_specific_kwargs or {}
    return f"{options.get('pre_prompt', '')}{doc['instruction']}{options.get('post_prompt', '')}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The image, opened."""
    return [_open(doc)]


def doc_to_target(doc: Doc) -> str:  # noqa: ARG001 - the runner's signature
    """Empty: an instruction has no gold answer."""
    return ""


def _open(doc: Doc) -> Image.Image:
    return _OPENER.open(doc["id"], lambda: Path(doc["image"]))


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    logged = {
        "answer_sha256": hashlib.sha256(
            "".join(map(str, results)).encode(errors="surrogatepass")
        ).hexdigest()
    }

    def make_rows(judged: Judged) -> MetricRows:
        record = {
            **metrics.record(sample, judged.verdicts, last_reply(sample, judged)),
            "image": doc["image"],
            "signature": signature(doc),
            **logged,
            **judged.fields,
        }
        return metrics.TABLE.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if (verdicts := _unscored(sample, results)) is not None:
        return make_rows(Judged(verdicts=verdicts))
    request = graded_request(sample, str(results[0]), [Path(doc["image"])])
    pending = PendingSample(request=request, make_rows=make_rows, metrics=metrics.TABLE.names)
    return JUDGE.submit(pending, plain=plain_score)


def _unscored(sample: Sample, results: Sequence[object]) -> Verdicts | None:
    """The verdicts on an answer that is not sent to the judge; None for every other.

    The official script leaves out an answer that is only the word `_SKIPPED`; it judges an empty
    one.
    """
    answer = results[0] if len(results) == 1 else None
    if not isinstance(answer, str):
        return Verdicts.unscored("not_text", f"{len(results)} answers instead of one text")
    if answer.startswith(NOT_TEXT):
        return Verdicts.unscored("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if failure := failure_of(answer):
        return Verdicts.unscored("no_answer", failure)
    if problem := _OPENER.failure(sample.id):
        return Verdicts.unscored("bad_image", problem)
    if answer == _SKIPPED:
        return Verdicts.unscored("no_answer", f"the official script skips the answer `{_SKIPPED}`")
    return None


def request_of(doc: Doc, answer: str) -> JudgeRequest:
    """The request for an answer: the official text, then the image."""
    return graded_request(Sample.from_doc(doc), answer, [Path(doc["image"])]).request


def graded_request(sample: Sample, answer: str, images: Sequence[Path]) -> GradedRequest:
    """The official text with an answer, then images, as in the notebook (cell 11), and the readers
    of the reply.
    """
    text = prompt_maker()(sample.instruction, sample.components, sample.weights, answer)
    return GradedRequest(
        request=JudgeRequest(
            parts=(prompts.official(text), *images), max_tokens=prompts.MAX_TOKENS
        ),
        is_impossible=functools.partial(is_impossible, sample),
        grade=functools.partial(grade, sample),
    )


def provenance(doc: Doc) -> str:
    """Task version, prompt, readers and data revision in one line; without the judge."""
    return (
        f"prompt:official,max_tokens={prompts.MAX_TOKENS}|reader:official+robust"
        f"|task:mia_bench@{VERSION}|data:{doc['data']}"
    )


def signature(doc: Doc) -> str:
    """Everything that can move the score; another judge than the paper's is marked as such.

    Raises:
        SettingWrong: The chosen judge cannot be opened.
    """
    return f"{JUDGE.signature()}|{provenance(doc)}{floor_signature(os.environ)}|pkg:{__version__}"


percent = aggregation(metrics.SCALE)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    return replace(
        log_line.sample(line, math.inf),
        groups=metrics.groups(
            log_line.text(record, "type"),
            log_line.texts(record, "categories") or (),
            contradictory=record.get("contradictory") is True,
        ),
        parts={kind: _parts(record, kind) for kind in SCORE_KINDS},
        question=_question(line, record),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved replies; None if the line lacks them.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    judged = _rejudged(_record(line))
    return (
        None
        if judged is None
        else {"official": judged.verdicts.official, "robust": judged.verdicts.robust}
    )


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no readable reply."""
    record = _record(line)
    sample, judged = _sample(record), _rejudged(record)
    if sample is None or judged is None or not log_line.replies(record):
        return record
    reply = last_reply(sample, judged)
    return {
        **record,
        **metrics.graded_fields(sample, judged.verdicts, reply),
        **judged.panel_fields,
    }


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer in the official text; see `Benchmark.judge_request`.

    Images follow the text, the question's first; marks such as ``[picture 2]`` in the answer show
    where they stand. Without a line there are such marks in the question, too, and its text is the
    instruction and the only component, worth 10 points.

    Raises:
        BadRecord: The line is not a sample of this benchmark, or lacks components.
        DataBroken: The installed runner does not have the official text.
    """
    check_prompt()
    question_parts, answer_parts = log_line.parts(question), log_line.parts(answer)
    images = [part for part in (*question_parts, *answer_parts) if isinstance(part, Path)]
    first_number = sum(isinstance(part, Path) for part in question_parts) + 1
    sample = (
        _pair_sample(_marked(question_parts, 1)) if line is None else _logged_sample(question, line)
    )
    return graded_request(sample, _marked(answer_parts, first_number), images)


def _marked(parts: Sequence[str | Path], first_number: int) -> str:
    """Texts, one per line, with marks in the place of images.

    >>> _marked(("Cut.", Path("a.png"), "Fold."), 2).splitlines()
    ['Cut.', '[picture 2]', 'Fold.']
    """
    numbers = count(first_number)
    return "\n".join(
        part if isinstance(part, str) else f"[picture {next(numbers)}]" for part in parts
    )


def _pair_sample(text: str) -> Sample:
    """A question that is no sample of the benchmark."""
    return Sample(
        id="",
        instruction=text,
        type=TYPES[0],
        components=(text,),
        weights=(10,),
        categories=CATEGORIES[:1],
    )


def _logged_sample(question: Segments, line: Line) -> Sample:
    """The sample of a line, with the instruction of a question, which is the sample's own or
    another.
    """
    record = _record(line)
    sample = _sample(record)
    if sample is None or len(sample.components) != len(sample.categories):
        raise BadRecord("the components of the instruction are not in this log")
    texts, own_texts = (
        [s.text for s in segments if s.text] for segments in (question, _question(line, record))
    )
    instruction = log_line.optional_text(record, "instruction") if texts == own_texts else ""
    return replace(sample, instruction=instruction or "\n".join(texts))


def _rejudged(record: Record) -> Judged | None:
    sample = _sample(record)
    return log_line.rejudged(record, None if sample is None else partial(grade, sample), math.inf)


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("type") not in TYPES:
        raise BadRecord("`type` is none of MIA-Bench's types: not a sample of MIA-Bench")
    return record


def _sample(record: Record) -> Sample | None:
    """The fields of the sample that the readers need; None if the record lacks them."""
    categories, weights = log_line.texts(record, "categories") or (), _weights(record)
    if not categories or len(weights) != len(categories):
        return None
    return Sample(
        id=log_line.text(record, "id"),
        instruction="",
        type=log_line.text(record, "type"),
        components=log_line.texts(record, "asked") or (),
        weights=weights,
        categories=categories,
    )


def _weights(record: Record) -> tuple[int, ...]:
    """Full marks of each component, in points.

    Raises:
        BadRecord: The field has another form.
    """
    value = record.get("weights")
    if value is None:
        return ()
    if not isinstance(value, list) or not all(
        type(weight) is int and 0 < weight < 1000 for weight in value
    ):
        raise BadRecord("`weights` is not a list of numbers of points from 1")
    return tuple(value)


def _parts(record: Record, kind: ScoreKind) -> dict[str, float]:
    shares = log_line.mapping(log_line.mapping(record, "parts"), kind)
    return {
        name: number
        for name, share in shares.items()
        if (number := log_line.number(share)) is not None
    }


def _question(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    """The image, then the instruction, as in the request to the tested model."""
    text = log_line.text_segments(log_line.optional_text(line, "input"))
    if "image" not in record:
        return (LoggedSegment(problem=NOT_LOGGED), *text)
    image = log_line.optional_text(record, "image")
    return (
        LoggedSegment(image=image or None, problem="" if image else "the data names no file"),
        *text,
    )


def _facts(record: Record) -> dict[str, str | float | bool]:
    """Text and mark of each component, of several judges their marks in order, and what is unusual
    about the sample.
    """
    facts: dict[str, str | float | bool] = {}
    marks_of_judges = record.get("marks", [record])  # a panel has a list
    components = [
        marks if isinstance(marks, list) else []
        for judge_marks in (marks_of_judges if isinstance(marks_of_judges, list) else ())
        if isinstance(judge_marks, Mapping)
        for marks in [judge_marks.get("components")]
    ]
    columns = zip_longest(
        log_line.texts(record, "categories") or (),
        _weights(record),
        log_line.texts(record, "asked") or (),
        *components,
    )
    for number, (category, weight, text, *marks) in enumerate(columns, 1):
        suffix = f": {text}" if text else ""
        shown_marks = ", ".join(_mark(mark, weight) for mark in marks)
        facts[f"component {number}"] = f"{category or '?'} {shown_marks}{suffix}"
    if record.get("contradictory") is True:
        facts["contradictory"] = True
    if record.get("agrees") is False:
        facts["the stated total is that of its parts"] = False
    if (recomputed := log_line.number(record.get("recomputed"))) is not None:
        facts["total of the parts, percent"] = recomputed
    return facts


def _mark(mark: object, weight: int | None) -> str:
    """``3/4``; ``-/4`` if the reply gives no mark."""
    if isinstance(mark, list) and len(mark) == 2:
        points, out_of = map(log_line.number, mark)
        if points is not None and out_of is not None:
            return f"{points:g}/{out_of:g}"
    return f"-/{weight or '?'}"


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The samples with their images, and the judge prompt, which is installed with the runner.

    Raises:
        SettingWrong: ``MIA_BENCH_REVISION`` cannot be a revision.
    """

    def describe() -> str:
        check_prompt()
        return "unchanged, as in lmms-eval's own task"

    return [
        data.asset(environment),
        installed_asset("mia_bench: judge prompt", "lmms-eval", describe),
    ]


BENCHMARK = Benchmark(
    name="mia_bench",
    title="MIA-Bench",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    counts=metrics.counts,
    notes=metrics.notes,
    published={"mia_bench": 400},
    judge=JUDGE,
    judge_request=judge_request,
    assets=assets,
    check_data=data.check_data,
    provenance=provenance,
    signature=signature,
)
