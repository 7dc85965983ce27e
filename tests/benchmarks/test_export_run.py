"""What all exports do: which samples of which run, and the name of its model."""

import json
from pathlib import Path

import pytest

from mmie_tasks.benchmarks import registry
from mmie_tasks.benchmarks.export_run import exported_run
from mmie_tasks.core.errors import AnswersUnusable

LOG = "20260101_120000_samples_mmie.jsonl"


@pytest.fixture(autouse=True)
def work(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def line(sample_id, answer=()):
    verdicts = {"official": {"points": 4}, "robust": {"points": 4}}
    record = {"id": sample_id, "verdicts": verdicts, "answer": list(answer)}
    return {"doc_id": 0, "record": record}


def log(*lines, name=f"run/{LOG}"):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in lines), encoding="utf-8")
    return path


def exported(*arguments):
    return exported_run("mmie", [*arguments, "-o", "x"], description="", output="")


def records(run="run"):
    return exported(run).records


def test_of_several_logs_of_a_task_the_newest_and_those_of_its_parts_count(monkeypatch):
    log(line("SA-0"), line("SA-1"), name="run/20240101_000000_samples_mmie.jsonl")
    log(line("SA-3"), name="run/20250101_000000_samples_mmie.jsonl")
    log(line("SA-1"))
    log(line("SA-2"), name="run/20250101_000000_samples_mmie_msr.jsonl")
    log(line("SA-4"), name="run/20250101_000000_samples_mmie_x_hard.jsonl")
    monkeypatch.setattr(registry, "_plugins", lambda _path: [("mmie_x", "mmie_x.benchmark:X")])
    assert set(records()) == {"SA-1", "SA-2", "SA-3"}


def test_a_last_line_that_was_cut_off_is_left_out():
    path = log(line("SA-0"))
    path.write_text(path.read_text() + '{"doc_id": 1, "cov')
    assert list(records()) == ["SA-0"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], "no samples of mmie", id="empty"),
        pytest.param([{"doc_id": 0, "bypass": 999}], "line 1: no record under", id="predict-only"),
        pytest.param(
            [line("SA-0"), line("SA-0", [{"text": "a"}])],
            "another answer or reply to SA-0",
            id="two-answers",
        ),
    ],
)
def test_lines_that_are_not_samples_of_one_run_are_an_error(lines, expected):
    log(*lines)
    with pytest.raises(AnswersUnusable, match=expected):
        records()


def test_a_folder_has_exactly_one_run_of_the_benchmark():
    log(line("SA-0"), name="runs/other/20260101_120000_samples_opening.jsonl")
    with pytest.raises(AnswersUnusable, match="0 runs of mmie"):
        records("runs")
    log(line("SA-0"), name=f"runs/a/{LOG}")
    assert list(records("runs")) == ["SA-0"]
    log(line("SA-0"), name=f"runs/b/{LOG}")
    with pytest.raises(AnswersUnusable, match="2 runs of mmie"):
        records("runs")


def test_a_run_has_the_name_that_is_given_or_that_of_its_tested_model():
    log(line("SA-0"), name=f"out/my-model-2.5/{LOG}")
    path = str(log(line("SA-0"), name=f"other/{LOG}"))
    results = json.dumps({"model_name": "org/another"})
    Path("other/20260101_120000_results.json").write_text(results)
    assert [exported(run).model for run in ("out", path)] == ["my-model-2.5", "another"]
    assert exported(path, "--model", "A").model == "A"
