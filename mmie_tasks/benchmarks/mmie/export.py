"""``mmie-tasks export mmie``: a run as input of the official script, or as leaderboard rows."""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.mmie import data, download, metrics
from mmie_tasks.benchmarks.mmie.record import groups
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.tables import counted
from mmie_tasks.interleaved.protocols import INSTRUCT
from mmie_tasks.record.fields import verdict
from mmie_tasks.record.log_files import find_runs, read_lines
from mmie_tasks.record.sample import LoggedSample, Record
from mmie_tasks.record.segment import Segment, read_segments
from mmie_tasks.record.signature import Signature

_LEADERBOARD_COLUMNS = ("Model", "Model Type", "SA", "PBL", "MSR", "AVG")
_TYPES = {"interleaved": "Interleaved LVLM", "integrated": "Integrated LVLM"}
_EXPORT_HINT = "name the folder of one run with `--log_samples`, or its `*_samples_mmie*.jsonl`"


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
            list(zip(names, runs, strict=True)), _TYPES.get(parsed.type), Path(parsed.output)
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
    help_text = "the leaderboard's kind of model, for all runs; default: integrated for pairs"
    parser.add_argument("--type", choices=_TYPES, help=help_text)
    return parser


def _judge_input(run: Path, model: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Write ``data.json`` and ``images/``; an existing folder is not touched."""
    if folder.exists():
        raise SettingWrong(f"`{folder}` exists already.", hint="name a new folder with `-o`")
    if not (environment.get("MMIE_DATA") or download.is_here(environment)):
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
    images = _ExportedImages(unfinished)
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
        if any(log.task in data.TASKS.values() for log in folder.logs)
    ]
    if not folders:
        raise AnswersUnusable(f"`{run}` holds no log of MMIE's samples.", hint=_EXPORT_HINT)
    if len(folders) > 1:
        raise AnswersUnusable(
            f"Two runs below `{run}`: `{folders[0].folder}` and `{folders[1].folder}`.",
            hint=_EXPORT_HINT,
        )
    return [log.path for log in folders[0].logs if log.task in data.TASKS.values()]


def _export_row(
    sample: Sample, record: Record, model: str, images: _ExportedImages
) -> dict[str, object]:
    answer = read_segments(record, "answer") or ()
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


class _ExportedImages:
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


def _leaderboard(runs: Sequence[tuple[str, Path]], kind: str | None, target: Path) -> str:
    rows = []
    for name, run in runs:
        records = records_of(run)
        answers = [
            Signature(str(record.get("signature"))).fields.get("answers") for record in records
        ]
        is_pair = any(value and not value.startswith(INSTRUCT.name) for value in answers)
        if is_pair:
            logger.warning(
                f"{name}: its pictures are drawn by our reconstruction, not by the pipeline of "
                "published rows."
            )
        model = f"{name} (reconstruction)" if is_pair else name
        model_type = kind or _TYPES["integrated" if is_pair else "interleaved"]
        rows.append(leaderboard_row(records, model, model_type))
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
            official=verdict(record, "official"),
            robust=verdict(record, "official"),  # not in the table
            groups=groups(str(record["category"]), ""),
            signature=str(record.get("signature", "")),
        )
        for record in records
    ]
    for metric in metrics.METRICS[: len(CATEGORIES) + 1]:  # the average and the categories
        value = metric_value(samples, metric, "official", metrics.SCALE)
        row[metric.name or "AVG"] = value.percent if value else None
    return row
