"""Runs are opened from arguments of the command line."""

import copy
import json
import math

import pytest
from support.logged_runs import DATE, mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.results.run import load_run, open_runs, start_text

LINES = list(mmie_lines(6))
BYPASS = {"doc_id": 0, "filtered_resps": "x", "bypass": 999}


def opened(folder, lines=LINES, **options):
    write_run(folder, "mmie", lines, **options)
    return load_run(folder).tasks["mmie"]


def changed(number, **fields):
    lines = copy.deepcopy(LINES)
    lines[number]["record"].update(fields)
    return lines


def with_official(verdict):
    return {**LINES[0], "record": {**LINES[0]["record"], "official": verdict}}


def test_a_run_has_its_tasks_and_their_samples(tmp_path):
    write_run(tmp_path / "m", "mmie", LINES)
    write_run(tmp_path / "m", "mia_bench", mia_lines(3))
    write_run(tmp_path / "m", "milebench", milebench_lines(1))
    run = load_run(tmp_path)
    assert {name: len(task.records) for name, task in run.tasks.items()} == {
        "mia_bench": 3,
        "milebench": 29,
        "mmie": 6,
    }
    assert (run.name, run.folder) == ("m", tmp_path / "m")
    assert [task.notes for task in run.tasks.values()] == [(), (), ()]


def test_only_the_requested_tasks_are_read(tmp_path):
    write_run(tmp_path, "mmie", LINES)
    (tmp_path / "20261121_120000_samples_mia_bench.jsonl").write_text("no JSON\n")
    assert list(load_run(str(tmp_path), ["mmie"]).tasks) == ["mmie"]


def test_a_task_of_another_package_is_ignored_with_a_note(tmp_path):
    write_run(tmp_path, "mmie", LINES)
    write_run(tmp_path, "mmmu_val", [{"doc_id": 0}])
    run = load_run(tmp_path)
    assert list(run.tasks) == ["mmie"]
    assert "`mmmu_val` is not a task of a registered benchmark" in run.notes[0]


def test_a_last_line_that_is_cut_off_is_left_out_and_noted(tmp_path):
    log = write_run(tmp_path, "mmie", LINES)
    log.write_text(log.read_text()[:-50])
    task = load_run(tmp_path).tasks["mmie"]
    assert len(task.records) == 5
    assert "line 6, the last, is cut off" in task.notes[0]


def test_a_sample_that_is_logged_twice_counts_once(tmp_path):
    task = opened(tmp_path, [*LINES, LINES[2], LINES[2]])
    assert len(task.records) == 6


def test_different_results_of_one_sample_are_refused(tmp_path):
    other = list(mmie_lines(6, answers="model-b"))
    with pytest.raises(AnswersUnusable, match="SA-0"):
        opened(tmp_path, [*LINES, other[0]])


@pytest.mark.parametrize("points", [math.nan, math.inf, 7, -1])
def test_points_that_are_not_on_the_scale_are_unscored_and_noted(tmp_path, points):
    task = opened(tmp_path, changed(1, official={"points": points}))
    verdict = task.records[1].official
    assert isinstance(verdict, Unscored)
    assert verdict.reason == "off_scale"
    assert task.notes == ("1 sample with points outside the scale: counted as unscored",)


def test_official_points_of_mia_bench_may_be_more_than_full_marks(tmp_path):
    lines = list(mia_lines(2))
    lines[0]["record"]["official"] = {"points": 130.0}
    write_run(tmp_path, "mia_bench", lines)
    task = load_run(tmp_path).tasks["mia_bench"]
    assert task.records[0].official.points == 130
    assert task.notes == ()


def test_samples_that_were_never_scored_are_left_out_and_noted(tmp_path):
    task = opened(tmp_path, [*LINES, BYPASS])
    assert len(task.records) == 6
    assert "1 sample never scored" in task.notes[0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        pytest.param({"doc_id": 1}, r"line 7: no record", id="no-record"),
        pytest.param({"record": 1}, r"line 7: no record", id="no-object"),
        pytest.param({"record": {"id": "3"}}, "line 7: `official`", id="another's"),
        pytest.param(
            with_official({"points": 10**400}), r"line 7: `official\.points`", id="huge-points"
        ),
    ],
)
def test_a_line_without_a_sample_is_an_error_with_its_number(tmp_path, line, words):
    with pytest.raises(AnswersUnusable, match=words):
        opened(tmp_path, [*LINES, line])


def test_a_task_that_is_not_in_the_run_is_named(tmp_path):
    write_run(tmp_path, "mmie", LINES, date="20261121_080000")
    write_run(tmp_path, "mmie", LINES)
    with pytest.raises(AnswersUnusable, match="mmie_sa"):
        load_run(str(tmp_path), ["mmie_sa"])


@pytest.mark.parametrize(
    ("arguments", "started"),
    [
        pytest.param(
            {"timezone": "Asia/Singapore"}, "2026-11-21 04:00 UTC", id="the-runner's-default"
        ),
        pytest.param({"timezone": "America/New_York"}, "2026-11-21 17:00 UTC", id="another"),
        pytest.param(
            {"timezone": "Mars/Phobos"}, "2026-11-21 12:00 (time zone not logged)", id="unknown"
        ),
        pytest.param({"timezone": "../x"}, "2026-11-21 12:00 (time zone not logged)", id="a-path"),
        pytest.param(None, "2026-11-21 12:00 (time zone not logged)", id="no-results-file"),
    ],
)
def test_a_run_started_at_a_time_in_utc_or_with_its_zone(tmp_path, arguments, started):
    write_run(tmp_path, "mmie", LINES)
    if arguments is not None:
        saved = {"config": {"resolved_cli_args": arguments}}
        (tmp_path / f"{DATE}_results.json").write_text(json.dumps(saved), encoding="utf-8")
    assert load_run(tmp_path).started == started


@pytest.mark.parametrize("date", ["today", "20261332_250000"])
def test_a_date_that_is_none_is_shown_as_it_is(date):
    assert start_text(date, "Asia/Singapore") == date


def test_runs_of_one_name_are_told_apart_by_number(tmp_path):
    dates = {"a": "20261121_090000", "b": "20261121_100000", "c": "20261121_100059"}
    runs = [write_run(tmp_path / at / "model", "mmie", LINES, dates[at]) for at in dates]
    assert [run.name for run in open_runs(map(str, runs))] == [
        "model (1)",
        "model (2)",
        "model (3)",
    ]


@pytest.mark.parametrize(
    ("results", "stored"),
    [
        pytest.param(
            {"official,none": 50.5, "official_stderr,none": 1.0, "alias": "MMIE"},
            {"official": 50.5},
            id="as-the-runner",
        ),
        pytest.param(
            {"a": math.nan, "b": math.inf, "c": True, "d": "N/A", "e": 10**400, "f": [1], "g": 2},
            {"g": 2},
            id="what-is-no-number",
        ),
    ],
)
def test_only_numeric_scores_of_the_runner_are_stored(tmp_path, results, stored):
    assert opened(tmp_path, results=results).stored == stored


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 99_999, b'{"results": 3}'])
def test_results_that_cannot_be_read_are_none(tmp_path, content):
    write_run(tmp_path, "mmie", LINES)
    (tmp_path / "20261121_120000_results.json").write_bytes(content)
    assert load_run(tmp_path).tasks["mmie"].stored == {}


def test_every_signature_is_listed_once(tmp_path):
    task = opened(tmp_path, changed(3, signature={"judges": [{"judge": "other"}]}))
    assert len(task.signatures) == 2
    assert str(task.signatures[1]) == "judge:other"


def test_equal_signatures_of_a_run_are_one_object(tmp_path):
    samples = opened(tmp_path).records
    assert len({id(sample.signature) for sample in samples}) == 1
    assert len({id(judgement.judge) for sample in samples for judgement in sample.judgements}) == 1
