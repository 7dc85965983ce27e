"""MMIE as a `Benchmark`: its metrics, its judge, and its samples in a log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from loguru import logger

from mmie_tasks.benchmarks.mmie import metrics
from mmie_tasks.benchmarks.mmie.metrics import FIELDS, Grading, slug
from mmie_tasks.benchmarks.mmie.official import FULL_MARKS, percent_of, read_official
from mmie_tasks.benchmarks.mmie.robust import read_robust
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.verdict import Scored, Verdict
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judging.session import BenchmarkJudge, JudgeResult
from mmie_tasks.runs import log_line
from mmie_tasks.runs.benchmark import (
    BadRecord,
    Benchmark,
    Doc,
    Environment,
    Line,
    LoggedSample,
    LoggedSegment,
    Metric,
    Record,
    Scale,
)
from mmie_tasks.runs.log_files import find_runs, read_lines

DEFAULT_JUDGE = "mmie_score"
PAPER_JUDGE = "mmie_score"
"""Name of the judge whose scores the paper reports, as signatures have it."""


def grade(result: JudgeResult) -> Grading:
    """Both verdicts of a reply. The official script also reads a reply that reached its limit."""
    official = result.first_verdict(read_official, read_cut_off=True)
    return Grading(official=official, robust=result.first_verdict(read_robust))


_TITLES = {
    "SA": "Situational analysis",
    "PBL": "Project-based learning",
    "MSR": "Multi-step reasoning",
}
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
}


SCALE = Scale(full_marks=FULL_MARKS, unit="points, 0 to 6", whole=True, percent=percent_of)
METRICS = (
    Metric(name="", title="AVG", kind="headline"),
    *(
        Metric(name=name, title=_TITLES[name], kind="category", by="category", weights={name: 1})
        for name in CATEGORIES
    ),
    *(
        Metric(
            name=name,
            title="EECS" if name == "eecs" else name.capitalize(),
            kind="field",
            by="field",
            weights={name: 1},
        )
        for name in FIELDS
    ),
)


def read_line(line: Line) -> LoggedSample:
    """Read one line of a sample log.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    record = _record(line)
    field = slug(log_line.optional_text(record, "field"))
    return LoggedSample(
        id=log_line.text(record, "id"),
        official=log_line.verdict(record, "official", FULL_MARKS),
        robust=log_line.verdict(record, "robust", FULL_MARKS),
        groups={
            "category": (str(record["category"]),),
            **({"field": (field,)} if field else {}),
        },
        question=_question(line, record),
        gold=_gold(line, record),
        answer=_answer(line, record),
        replies=log_line.replies(record) or (),
        signature=log_line.optional_text(record, "signature"),
        facts=_facts(record),
    )


def reread(line: Line) -> Mapping[str, Verdict] | None:
    """Apply the current readers to a line's saved reply; None if the line lacks it.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    graded = _regraded(_record(line))
    if graded is None:
        return None
    return {"official": graded.official, "robust": graded.robust}


def rerecord(line: Line) -> Record:
    """The record with the current readers' results; unchanged if it has no reply."""
    record = _record(line)
    graded = _regraded(record) if log_line.replies(record) else None
    return {**record, **metrics.graded_fields(graded)} if graded else record


def subsets(task: str, samples: Sequence[LoggedSample]) -> Mapping[str, frozenset[str]]:
    """The ids of ``mmie_1k``, in a run of the whole dataset; a part would give other ids."""
    from mmie_tasks.benchmarks.mmie.data import PUBLISHED, ids_of_1k

    ids: dict[str, list[str]] = {category: [] for category in CATEGORIES}
    for sample in samples:
        ids[sample.names("category")[0]].append(sample.id)
    is_whole = {category: len(members) for category, members in ids.items()} == PUBLISHED
    return {"mmie_1k": ids_of_1k(ids)} if task == "mmie" and is_whole else {}


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("category") not in CATEGORIES:
        raise BadRecord(f"`category` is none of {', '.join(CATEGORIES)}: not a sample of MMIE")
    return record


def _regraded(record: Record) -> Grading | None:
    """The grading of the saved reply by the current readers, or the reason there was no reply.

    None if a verdict was read from a reply that the log does not hold.
    """
    replies = log_line.replies(record)
    if replies:
        return grade(log_line.judge_result(replies))
    stored = Grading(
        official=log_line.verdict(record, "official", FULL_MARKS),
        robust=log_line.verdict(record, "robust", FULL_MARKS),
    )
    scored = isinstance(stored.official, Scored) or isinstance(stored.robust, Scored)
    return None if replies is None or scored else stored


def _question(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    segments = log_line.segments(record, "question")
    return log_line.question(line, None) if segments is None else segments


def _gold(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    segments = log_line.segments(record, "gold")
    if segments is not None:
        return segments
    text = log_line.optional_text(line, "target")
    return (LoggedSegment(text=text),) if text else ()


def _answer(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    """The answer's segments; the whole text if it was not parsed into segments."""
    if segments := log_line.segments(record, "answer"):
        return segments
    text = log_line.answer(line)
    return (LoggedSegment(text=text),) if text else ()


def _facts(record: Record) -> dict[str, str | float | bool]:
    """The facts worth showing: without zeros, empty texts and unset flags."""
    facts = log_line.mapping(record, "facts")
    shown: dict[str, str | float | bool] = {}
    for name, title in _FACTS.items():
        value = facts.get(name)
        fact = value if isinstance(value, (str, bool)) else log_line.number(value)
        if fact:
            shown[title] = fact
    return shown | _typed(log_line.mapping(facts, "typed"))


def _typed(typed: Record) -> dict[str, str | float | bool]:
    marks = ", ".join(mark for mark, count in typed.items() if count)
    return {"typed control marks": marks} if marks else {}


_TASKS = ("mmie", "mmie_sa", "mmie_pbl", "mmie_msr", "mmie_1k")
_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_mmie*.jsonl`"


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
            record = _record_at(numbered.line, location)
            previous = records.setdefault(str(record["id"]), record)
            if previous.get("answer") != record.get("answer"):
                message = f"{location}: the second, different answer to {record['id']}."
                raise AnswersUnusable(message, hint=_HINT)
    if not records:
        raise AnswersUnusable(f"`{run}` holds no samples of MMIE.", hint=_HINT)
    return list(records.values())


def _logs(run: Path) -> list[Path]:
    by_folder = {
        folder.folder: [log.path for log in folder.logs if log.task in _TASKS]
        for folder in find_runs(str(run))
    }
    folders = [folder for folder, logs in by_folder.items() if logs]
    if not folders:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_HINT)
    if len(folders) > 1:
        message = f"Two runs below `{run}`: `{folders[0]}` and `{folders[1]}`."
        raise AnswersUnusable(message, hint=_HINT)
    return by_folder[folders[0]]


def _record_at(line: Line, location: str) -> Record:
    record = line.get("coverage")
    if not isinstance(record, Mapping) or not {"id", "category", "official"} <= record.keys():
        message = f"{location}: not a scored sample of MMIE (`--predict_only` scores none)."
        raise AnswersUnusable(message, hint=_HINT)
    return record


def _check_setup() -> None:
    from mmie_tasks.benchmarks.mmie import request

    request.check_setup()


JUDGE = BenchmarkJudge("MMIE", DEFAULT_JUDGE, check_setup=_check_setup)


def _assets(tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
    from mmie_tasks.benchmarks.mmie import assets

    return assets.assets(tasks, environment)


def _check_data(docs: Any) -> None:  # noqa: ANN401 - a Dataset, or a list of documents
    from mmie_tasks.benchmarks.mmie import task

    task.check_data(docs)


def _provenance(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mmie import task

    return task.provenance(doc)


def _signature(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mmie import task

    return task.signature(doc)


def _add_answer_folder(folder: Path) -> None:
    from mmie_tasks.benchmarks.mmie import request

    request.add_answer_folder(folder)


def _export(arguments: Sequence[str], environment: Environment) -> str:
    from mmie_tasks.benchmarks.mmie import export

    return export.run(arguments, environment)


BENCHMARK = Benchmark(
    name="mmie",
    title="MMIE",
    scale=SCALE,
    metrics=METRICS,
    read_line=read_line,
    reread=reread,
    rerecord=rerecord,
    subsets=subsets,
    judge=JUDGE,
    assets=_assets,
    check_data=_check_data,
    provenance=_provenance,
    signature=_signature,
    add_answer_folder=_add_answer_folder,
    export=_export,
)
