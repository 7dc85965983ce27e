from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.export.every_eval_ever_command import run
from mmie_tasks.runs.headline import headline_of

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "every_eval_ever"
WHO = ("--model", "lab/model-7B", "--organization", "A lab", "--relationship", "third_party")


def validator(name: str) -> Draft7Validator:
    return Draft7Validator(json.loads((GOLDEN / f"{name}.schema.json").read_text("utf-8")))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """A run of three tasks; of ``mmie``, a share of samples is unscored."""
    write_run(tmp_path / "out", "mmie", mmie_lines(60, unscored=0.05))
    write_run(tmp_path / "out", "milebench", milebench_lines(2))
    write_run(tmp_path / "out", "mia_bench", mia_lines(80))
    return tmp_path / "out"


def export(out: Path, *more: str) -> Path:
    """The database's folder after an export."""
    target = out.parent / "database"
    run([str(out), "-o", str(target), *WHO, *more], {})
    return target


def aggregate(database: Path, task: str) -> dict[str, Any]:
    (path,) = (database / "data" / task / "lab" / "model-7B").glob("*.json")
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return record


def samples(database: Path, record: dict[str, Any]) -> list[dict[str, Any]]:
    path = database / record["detailed_evaluation_results"]["file_path"]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_record_is_valid_by_the_published_schemas(out: Path) -> None:
    database = export(out)
    of_task, of_sample = validator("eval"), validator("instance_level_eval")
    for task in ("mmie", "milebench", "mia_bench"):
        record = aggregate(database, task)
        errors = [*of_task.iter_errors(record)]
        for row in samples(database, record):
            errors += of_sample.iter_errors(row)
        assert errors == []
        is_judged = "llm_scoring" in record["evaluation_results"][0]["metric_config"]
        assert is_judged == (task != "milebench")


def test_a_record_has_scores_with_interval_judge_and_what_is_unlike_the_paper(out: Path) -> None:
    results = aggregate(export(out), "mia_bench")["evaluation_results"]
    by_metric = {result["metric_config"]["metric_id"]: result for result in results}
    assert {"mia_bench.official", "mia_bench.robust", "mia_bench.official_grammar"} <= {*by_metric}
    headline = headline_of(open_run(str(out)).tasks["mia_bench"])
    assert headline.official is not None
    details = by_metric["mia_bench.official"]["score_details"]
    assert details["score"] == headline.official.percent
    assert details["details"]["unlike the paper"] == "; ".join(headline.marks)
    assert details["uncertainty"]["num_samples"] == 80
    interval = details["uncertainty"]["confidence_interval"]
    assert (interval["lower"], interval["upper"]) == headline.official.interval
    scoring = by_metric["mia_bench.official"]["metric_config"]["llm_scoring"]
    assert [judge["model_info"]["name"] for judge in scoring["judges"]] == ["made-up"]


def test_a_panel_is_its_judges_and_their_rule(tmp_path: Path) -> None:
    panel = "judge:a|model:one|judge:b|model:two"
    write_run(tmp_path / "out", "mmie", mmie_lines(60, judge=panel))
    record = aggregate(export(tmp_path / "out"), "mmie")
    assert list(validator("eval").iter_errors(record)) == []
    scoring = record["evaluation_results"][0]["metric_config"]["llm_scoring"]
    assert [judge["model_info"]["id"] for judge in scoring["judges"]] == ["one", "two"]
    assert scoring["aggregation_method"] == "median"


def test_an_unscored_sample_is_counted_and_has_no_record_of_its_own(out: Path) -> None:
    database = export(out)
    record = aggregate(database, "mmie")
    logged = open_run(str(out)).tasks["mmie"].samples
    unscored = {sample.id for sample in logged} - {
        row["sample_id"] for row in samples(database, record)
    }
    assert len(unscored) == 4
    details = record["evaluation_results"][0]["score_details"]["details"]
    assert details["samples"] == "60"
    assert details["unscored samples of the task"] == "unparsed (4)"


def test_the_record_of_the_samples_has_their_file_by_name_count_and_checksum(out: Path) -> None:
    database = export(out)
    record = aggregate(database, "mia_bench")
    reference, rows = record["detailed_evaluation_results"], samples(database, record)
    content = (database / reference["file_path"]).read_bytes()
    assert reference["checksum"] == hashlib.sha256(content).hexdigest()
    assert reference["total_rows"] == len(rows) == 80
    assert {row["evaluation_id"] for row in rows} == {record["evaluation_id"]}
    result_ids = {result["evaluation_result_id"] for result in record["evaluation_results"]}
    assert {row["evaluation_result_id"] for row in rows} <= result_ids
    correct = [row["evaluation"]["score"] for row in rows if row["evaluation"]["is_correct"]]
    assert {*correct} == {100.0}


def test_samples_may_be_left_out(out: Path) -> None:
    database = export(out, "--without-samples", "--tasks", "mmie")
    assert "detailed_evaluation_results" not in aggregate(database, "mmie")
    assert not list(database.rglob("*.jsonl"))


@pytest.mark.parametrize("name", ["model-7B", "lab/../model", "lab/model/7B", "lab/"])
def test_a_model_without_developer_or_with_another_path_is_an_error(out: Path, name: str) -> None:
    with pytest.raises(SettingWrong, match=name):
        export(out, "--model", name)
