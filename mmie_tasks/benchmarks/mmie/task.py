"""The functions that the MMIE YAMLs name, its `Benchmark`, its samples in a log, and
``mmie-tasks export mmie``.

A YAML selects samples with ``dataset_name``: ``all``, ``sa``, ``pbl``, ``msr`` or ``1k``.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loguru import logger

from mmie_tasks.benchmarks.benchmark import Benchmark, Doc, PublishedRow
from mmie_tasks.benchmarks.mmie import data, metrics, prompts
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, digit_offset, read_official
from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample, Segment
from mmie_tasks.core import __version__
from mmie_tasks.core.errors import (
    AnswersUnusable,
    DataBroken,
    DataMissing,
    MmieTasksError,
    SettingWrong,
)
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.messages import user_turn
from mmie_tasks.core.options import coverage_floor, floor_signature
from mmie_tasks.core.tables import counted, listed
from mmie_tasks.core.verdict import Verdict, Verdicts
from mmie_tasks.hub.asset import Asset
from mmie_tasks.hub.images import ImageOpener
from mmie_tasks.judging.requests import GradedRequest
from mmie_tasks.judging.session import BenchmarkJudge, MetricRows, PendingSample
from mmie_tasks.record import log_line
from mmie_tasks.record.expected import expected_verdict
from mmie_tasks.record.log_files import find_runs, read_lines
from mmie_tasks.record.panel import Judged
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.rows import aggregation, plain_score
from mmie_tasks.record.sample import BadRecord, Line, LoggedSample, Record
from mmie_tasks.record.segment import LoggedSegment, Segments

if TYPE_CHECKING:
    import datasets
    from PIL import Image

VERSION = "5-C"
"""``N-X`` of every task here: N changes with the scores, X with the interface."""

TASKS = {"all": "mmie", "sa": "mmie_sa", "pbl": "mmie_pbl", "msr": "mmie_msr", "1k": "mmie_1k"}
"""Values of ``dataset_name``, to the tasks that have them."""

WHOLE_TASKS = ("mmie", "mmie_1k")
"""The tasks with samples of every category."""

JUDGE = BenchmarkJudge(
    "mmie", "mmie_score", paper="mmie_score", title="MMIE", check_setup=requests.check_setup
)
_OPENER = ImageOpener()  # of this process: a sample whose image could not be opened is not scored

_LEADERBOARD_COLUMNS = ("Model", "Model Type", "SA", "PBL", "MSR", "AVG")
_TYPES = {"interleaved": "Interleaved LVLM", "integrated": "Integrated LVLM"}
_EXPORT_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_mmie*.jsonl`"


def grade(result: JudgeResult) -> Verdicts:
    """All verdicts of a reply. The official script also reads a reply that reached its limit."""
    official = result.first_verdict(read_official, read_cut_off=True)
    offset = digit_offset(result.reply.text) if result.reply else None
    expected = expected_verdict(result.reply, offset, official, FULL_MARKS)
    return Verdicts(
        official=official,
        robust=result.first_verdict(read_robust),
        expected=expected.verdict,
        entropy_bits=expected.entropy_bits,
    )


def process_docs(stub: datasets.Dataset) -> datasets.Dataset:
    """The samples, in place of the stub that the YAML loads.

    Missing or broken data ends the process with a message: the runner would retry an exception.
    """
    selection = stub.config_name
    try:
        coverage_floor(os.environ)  # an invalid setting ends the run here, and not after it
        samples = data.dataset(selection, os.environ)
        return samples.add_column("task", [TASKS[selection]] * len(samples))
    except MmieTasksError as error:
        raise SystemExit(str(error)) from None


def doc_to_messages(
    doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None
) -> list[dict[str, object]]:
    """The question as one user turn with opened images, in order."""
    before, after = _affixes(lmms_eval_specific_kwargs)
    parts = [_open(doc, part) if isinstance(part, Path) else part for part in _question(doc)]
    return user_turn([before, *parts, after])


def doc_to_text(doc: Doc, lmms_eval_specific_kwargs: Mapping[str, Any] | None = None) -> str:
    """The question for wrappers that take text and images separately.

    ``image_token`` (default ``<image>``) marks an image; ``{n}`` in it counts from 1.
    """
    token = str((lmms_eval_specific_kwargs or {}).get("image_token", "<image>"))
    before, after = _affixes(lmms_eval_specific_kwargs)
    count, texts = 0, []
    for part in _question(doc):
        count += isinstance(part, Path)
        texts.append(part if isinstance(part, str) else token.replace("{n}", str(count)))
    return f"{before}{''.join(texts)}{after}"


def doc_to_visual(doc: Doc) -> list[Image.Image]:
    """The images of the question, opened, in order."""
    return [_open(doc, part) for part in _question(doc) if isinstance(part, Path)]


def picture_limit(doc: Doc) -> int:
    """How many pictures of an answer the judge can see; 0 for multi-step reasoning, whose answers
    are texts.

    The answer ends with the third image of question and answer together (rules D9 and D5 in
    `prompts`).
    """
    sample = Sample.from_doc(doc)
    in_question = sum(isinstance(part, Path) for part in requests.question_parts(sample))
    return 0 if sample.category == "MSR" else max(0, prompts.IMAGES_AT_END - in_question)


def doc_to_target(doc: Doc) -> str:
    """The text of the gold answer, for the log. The judge gets it for MSR only."""
    return "\n".join(segment["text"] for segment in doc["gold"] if segment["text"])


def _question(doc: Doc) -> list[str | Path]:
    return requests.question_parts(Sample.from_doc(doc))


def _affixes(specific: Mapping[str, Any] | None) -> tuple[str, str]:
    options = specific or {}
    return str(options.get("pre_prompt", "")), str(options.get("post_prompt", ""))


def _open(doc: Doc, path: Path) -> Image.Image:
    """The image; a blank one if it cannot be opened (see `ImageOpener`)."""
    return _OPENER.open(doc["id"], lambda: path)


def process_results(doc: Doc, results: Sequence[object]) -> Mapping[str, object]:
    """The rows of one answer, filled in once it is judged. A missing answer is not judged."""
    sample = Sample.from_doc(doc)
    built = requests.build_request(sample, results, doc["task"])
    if problem := _OPENER.failure(sample.id):
        built = built.withdrawn("bad_image", problem)
    table = metrics.TABLE if doc["task"] in WHOLE_TASKS else metrics.CATEGORY_TABLE

    def make_rows(judged: Judged) -> MetricRows:
        logged = {"signature": _shown_signature(doc, built), "answer": list(built.answer)}
        facts = requests.with_usage(built.facts, judged.result.reply)
        record = {**metrics.record(sample, judged.verdicts, facts), **logged, **judged.fields}
        return table.rows(metrics.graded_sample(sample, judged.verdicts), record)

    if built.request is None:
        return make_rows(Judged(verdicts=Verdicts.unscored(built.reason, built.detail)))
    request = GradedRequest(request=built.request, grade=grade)
    return JUDGE.submit(
        PendingSample(request=request, make_rows=make_rows, metrics=table.names), plain=plain_score
    )


def _shown_signature(doc: Doc, built: requests.BuiltRequest) -> str:
    """For the record of a judged sample: a judge in this process fixes its signature when it
    starts.
    """
    try:
        shown_signature = signature(doc)
    except MmieTasksError as error:  # an unusable judge leaves samples unscored
        shown_signature = f"judge:unknown|why:{str(error).splitlines()[0]}|{provenance(doc)}"
    if built.answer_signature is not None:
        shown_signature += f"|answers:{built.answer_signature}"
    return shown_signature


def provenance(doc: Doc) -> str:
    """Task version, readers and data revision in one line; without judge and request."""
    return f"reader:official+robust|task:mmie@{VERSION}|data:{doc['data']}"


def signature(doc: Doc) -> str:
    """Everything that can move the score; another judge than the paper's is marked as such.

    Raises:
        MmieTasksError: The chosen judge cannot be opened.
    """
    settings = f"{requests.signature()}|{provenance(doc)}{floor_signature(os.environ)}"
    return f"{JUDGE.signature()}|{settings}|pkg:{__version__}"


percent = aggregation(metrics.SCALE)


_FACTS = {
    "shape": "shape of the answer",
    "answer_images": "images in the answer",
    "shown_images": "images shown to the judge",
    "tiles": "tiles",
    "judge_tokens": "judge tokens",
    "judge_tokens_exact": "judge tokens are exact",
    "truncated": "truncated",
    "dropped": "dropped",
    "missing_images": "missing images",
    "bad_images": "bad images",
    "drawn": "pictures drawn",
}
_COUNTS = {
    "image_problems": "images of the answer not used",
    "unread": "texts and images not read",
    "picture_signs": "signs of unread pictures",
    "not_drawn": "pictures not drawn",
    "unused": "not used of the writer's answer",
}


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    question = log_line.segments(record, "question")
    gold, target = log_line.segments(record, "gold"), log_line.optional_text(line, "target")
    answer = log_line.segments(record, "answer")  # empty or None: not parsed into segments
    return replace(
        log_line.sample(line, FULL_MARKS),
        groups=metrics.groups(str(record["category"]), log_line.optional_text(record, "field")),
        question=log_line.question(line, None) if question is None else question,
        gold=log_line.text_segments(target) if gold is None else gold,
        answer=answer or log_line.text_segments(log_line.answer(line)),
        pictures_not_drawn=sum(_counts(record, "not_drawn").values()),
        picture_signs=tuple(_counts(record, "picture_signs")),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved replies; None if the line lacks them.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    _record(line)
    return log_line.reread(line, grade, FULL_MARKS)


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no reply."""
    record = _record(line)
    judged = log_line.rejudged(record, grade, FULL_MARKS)
    if judged is None or not log_line.replies(record):
        return record
    return {**record, **metrics.graded_fields(judged.verdicts), **judged.panel_fields}


def judge_request(question: Segments, answer: Segments, line: Line | None) -> GradedRequest:
    """The request for any question and answer, assembled as in a run; see
    `Benchmark.judge_request`.

    Without a line the template is that of situational analysis (SA).

    Raises:
        BadRecord: The line is not a sample of this benchmark, or the official script sends no such
            request.
        MmieTasksError: The templates are not available.
    """
    record = {} if line is None else _record(line)
    logged = None if line is None else read_line(line)
    if logged and answer == logged.answer and not record.get("answer"):
        answer = log_line.segments(record, "answer") or ()
    sample = Sample(
        id=logged.id if logged else "",
        index=0,
        row=0,
        category=str(record.get("category", "SA")),
        field="",
        question=_segments(question, record, "question"),
        gold=_segments([replace(segment, image=None) for segment in logged.gold], record, "gold")
        if logged
        else (),
    )
    built = requests.request_for(sample, _segments(answer, record, "answer"))
    if built.request is None:
        raise BadRecord(f"{built.reason}: {built.detail}")
    cut_images, cut_texts = built.cut_images, built.cut_texts
    return GradedRequest(
        request=built.request, grade=grade, cut_images=cut_images, cut_texts=cut_texts
    )


def _segments(segments: Sequence[LoggedSegment], record: Record, name: str) -> tuple[Segment, ...]:
    """Segments for the assembly, in which an empty text ends a line and an absent one does not.

    A logged segment has an empty text in both cases; the record says which it is at this position.
    """
    rows = record.get(name)
    texts = (
        [row.get("text") for row in rows if isinstance(row, Mapping)]
        if isinstance(rows, list)
        else []
    )
    log_line.parts(tuple(segments))  # every image is a file
    return tuple(
        Segment(
            segment.text or ("" if "" in texts[position : position + 1] else None), segment.image
        )
        for position, segment in enumerate(segments)
    )


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("category") not in CATEGORIES:
        raise BadRecord(f"`category` is none of {', '.join(CATEGORIES)}: not a sample of MMIE")
    return record


def _facts(record: Record) -> dict[str, str | float | bool]:
    """The facts worth showing: without zeros, empty texts and unset flags."""
    facts = log_line.mapping(record, "facts")
    shown: dict[str, str | float | bool] = {}
    for name, title in _FACTS.items():
        value = facts.get(name)
        fact = value if isinstance(value, (str, bool)) else log_line.number(value)
        if fact:
            shown[title] = fact
    if marks := ", ".join(
        mark for mark, count in log_line.mapping(facts, "typed").items() if count
    ):
        shown["typed control marks"] = marks
    for name, title in _COUNTS.items():
        if counts := _counts(record, name):
            shown[title] = listed(counts)
    return shown


def _counts(record: Record, name: str) -> dict[str, int]:
    """Counts above 0 in the facts of a record, by name; of a log that may have any content."""
    counts = log_line.mapping(log_line.mapping(record, "facts"), name)
    return {
        reason: count
        for reason, value in counts.items()
        if (count := int(log_line.number(value) or 0)) > 0
    }


PUBLISHED_ROWS = tuple(
    PublishedRow(
        model=model,
        scores=dict(zip(("SA", "PBL", "MSR", ""), percents, strict=True)),
        source="MMIE's project site, mmie-bench.github.io",
    )
    for model, percents in {
        "MiniGPT-5": (47.63, 55.12, 42.17, 50.92),
        "EMU-2": (39.65, 46.12, 50.75, 45.33),
        "GILL": (46.72, 57.57, 39.33, 51.58),
        "Anole": (48.95, 59.05, 51.72, 55.22),
        "GPT-4o + SD-XL": (56.12, 73.25, 53.67, 65.47),
        "Gemini-1.5 + SD-XL": (49.43, 71.85, 60.05, 64.15),
        "LLaVA-34b + SD-XL": (55.97, 74.60, 47.28, 65.05),
        "Qwen-VL-70b + SD-XL": (52.58, 73.57, 55.63, 65.12),
    }.items()
)
_TOTAL = sum(data.PUBLISHED.values())


def assets(_tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The data, and the official judge prompts; every task of MMIE needs both.

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    return [data.asset(environment), requests.prompts_asset(environment)]


def run_export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export mmie ARGUMENTS``; returns a sentence about the result.

    Invalid arguments end the process with status 2, as argparse does.

    Raises:
        MmieTasksError: The export is not possible.
    """
    parsed = _parser().parse_args(arguments)
    runs = [Path(run).expanduser() for run in parsed.runs]
    names = parsed.model or [run.stem if run.is_dir() else run.parent.name for run in runs]
    if len(names) != len(runs):
        message = f"{counted(len(runs), 'run')}, but {counted(len(names), 'name')} of `--model`."
        raise SettingWrong(message, hint="give `--model` once per RUN, in the same order")
    if parsed.leaderboard:
        return _leaderboard(
            list(zip(names, runs, strict=True)), _TYPES[parsed.type], Path(parsed.output)
        )
    if len(runs) > 1:
        raise SettingWrong("A judge's input is made of one run.", hint="name one RUN")
    return _judge_input(runs[0], names[0], Path(parsed.output).expanduser(), environment)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export mmie",
        description="Write a run as input of MMIE's official script: a folder with `data.json` and "
        "images. Or, with --leaderboard, write one or more runs as rows of its leaderboard: a CSV "
        "file.",
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folder or sample log of a run with `--log_samples`"
    )
    parser.add_argument(
        "-o", "--output", metavar="PATH", required=True, help="the new folder, or the CSV file"
    )
    help_text = "the tested model's name, once per run; default: that of its folder"
    parser.add_argument("--model", action="append", metavar="NAME", help=help_text)
    parser.add_argument("--leaderboard", action="store_true", help="write a CSV, one row per run")
    help_text = "the leaderboard's kind of model, for all runs; default: %(default)s"
    parser.add_argument("--type", choices=_TYPES, default="interleaved", help=help_text)
    return parser


def _judge_input(run: Path, model: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Write ``data.json`` and ``images/``; an existing folder is not touched."""
    if folder.exists():
        raise SettingWrong(f"`{folder}` exists already.", hint="name a new folder with `-o`")
    if not (environment.get("MMIE_DATA") or data.asset(environment).is_here()):
        hint = (
            "set `MMIE_DATA` to the data that the run used, or download it: `mmie-tasks prefetch "
            "mmie`"
        )
        raise DataMissing("The export needs MMIE's data, which is not on this machine.", hint=hint)
    samples = {doc["id"]: Sample.from_doc(doc) for doc in data.dataset("all", environment)}
    records = records_of(run)
    if unknown := [str(r["id"]) for r in records if r["id"] not in samples]:
        message = f"{len(unknown)} samples of the run are not in the data, the first: {unknown[0]}."
        raise DataBroken(message, hint="point `MMIE_DATA` at the data that the run used")
    with_answer = [
        record
        for record in records
        if not isinstance(official := record["official"], Mapping)
        or official.get("unscored") not in ("no_answer", "not_text")
    ]
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
    images = _Images(unfinished)
    rows = [
        _export_row(samples[str(record["id"])], record, model, images) for record in with_answer
    ]
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (unfinished / "data.json").write_text(f"{text}\n", encoding="utf-8")
    unfinished.replace(folder)
    left_out = len(records) - len(with_answer)
    more = f"; {left_out} without an answer were left out" if left_out else ""
    return f"{len(rows)} samples and {len(images.names)} images written to `{folder}`{more}."


def records_of(run: Path) -> list[Record]:
    """The record of each sample of a run, in the order of the logs.

    Args:
        run: A sample log, or a folder with those of one run. Of several logs of a task the newest
            is taken.

    Raises:
        AnswersUnusable: There is none, it is of another kind, or two tasks differ on a sample.
    """
    records: dict[str, Record] = {}
    for log in _logs(run):
        for numbered in read_lines(log):
            if numbered.line is None:
                logger.warning(f"{log}: line {numbered.number}, the last, is cut off; left out.")
                continue
            location = f"{log}, line {numbered.number}"
            record = numbered.line.get("coverage")
            if not isinstance(record, Mapping) or not {"id", "category", "official"} <= set(record):
                message = f"{location}: not a scored sample of MMIE (`--predict_only` scores none)."
                raise AnswersUnusable(message, hint=_EXPORT_HINT)
            previous = records.setdefault(str(record["id"]), record)
            if previous.get("answer") != record.get("answer"):
                raise AnswersUnusable(
                    f"{location}: the second, different answer to {record['id']}.",
                    hint=_EXPORT_HINT,
                )
    if not records:
        raise AnswersUnusable(f"`{run}` holds no samples of MMIE.", hint=_EXPORT_HINT)
    return list(records.values())


def _logs(run: Path) -> list[Path]:
    folders = [
        folder
        for folder in find_runs(str(run))
        if any(log.task in TASKS.values() for log in folder.logs)
    ]
    if not folders:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_EXPORT_HINT)
    if len(folders) > 1:
        raise AnswersUnusable(
            f"Two runs below `{run}`: `{folders[0].folder}` and `{folders[1].folder}`.",
            hint=_EXPORT_HINT,
        )
    return [log.path for log in folders[0].logs if log.task in TASKS.values()]


def _export_row(sample: Sample, record: Record, model: str, images: _Images) -> dict[str, object]:
    logged = record.get("answer")
    segments = logged if isinstance(logged, list) else ()
    answer = [Segment(segment["text"], segment["image"]) for segment in segments]
    question, answer_parts, gold = (
        [images.part(segment) for segment in segments]
        for segments in (sample.question, answer, sample.gold)
    )
    return {
        "id": sample.id,
        "model": model,
        "question": question,
        "answer": answer_parts,
        "gt_answer": gold or [{"text": "", "image": None}],  # the script needs one; for MSR the
        "category": sample.category,  # answer is judged by it
        "field": sample.field,
    }


class _Images:
    """Copies files into ``images/``, every file once, numbered in order of first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "images"
        self._folder.mkdir(parents=True)
        self.names: dict[str, str] = {}  # of every copied file

    def part(self, segment: Segment) -> dict[str, str | None]:
        """The segment in the script's form; a missing file keeps its name."""
        image = segment.image
        if image is not None and image not in self.names and Path(image).is_file():
            name = f"{len(self.names)}{Path(image).suffix.lower()}"
            shutil.copyfile(image, self._folder / name)
            self.names[image] = f"images/{name}"
        return {
            "text": segment.text,
            "image": None if image is None else self.names.get(image, Path(image).name),
        }


def _leaderboard(runs: Sequence[tuple[str, Path]], kind: str, target: Path) -> str:
    records = {name: records_of(run) for name, run in runs}
    rows = [leaderboard_row(records[name], name, kind) for name, _ in runs]
    for name in (
        name
        for name in records
        if any("|answers:" in str(r.get("signature")) for r in records[name])
    ):
        logger.warning(
            f"{name}: its pictures are drawn by our reconstruction, not by the pipeline of "
            "published rows."
        )
    if incomplete := [str(row["Model"]) for row in rows if None in row.values()]:
        logger.warning(f"Rows with empty cells, for lack of scores: {', '.join(incomplete)}.")
    with atomic_write(target) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _LEADERBOARD_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return f"{counted(len(rows), 'row')} written to `{target}`."


def leaderboard_row(
    records: Sequence[Record], model: str, model_type: str
) -> dict[str, str | float | None]:
    """A row with the columns of the project's leaderboard, percent to 2 decimals.

    Args:
        records: Of the samples of a run.
        model: The tested model.
        model_type: ``Interleaved LVLM`` or ``Integrated LVLM``.

    Returns:
        None where there are no samples, or too few with a score.
    """
    from mmie_tasks.record.metric_values import metric_value  # numpy, which few commands need

    row: dict[str, str | float | None] = {
        "Model": model,
        "Model Type": model_type,
        **dict.fromkeys(CATEGORIES),
    }
    samples = [
        LoggedSample(
            id=str(record["id"]),
            official=metrics.verdict_in(record, "official"),
            robust=metrics.verdict_in(record, "official"),  # not in the table
            groups=metrics.groups(str(record["category"]), ""),
            signature=str(record.get("signature", "")),
        )
        for record in records
    ]
    for metric in metrics.METRICS[: len(CATEGORIES) + 1]:  # the average and the categories
        value = metric_value(samples, metric, "official", metrics.SCALE, resamples=0)
        row[metric.name or "AVG"] = value.percent if value else None
    return row


BENCHMARK = Benchmark(
    name="mmie",
    title="MMIE",
    scale=metrics.SCALE,
    metrics=metrics.METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    strata="category",
    counts=metrics.counts,
    notes=metrics.notes,
    published={
        "mmie": _TOTAL,
        "mmie_1k": _TOTAL,
        **{f"mmie_{name.lower()}": n_samples for name, n_samples in data.PUBLISHED.items()},
    },
    published_rows=PUBLISHED_ROWS,
    judge=JUDGE,
    judge_request=judge_request,
    assets=assets,
    check_data=data.check_data,
    provenance=provenance,
    signature=signature,
    add_answer_folder=requests.add_answer_folder,
    picture_limit=picture_limit,
    export=run_export,
)
