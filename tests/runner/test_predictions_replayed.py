"""Answers saved by one run of lmms-eval are scored by another, to the same numbers."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.runner import CommandResult, Workplace, write

TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {name}.json
test_split: test
output_type: generate_until
doc_to_visual: !function utils.doc_to_visual
doc_to_text: "Which word is on it?"
doc_to_target: gold
process_results: !function utils.process_results
generation_kwargs:
  max_new_tokens: 8
  until: []
metric_list:
  - metric: official
    aggregation: !function utils.mean
    higher_is_better: true
metadata:
  version: 1.0
"""

UTILS = """\
def doc_to_visual(doc):
    raise AssertionError("asked for the image")


def process_results(doc, results):
    return {"official": {"id": doc["id"], "score": float(results[0] == doc["gold"])}}


def mean(records):
    return sum(record["score"] for record in records) / len(records)
"""


@dataclass(frozen=True, slots=True)
class Runs:
    """A folder where a model's answers were saved and then scored again, each run to its folder."""

    folder: Path
    output: str  # of the runs that scored saved answers
    status: int

    def score(self, run: str, task: str) -> object:
        (path,) = (self.folder / run).rglob("*_results.json")
        return json.loads(path.read_text(encoding="utf-8"))["results"][task]["official,none"]


def draw(folder: Path) -> None:
    """Six samples and placeholders for their images; the task `turned` has the reverse order."""
    samples = [
        {"id": f"Tiny/{n}", "gold": f"word {n}", "image": f"images/{n}.png"} for n in range(6)
    ]
    for name, rows in (("tiny", samples), ("turned", samples[::-1])):
        write(folder / "tasks" / f"{name}.json", json.dumps(rows))
        write(folder / "tasks" / f"{name}.yaml", TASK.format(name=name))
    write(folder / "tasks" / "utils.py", UTILS)
    for sample in samples:
        write(folder / sample["image"], "")


def run(workplace: Workplace, *settings: dict[str, object]) -> CommandResult:
    """Several evaluations in one process: starting it takes longest."""
    common = {"include_path": "tasks", "tasks": "tiny"}
    write(
        workplace.folder / "runs.yaml", json.dumps([{**common, **options} for options in settings])
    )
    return workplace.run("lmms-eval", "--config", "runs.yaml")


def leave_a_crashed_run(folder: Path) -> None:
    """The cache log of a run that was killed while it wrote the last answer."""
    (log,) = (folder / "cache").rglob("rank_0.audit.jsonl")
    lines = log.read_text(encoding="utf-8").splitlines()
    write(folder / "crashed" / log.name, "\n".join([*lines[:5], lines[5][:40]]))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folder = tmp_path_factory.mktemp("predictions")
    workplace = Workplace(folder=folder)
    workplace.install_entry_point("lmms_eval.models", "telling", "support.telling_model:TELLING")
    draw(folder)
    generated = run(
        workplace,
        {"model": "telling", "output_path": "full", "log_samples": True, "use_cache": "cache"},
        {"model": "telling", "output_path": "answers", "predict_only": True},
    )
    assert generated.status == 0, generated.output
    leave_a_crashed_run(folder)
    shutil.rmtree(folder / "images")
    again = [
        {"model_args": "path=answers", "output_path": "by_content"},
        {"model_args": "path=full", "output_path": "by_id", "tasks": "turned"},
        {"model_args": "path=crashed", "output_path": "rescued"},
        {"model_args": "path=nowhere"},
    ]
    scored = run(workplace, *({"model": "predictions", **options} for options in again))
    return Runs(folder, scored.output, scored.status)


def test_answers_of_a_predict_only_run_are_scored_as_in_a_direct_one(runs: Runs) -> None:
    assert "tiny: 6 of 6 answers found (6 by content; format: lmms-eval sample log)" in runs.output
    assert runs.score("by_content", "tiny") == runs.score("full", "tiny") == 4 / 6


def test_answers_with_ids_are_found_in_another_order_of_the_data(runs: Runs) -> None:
    assert "turned: 6 of 6 answers found (6 by id; format: lmms-eval sample log)" in runs.output
    assert runs.score("by_id", "turned") == runs.score("full", "tiny")


def test_answers_of_a_crashed_run_are_read_from_its_cache_log(runs: Runs) -> None:
    assert "line 6, the last, is cut off and was left out" in runs.output
    assert "tiny: 5 of 6 answers found" in runs.output
    assert runs.score("rescued", "tiny") == 3 / 6


def test_a_wrong_path_ends_the_command_with_status_1_and_a_hint(runs: Runs) -> None:
    assert runs.status == 1
    assert "`nowhere` does not exist.\n\nhint: check the path" in runs.output
