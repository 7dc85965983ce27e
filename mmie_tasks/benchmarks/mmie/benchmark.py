"""What MMIE says of its logged samples, after a run."""

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

# Both readings of what came of one request.


def grade(judged: JudgeResult) -> Grading:
    """The official script reads whatever it gets, also a reply that ran into its limit."""
    official = judged.first_verdict(read_official, read_cut_off=True)
    return Grading(official=official, robust=judged.first_verdict(read_robust))


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


def _percent(mean: float) -> float:
    """As the official table: the mean to 3 decimals first, then its percentage to 2."""
    return percent_of(round(mean * 1000) / 1000)


SCALE = Scale(full_marks=FULL_MARKS, unit="points, 0 to 6", whole=True, percent=_percent)
METRICS = (
    Metric(name="", title="AVG", kind="headline"),
    *(
        Metric(name=each, title=_TITLES[each], kind="category", by="category", weights={each: 1})
        for each in CATEGORIES
    ),
    *(
        Metric(
            name=each,
            title="EECS" if each == "eecs" else each.capitalize(),
            kind="field",
            by="field",
            weights={each: 1},
        )
        for each in FIELDS
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
    """Apply the current readers to what a line saved; None if the line lacks it.

    Raises:
        BadRecord: The line is not a scored sample of this benchmark.
    """
    graded = _regraded(_record(line))
    if graded is None:
        return None
    return {"official": graded.official, "robust": graded.robust}


def rerecord(line: Line) -> Record:
    """The record with what the current readers make of it; as it is, if nothing was read."""
    record = _record(line)
    graded = _regraded(record) if log_line.replies(record) else None
    return {**record, **metrics.read_in(graded)} if graded else record


def subsets(task: str, samples: Sequence[LoggedSample]) -> Mapping[str, frozenset[str]]:
    """The ids of ``mmie_1k``, in a run of the whole dataset: of fewer, other ones are drawn."""
    from mmie_tasks.benchmarks.mmie.data import PUBLISHED, small

    ids: dict[str, list[str]] = {category: [] for category in CATEGORIES}
    for sample in samples:
        ids[sample.names("category")[0]].append(sample.id)
    whole = {category: len(each) for category, each in ids.items()} == PUBLISHED
    return {"mmie_1k": small(ids)} if task == "mmie" and whole else {}


def _record(line: Line) -> Record:
    record = log_line.record_of(line)
    if record.get("category") not in CATEGORIES:
        raise BadRecord(f"`category` is none of {', '.join(CATEGORIES)}: no sample of MMIE")
    return record


def _regraded(record: Record) -> Grading | None:
    """What the current readers make of the saved reply, or why there was none to read.

    None where a verdict was read from a reply that the log does not hold.
    """
    found = log_line.replies(record)
    if found:
        return grade(log_line.judge_result(found))
    stored = Grading(
        official=log_line.verdict(record, "official", FULL_MARKS),
        robust=log_line.verdict(record, "robust", FULL_MARKS),
    )
    scored = isinstance(stored.official, Scored) or isinstance(stored.robust, Scored)
    return None if found is None or scored else stored


def _question(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    known = log_line.segments(record, "question")
    return log_line.question(line, None) if known is None else known


def _gold(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    known = log_line.segments(record, "gold")
    if known is not None:
        return known
    words = log_line.optional_text(line, "target")
    return (LoggedSegment(text=words),) if words else ()


def _answer(line: Line, record: Record) -> tuple[LoggedSegment, ...]:
    """As it was taken apart; whole where there was nothing to take apart."""
    known = log_line.segments(record, "answer")
    if known:
        return known
    words = log_line.answer(line)
    return (LoggedSegment(text=words),) if words else ()


def _facts(record: Record) -> dict[str, str | float | bool]:
    """Those that are known and say something: no 0, no empty text, no flag that is not up."""
    facts = log_line.mapping(record, "facts")
    found: dict[str, str | float | bool] = {}
    for name, title in _FACTS.items():
        value = facts.get(name)
        known = value if isinstance(value, (str, bool)) else log_line.number(value)
        if known:
            found[title] = known
    return found | _typed(log_line.mapping(facts, "typed"))


def _typed(typed: Record) -> dict[str, str | float | bool]:
    marks = ", ".join(mark for mark, count in typed.items() if count)
    return {"typed control marks": marks} if marks else {}


# The records of a run's MMIE samples, from the logs that lmms-eval wrote of them.

_TASKS = ("mmie", "mmie_sa", "mmie_pbl", "mmie_msr", "mmie_1k")
_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_mmie*.jsonl`"


def records_of(run: Path) -> list[Record]:
    """What each sample of a run left under ``coverage``, in the order of the logs.

    Args:
        run: A sample log, or a folder that holds those of one run. Of several logs of a task the
            newest is taken.

    Raises:
        AnswersUnusable: There is none, it is of another kind, or two tasks differ on a sample.
    """
    found: dict[str, Record] = {}
    for log in _logs(run):
        for numbered in read_lines(log):
            if numbered.line is None:
                logger.warning(f"{log}: line {numbered.number}, the last, is cut off and left out")
                continue
            place = f"{log}, line {numbered.number}"
            record = _record_logs(numbered.line, place)
            before = found.setdefault(str(record["id"]), record)
            if before.get("answer") != record.get("answer"):
                message = f"{place}: another answer to {record['id']} was read before."
                raise AnswersUnusable(message, hint=_HINT)
    if not found:
        raise AnswersUnusable(f"`{run}` holds no samples of MMIE.", hint=_HINT)
    return list(found.values())


def _logs(run: Path) -> list[Path]:
    by_folder = {
        each.folder: [log.path for log in each.logs if log.task in _TASKS]
        for each in find_runs(str(run))
    }
    folders = [folder for folder, logs in by_folder.items() if logs]
    if not folders:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_HINT)
    if len(folders) > 1:
        message = f"Two runs below `{run}`: `{folders[0]}` and `{folders[1]}`."
        raise AnswersUnusable(message, hint=_HINT)
    return by_folder[folders[0]]


def _record_logs(line: Line, place: str) -> Record:
    record = line.get("coverage")
    if not isinstance(record, Mapping) or not {"id", "category", "official"} <= record.keys():
        message = f"{place}: not a scored sample of MMIE (a run with `--predict_only` has none)."
        raise AnswersUnusable(message, hint=_HINT)
    return record


DEFAULT_JUDGE = "mmie_score"


def _prepare() -> None:
    from mmie_tasks.benchmarks.mmie import request

    request.check()


JUDGE = BenchmarkJudge("MMIE", DEFAULT_JUDGE, check_setup=_prepare)


def _assets(tasks: Sequence[str], environment: Environment) -> Sequence[Asset]:
    from mmie_tasks.benchmarks.mmie import assets

    return assets.assets(tasks, environment)


def _check_data(docs: Any) -> None:  # noqa: ANN401 - a Dataset, or a list of documents
    from mmie_tasks.benchmarks.mmie import task

    task.before_requests(docs)


def _provenance(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mmie import task

    return task.provenance(doc)


def _signature(doc: Doc) -> str:
    from mmie_tasks.benchmarks.mmie import task

    return task.signature(doc)


def _add_answer_folder(folder: Path) -> None:
    from mmie_tasks.benchmarks.mmie import request

    request.look_in(folder)


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
