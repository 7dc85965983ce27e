"""`mmie-tasks subset` on logs of the three benchmarks."""

import json
from dataclasses import replace

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.benchmarks.mmie.task import BENCHMARK
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.results.subset import run

LINES = {
    "mmie": lambda **more: mmie_lines(90, **more),
    "milebench": lambda **more: milebench_lines(4, **more),
    "mia_bench": lambda **more: mia_lines(60, **more),
}


def subset(*arguments):
    return run([*map(str, arguments), "--draws", "50"], {})


@pytest.fixture
def create_runs(tmp_path):
    def create(task, *skills, **more):
        for number, skill in enumerate(skills):
            lines = LINES[task](skill=skill, answers=f"m{number}", **more)
            write_run(tmp_path / f"m{number}" / f"model{number}", task, lines)
        return [tmp_path / f"m{number}" for number in range(len(skills))]

    return create


@pytest.fixture
def ids_file(tmp_path):
    def write(text):
        path = tmp_path / "ids.txt"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return write


@pytest.mark.parametrize("task", LINES)
@pytest.mark.parametrize("runs", [1, 3])
def test_every_benchmark_has_a_summary_sentence(create_runs, task, runs):
    text = subset(*create_runs(task, *(0.2, 0.5, 0.8)[:runs]), "--sizes", "30,50")
    assert " ".join(text.split()).count("With 50 samples, ") == 1
    assert ("stays ahead of" in text) == (runs > 1)
    assert "nan" not in text.lower().split()


def test_json_holds_the_same_numbers(create_runs):
    runs = create_runs("mmie", 0.3, 0.6)
    (output,) = json.loads(subset(*runs, "--sizes", "40", "--json"), parse_constant=pytest.fail)
    headline = output["numbers"][0]
    text = subset(*runs, "--sizes", "40")
    assert output["stratify"] == "category"
    assert f"±{headline['sizes']['40'][0]['within']:.2f}" in text
    assert f"{output['orders'][0]['kept']['40']:.1%}" in text


def test_a_small_run_has_no_subset_to_draw(create_runs):
    assert "No subset to draw" in subset(*create_runs("mmie", 0.5))


def test_a_file_of_ids_is_scored_exactly(create_runs, ids_file):
    runs = create_runs("mmie", 0.5, unscored=0)
    output = subset(*runs, "--ids", ids_file("\ufeffSA-0\nPBL-1\r\n\n MSR-2 \nSA-0\nX"))
    assert "given ids: 1 are in no run." in output
    (row,) = [line for line in output.splitlines() if "given ids | AVG" in line]
    assert row.split("|")[4].strip() == "3"


def test_ids_are_compared_with_subsets_of_their_number(create_runs, ids_file):
    runs = create_runs("mmie", 0.5, unscored=0)
    (output,) = json.loads(subset(*runs, "--ids", ids_file("SA-0\nPBL-1\nMSR-2"), "--json"))
    assert list(output["numbers"][0]["sizes"]) == ["3"]
    assert output["fixed"][0]["samples"] == 3


def test_ids_of_mia_bench_may_be_numbers(create_runs, ids_file):
    assert "given ids" in subset(*create_runs("mia_bench", 0.5), "--ids", ids_file("1\n2\n3"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", "holds no ids", id="empty"),
        pytest.param(b"\xff\xfe", "UTF-8", id="not-text"),
        pytest.param("X\nY", "None of the 2 ids", id="none-known"),
    ],
)
def test_an_invalid_file_of_ids_is_an_error(create_runs, ids_file, content, message):
    with pytest.raises(AnswersUnusable, match=message):
        subset(*create_runs("mmie", 0.5), "--ids", ids_file(content))


def test_a_missing_file_of_ids_is_an_error(create_runs, tmp_path):
    with pytest.raises(AnswersUnusable, match="Cannot read"):
        subset(*create_runs("mmie", 0.5), "--ids", tmp_path / "none")


def test_subsets_defined_by_a_benchmark_are_shown(create_runs, monkeypatch):
    def halves(task, samples):
        return {f"{task}_half": frozenset(sample.id for sample in samples[::2])}

    with_halves = replace(BENCHMARK, subsets=halves)
    monkeypatch.setattr("mmie_tasks.benchmarks.mmie.task.BENCHMARK", with_halves)
    assert "| mmie_half |" in subset(*create_runs("mmie", 0.5))


def test_runs_of_different_judges_have_a_warning(create_runs, tmp_path):
    runs = create_runs("mmie", 0.5)
    write_run(tmp_path / "other" / "x", "mmie", mmie_lines(90, judge="judge:openai|model:y"))
    text = subset(*runs, tmp_path / "other", "--sizes", "10")
    assert "WARNING: the runs were not scored alike (judge, model)" in text


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["--sizes", "many"], id="no-number"),
        pytest.param(["--sizes", "0,10"], id="nothing"),
        pytest.param(["--sizes", ","], id="none"),
        pytest.param(["--draws", "0"], id="no-draws"),
        pytest.param(["--task", "mmmu"], id="no-task-of-ours"),
    ],
)
def test_an_invalid_option_is_an_error_with_a_hint(create_runs, words):
    with pytest.raises(SettingWrong, match=r"\n\nhint: "):
        run([*map(str, create_runs("mmie", 0.5)), *words], {})


def test_runs_without_a_common_task_are_refused(create_runs):
    one = create_runs("mmie", 0.5)[0].rename(create_runs("mmie", 0.5)[0].with_name("kept"))
    with pytest.raises(AnswersUnusable, match="no task in common"):
        subset(one, *create_runs("mia_bench", 0.5))


def test_a_run_without_scores_has_a_reason(create_runs):
    assert "AVG: n/a, model0: no sample has a score" in subset(*create_runs("mmie", 0.5, unscored=1))
