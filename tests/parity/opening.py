"""OpenING's published table, from its published judge replies."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from mmie_tasks.benchmarks.opening import benchmark, official, published
from mmie_tasks.core.verdict import Unscored
from parity.comparison import Check, Comparison, Folders, compared

SCORES = "Interleaved_Arena/gpt-score_results.json"
TABLE = "Interleaved_Arena/model_score_summaries.csv"


def _published_table(folder: Path) -> dict[str, dict[str, str]]:
    """Model to its row."""
    lines = (folder / TABLE).read_text(encoding="utf-8").splitlines()
    return {row["Model_Name"]: row for row in csv.DictReader(lines)}


def published_cells(folders: Folders) -> Comparison:
    """The published table, from the published replies through our reader and summary."""
    folder = folders["OPENING_FOLDER"]
    replies = json.loads((folder / SCORES).read_text(encoding="utf-8"))
    by_model: dict[str, list[official.MetricScores]] = {}
    for reply in replies:
        scores = official.read_scores(json.dumps(reply["score"]))
        if not isinstance(scores, Unscored):
            by_model.setdefault(reply["model"]["name"], []).append(scores)
    ours = {name: official.summary(of_model) for name, of_model in by_model.items()}
    cases = [
        (f"{model}, {name}", float(row[name]), ours[model].get(name))
        for model, row in _published_table(folder).items()
        for name in (*official.METRICS, official.OVERALL)
    ]
    return compared(cases, note=f"from {len(replies):,} replies of GPT-4o")


def published_rows(folders: Folders) -> Comparison:
    """The rows that `table --published` shows: in percent, to 1 decimal."""
    theirs = _published_table(folders["OPENING_FOLDER"])
    titles = {metric.name: metric.title for metric in benchmark.BENCHMARK.metrics}
    return compared(
        [
            (
                f"{row.model}, {titles[name]}",
                round(10 * float(theirs[row.model][titles[name]]), 1),
                score,
            )
            for row in published.PUBLISHED_ROWS
            for name, score in row.scores.items()
        ]
    )


CHECKS = tuple(
    Check("LanceZPF/OpenING", f"cells of {compares}", ("OPENING_FOLDER",), run)
    for compares, run in (
        ("its published table, from its published judge replies", published_cells),
        ("the same table that `table --published` shows", published_rows),
    )
)
