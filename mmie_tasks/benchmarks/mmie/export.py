"""``mmie-tasks export mmie``: a run as input of the official script, or as leaderboard rows."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.export_run import ExportedRun, export_parser, named_runs, records_of
from mmie_tasks.benchmarks.mmie import data, download, metrics
from mmie_tasks.benchmarks.mmie.record import groups, record_of
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.tables import counted
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.answer_facts import shown_answer
from mmie_tasks.record.log_line import signature, verdict
from mmie_tasks.record.metrics import metric_value
from mmie_tasks.record.sample import LoggedSample, Record
from mmie_tasks.record.segment import Segment

_LEADERBOARD_COLUMNS = ("Model", "Model Type", "SA", "PBL", "MSR", "AVG")
_TYPES = {"interleaved": "Interleaved LVLM", "integrated": "Integrated LVLM"}


def run_export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export mmie ARGUMENTS``; returns a sentence about the result.

    Invalid arguments end the process with status 2, as argparse does.

    Raises:
        MmieTasksError: The export is not possible.
    """
    parser = export_parser(
        "mmie",
        "Write a run as input of MMIE's official script: a folder with `data.json` and images. Or, "
        "with --leaderboard, write one or more runs as rows of its leaderboard: a CSV file.",
        "the new folder, or the CSV file",
    )
    parser.add_argument("--leaderboard", action="store_true", help="write a CSV, one row per run")
    help_text = "the leaderboard's kind of model, for all runs; default: integrated for pairs"
    parser.add_argument("--type", choices=_TYPES, help=help_text)
    parsed = parser.parse_args(arguments)
    runs, output = named_runs(parsed), Path(parsed.output).expanduser()
    if parsed.leaderboard:
        return _leaderboard(runs, _TYPES.get(parsed.type), output)
    if len(runs) > 1:
        raise SettingWrong("A judge's input is made of one run.", hint="name one RUN")
    return _judge_input(runs[0], output, environment)


def _judge_input(run: ExportedRun, folder: Path, environment: Mapping[str, str]) -> str:
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
    records = _records(run)
    if unknown := [sample_id for sample_id in records if sample_id not in samples]:
        message = f"{len(unknown)} samples of the run are not in the data, the first: {unknown[0]}."
        raise DataBroken(message, hint="point `MMIE_DATA` at the data that the run used")
    with_answer = {
        sample_id: record for sample_id, record in records.items() if not _is_without_answer(record)
    }
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
    images = _ExportedImages(unfinished)
    rows = [
        _export_row(samples[sample_id], record, run.model, images)
        for sample_id, record in with_answer.items()
    ]
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (unfinished / "data.json").write_text(f"{text}\n", encoding="utf-8")
    unfinished.replace(folder)
    left_out = len(records) - len(with_answer)
    more = f"; {left_out} without an answer were left out" if left_out else ""
    return f"{len(rows)} samples and {len(images.names)} images written to `{folder}`{more}."


def _is_without_answer(record: Record) -> bool:
    official = verdict(record, "official")
    return isinstance(official, Unscored) and official.reason in ("no_answer", "not_text")


def _records(run: ExportedRun) -> Mapping[str, Record]:
    return records_of(run.path, "mmie", record_of, same="answer")


def _export_row(
    sample: Sample, record: Record, model: str, images: _ExportedImages
) -> dict[str, object]:
    question, answer, gold = (
        [images.part(segment) for segment in segments]
        for segments in (sample.question, shown_answer(record), sample.gold)
    )
    return {
        "id": sample.id,
        "model": model,
        "question": question,
        "answer": answer,
        "gt_answer": gold or [{"text": "", "image": None}],  # the script needs one
        "category": sample.category,
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


def _leaderboard(runs: Sequence[ExportedRun], kind: str | None, target: Path) -> str:
    rows = []
    for run in runs:
        records = [*_records(run).values()]
        is_pair = any(signature(record).answer_form == "drawn" for record in records)
        if is_pair:
            logger.warning(
                f"{run.model}: its pictures are drawn by our reconstruction, not by the pipeline "
                "of published rows."
            )
        model = f"{run.model} (reconstruction)" if is_pair else run.model
        model_type = kind or _TYPES["integrated" if is_pair else "interleaved"]
        rows.append(_leaderboard_row(records, model, model_type))
    if incomplete := [str(row["Model"]) for row in rows if None in row.values()]:
        logger.warning(f"Rows with empty cells, for lack of scores: {', '.join(incomplete)}.")
    with atomic_write(target) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _LEADERBOARD_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return f"{counted(len(rows), 'row')} written to `{target}`."


def _leaderboard_row(
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
            signature=signature(record),
        )
        for record in records
    ]
    for metric in metrics.METRICS[: len(CATEGORIES) + 1]:  # the average and the categories
        value = metric_value(samples, metric, "official", metrics.SCALE)
        row[metric.name or "AVG"] = value.percent if value else None
    return row
