"""Runs as rows of MMIE's leaderboard: a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.export_run import ExportedRun, samples_of
from mmie_tasks.benchmarks.mmie import metrics
from mmie_tasks.benchmarks.mmie.record import read_line
from mmie_tasks.benchmarks.mmie.sample import CATEGORIES
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.wording import counted
from mmie_tasks.record.metrics import metric_value
from mmie_tasks.record.picture_sample import shown_answer
from mmie_tasks.record.sample import LoggedSample

MODEL_TYPES = {"interleaved": "Interleaved LVLM", "integrated": "Integrated LVLM"}
"""The leaderboard's kinds of models."""

_COLUMNS = ("Model", "Model Type", "SA", "PBL", "MSR", "AVG")


def write_leaderboard(runs: Sequence[ExportedRun], kind: str | None, target: Path) -> str:
    """Write a row for each run.

    Args:
        runs: Of models.
        kind: One of `MODEL_TYPES`, for all runs; None where runs with drawn pictures are of
            integrated models.
        target: The CSV file.
    """
    rows = []
    for run in runs:
        exported = samples_of(
            run.path, "mmie", read_line, same=lambda one: shown_answer(one.record), noun="answer"
        )
        samples = [one.sample for one in exported.values()]
        is_pair = any(sample.signature.answer_form == "drawn" for sample in samples)
        if is_pair:
            logger.warning(
                f"{run.model}: its pictures are drawn by our reconstruction, not by the pipeline "
                "of published rows."
            )
        model = f"{run.model} (reconstruction)" if is_pair else run.model
        model_type = kind or MODEL_TYPES["integrated" if is_pair else "interleaved"]
        rows.append(_leaderboard_row(samples, model, model_type))
    if incomplete := [str(row["Model"]) for row in rows if None in row.values()]:
        logger.warning(f"Rows with empty cells, for lack of scores: {', '.join(incomplete)}.")
    with atomic_write(target) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    return f"{counted(len(rows), 'row')} written to `{target}`."


def _leaderboard_row(
    samples: Sequence[LoggedSample], model: str, model_type: str
) -> dict[str, str | float | None]:
    """A row with the columns of the project's leaderboard, percent to 2 decimals.

    Args:
        samples: Of a run.
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
    for metric in metrics.METRICS[: len(CATEGORIES) + 1]:  # the average and the categories
        value = metric_value(samples, metric, "official", metrics.SCALE)
        row[metric.name or "AVG"] = value.percent if value else None
    return row
