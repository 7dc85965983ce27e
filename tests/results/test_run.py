"""Runs are opened from their logs, and are tables of samples and of scores."""

import copy
import json
import math
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from support.judge_server import JudgeServer
from support.logged_runs import DATE, mia_lines, milebench_lines, mmie_lines, write_run
from support.report_runs import run, sample

import mmie_tasks
from mmie_tasks import load_run
from mmie_tasks.answers.saved import read_answers
from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.run import open_runs

LINES = list(mmie_lines(6))
MIA_LINES = list(mia_lines(16))
DATES = [f"20261121_1{hour}0000" for hour in range(4)]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "analysis.py"
SCORE_COLUMNS = (
    *("task", "metric", "title", "group", "kind"),
    *("percent", "low", "high", "scored", "total", "left_out", "why_not"),
)
SAMPLE_COLUMNS = [
    *("id", "official", "robust", "official_percent", "robust_percent"),
    *("unscored", "robust_unscored", "unscored_detail", "differ"),
    *("question", "gold", "answer", "answer_images", "answer_digest"),
    *("judge", "reply", "second_reply"),
    *("input_tokens", "output_tokens", "cost_usd", "cached", "signature"),
]


# Logs and results files.


def opened(folder, lines, task="mmie"):
    write_run(folder, task, lines)
    return load_run(folder).tasks[task]


def with_points(points, lines):
    """The lines; the first has these official points."""
    line = copy.deepcopy(lines[0])
    line["record"]["verdicts"]["official"] = {"points": points}
    return [line, *lines[1:]]


def save_results(log, **fields):
    log.with_name(f"{log.name[:15]}_results.json").write_text(json.dumps(fields))


def test_only_the_requested_tasks_of_registered_benchmarks_are_read(tmp_path):
    write_run(tmp_path, "mmie", LINES)
    write_run(tmp_path, "mmmu_val", [{"doc_id": 0}])
    opened = load_run(tmp_path)
    assert (opened.name, opened.folder) == (tmp_path.name, tmp_path)
    assert list(opened.tasks) == ["mmie"]
    assert "`mmmu_val` is not a task of a registered benchmark" in opened.notes[0]
    (tmp_path / f"{DATE}_samples_mia_bench.jsonl").write_text("no JSON\n")
    assert list(load_run(str(tmp_path), ["mmie"]).tasks) == ["mmie"]
    with pytest.raises(AnswersUnusable, match="mmie_sa"):
        load_run(tmp_path, ["mmie_sa"])


def test_a_sample_that_is_logged_twice_counts_once_if_its_results_are_equal(tmp_path):
    assert len(opened(tmp_path / "a", [*LINES, LINES[2], LINES[2]]).records) == 6
    other = list(mmie_lines(6, answers="model-b"))
    with pytest.raises(AnswersUnusable, match="SA-0"):
        opened(tmp_path / "b", [*LINES, other[0]])


@pytest.mark.parametrize("points", [math.nan, math.inf, 7, -1])
def test_points_that_are_not_on_the_scale_are_unscored_and_noted(tmp_path, points):
    task = opened(tmp_path, with_points(points, LINES))
    verdict = task.records[0].official
    assert isinstance(verdict, Unscored)
    assert verdict.reason == "off_scale"
    assert task.notes == ("1 sample with points outside the scale: counted as unscored",)


def test_official_points_of_mia_bench_may_be_more_than_full_marks(tmp_path):
    task = opened(tmp_path, with_points(130.0, MIA_LINES), "mia_bench")
    assert (task.records[0].official, task.notes) == (Scored(130), ())


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param({"doc_id": 1}, "line 7: no record", id="no-record"),
        pytest.param({"record": {"id": "3"}}, "line 7: `verdicts`", id="another's"),
        pytest.param(*with_points(10**400, LINES)[:1], r"line 7: `verdicts\.o.+\.p", id="huge"),
    ],
)
def test_a_line_without_a_sample_is_an_error_with_its_number(tmp_path, line, words):
    with pytest.raises(AnswersUnusable, match=words):
        opened(tmp_path, [*LINES, line])


def test_of_a_log_of_an_earlier_version_only_the_answers_are_read(tmp_path):
    """The form of the commit 4f3f6b95."""
    verdict = {"points": 4.0, "reading": "4"}
    record = {"id": "SA-0", "official": verdict, "robust": verdict, "category": "SA"}
    line = {"doc_id": 0, "id": "SA-0", "filtered_resps": "A kite.", "record": record}
    with pytest.raises(AnswersUnusable, match="line 1: a log of an earlier version") as error:
        opened(tmp_path, [line])
    assert "mmie-tasks score LOG" in str(error.value)
    assert "--model predictions --model_args path=LOG" in str(error.value)
    (answer,) = read_answers([tmp_path]).answers
    assert (answer.id, answer.answer) == ("SA-0", "A kite.")


def test_runs_of_one_name_are_told_apart_by_number_and_no_date_is_no_error(tmp_path):
    for name, date in (("a", "20261121_090000"), ("b", "20261332_250000")):
        write_run(tmp_path / name / "model", "mmie", LINES, date)
    first, second = open_runs([str(tmp_path)])
    assert [first.name, second.name] == ["model (1)", "model (2)"]
    assert second.started == "20261332_250000"


# Several logs of one run, and files that are not of the run they seem to belong to.


def parts(folder, order=(0, 1, 2, 3)):
    """Four jobs of four samples each, which began in this order."""
    for date, number in zip(DATES, order, strict=True):
        log = write_run(folder, "mia_bench", MIA_LINES[4 * number :][:4], date=date)
    return log


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 0, 2, 1)])
def test_four_jobs_with_an_offset_are_one_run(tmp_path, order):
    of_parts = tmp_path / "parts"
    newest = parts(of_parts, order)
    joined = load_run(of_parts).tasks["mia_bench"]
    whole = opened(tmp_path / "whole", MIA_LINES, "mia_bench")
    assert joined.records == whole.records  # in the order of the task
    assert joined.scores == whole.scores
    assert (joined.limit, joined.offset) == (16, 0)
    n_samples = {"mia_bench": {"original": 16}}
    save_results(newest, results={"mia_bench": {}}, **{"n-samples": n_samples})
    all_samples = load_run(of_parts).tasks["mia_bench"]
    assert (all_samples.limit, all_samples.offset) == (None, None)
    assert "16 of 400 samples (4 logs)" in paper_marks(joined)
    assert "4 logs" in load_command("table")([str(of_parts)], {})
    assert "4 logs" in load_command("compare")([str(of_parts), str(tmp_path / "whole")], {})
    assert len(read_answers([of_parts]).answers) == 16


def test_a_log_that_shares_a_sample_is_another_run_and_is_counted(tmp_path):
    parts(tmp_path)
    write_run(tmp_path, "mia_bench", MIA_LINES[8:13], date="20261121_200000")
    run = load_run(tmp_path)
    ids = set(run.samples()["id"])
    assert ids == {str(number) for number in (*range(8), *range(8, 13))}
    assert run.notes == ("older logs of the same tasks, ignored: 2",)
    assert {one.id for one in read_answers([tmp_path]).answers} == ids


def test_a_log_of_another_judge_or_model_is_another_run(tmp_path):
    other = list(mia_lines(16, judge="judge:made_up|model:other"))
    write_run(tmp_path / "a", "mia_bench", other[:8], date=DATES[0])
    write_run(tmp_path / "a", "mia_bench", MIA_LINES[8:], date=DATES[1])
    assert len(load_run(tmp_path / "a").samples()) == 8
    for name, lines, date in (("x", MIA_LINES[:8], DATES[0]), ("y", MIA_LINES[8:], DATES[1])):
        log = write_run(tmp_path / "b", "mia_bench", lines, date=date)
        save_results(log, model_name=name, results={"mia_bench": {}})
    assert len(load_run(tmp_path / "b").samples()) == 8
    assert len(read_answers([tmp_path / "b"]).answers) == 8


@pytest.mark.parametrize(
    ("task", "offset", "effective"),
    [("mia_bench", 2, 4), ("mmie", 2, 4), ("mia_bench", 3, 4), ("mia_bench", 2, 3)],
    ids=["its-own", "another-task", "a-later-part", "fewer-samples"],
)
def test_a_results_file_of_another_evaluation_is_ignored(tmp_path, task, offset, effective):
    log = write_run(tmp_path, "mia_bench", MIA_LINES[2:6])
    saved = {
        "config": {"limit": 4, "offset": offset},
        "n-samples": {task: {"effective": effective}},
    }
    save_results(log, results={task: {"official,none": 1.0}}, **saved)
    is_used = (task, offset, effective) == ("mia_bench", 2, 4)
    task = load_run(tmp_path).tasks["mia_bench"]
    assert task.stored == ({"official": 1.0} if is_used else {})
    assert any("another evaluation" in note for note in task.notes) != is_used
    assert (task.limit, task.offset) == ((4, 2) if is_used else (None, None))


# The tables.


@pytest.fixture
def out(tmp_path):
    lines = mmie_lines(90, unscored=0.05, image="a.png", in_proportion=True)
    logged = {"mmie": lines, "mia_bench": mia_lines(16), "milebench": milebench_lines(1)}
    for task, of_task in logged.items():
        write_run(tmp_path / "out" / "model", task, of_task)
    return tmp_path / "out"


def test_samples_of_a_run_are_a_table_with_a_row_per_logged_sample(out):
    opened = mmie_tasks.load_run(out)
    frame = opened.samples("mmie")
    assert list(frame.columns) == [*SAMPLE_COLUMNS, "category", "field"]
    assert list(frame["id"]) == [record.id for record in opened.tasks["mmie"].records]
    is_scored = frame["official"].notna()
    assert 0 < is_scored.sum() < len(frame)
    assert set(frame.loc[~is_scored, "unscored"]) == {"unparsed"}
    assert {*frame.loc[is_scored, "unscored"]} == {*frame["second_reply"]} == {None}
    assert frame.loc[frame["official"] == 3, "official_percent"].eq(50).all()
    assert frame.groupby("category").size().to_dict() == {"SA": 23, "PBL": 51, "MSR": 16}
    assert frame["judge"].eq("made-up").all()
    assert frame["reply"].str.startswith("### Feedback").all()
    assert frame["cost_usd"].sum() == pytest.approx(0.003 * len(frame))
    assert frame["answer"].iloc[0].startswith("model-a: ")
    assert frame["answer"].iloc[0].endswith("\n<image>")
    assert frame["answer_images"].iloc[0] == ["a.png"]
    by_component = opened.samples("mia_bench")
    indicators = by_component["component"].str.get_dummies()
    assert indicators.sum(axis=1).eq(2).all()
    assert by_component["official_math"].between(0, 100).eq(indicators["math"] == 1).all()


def test_a_sample_without_points_is_not_a_number_and_a_group_hides_no_column():
    unscored = sample("1", None, robust=4, groups={"reply": ("short",)})
    frame = run("a", [unscored, sample("2", 2)]).samples()
    assert math.isnan(frame["official"][0])
    assert frame["unscored"][0] == "unparsed"
    assert frame["robust_unscored"].isna().all()
    assert frame["differ"].to_list() == [True, False]
    assert frame["official_percent"].mean() == 50
    assert frame["group_reply"][0] == "short"
    assert frame["reply"].isna().all()


def test_scores_are_a_table_with_a_row_for_each_metric_and_kind(out):
    opened = load_run(out)
    frame = opened.scores()
    assert tuple(frame.columns) == SCORE_COLUMNS
    scores = [score for task in opened.tasks.values() for score in task.scores]
    assert frame["metric"].to_list() == [score.metric for score in scores]
    assert frame["scored"].to_list() == [score.scored for score in scores]
    expected = np.array([[one.percent, *(one.interval or (None, None))] for one in scores], float)
    np.testing.assert_array_equal(frame[["percent", "low", "high"]], expected)
    missing = frame["percent"].isna()
    assert frame.loc[missing, "why_not"].str.contains("score").all()


def test_the_example_reads_a_run_and_asks_a_judge(out, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    with JudgeServer("a kite") as server:
        judge = f"openai:judge-model,base_url={server.url}"
        monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(out), judge])
        runpy.run_path(str(EXAMPLE), run_name="__main__")
    printed = capsys.readouterr().out
    assert printed.endswith("a kite\na kite\n")
    assert all(words in printed for words in ("PBL", "mia_bench", "robust_real"))
    assert [len(body["messages"][0]["content"]) for body in server.asked] in ([2, 1], [1, 2])
