"""`mmie-tasks compare` on logs of the three benchmarks."""

import json

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong

LINES = {
    "mmie": lambda **more: mmie_lines(60, in_proportion=True, **more),
    "milebench": lambda **more: milebench_lines(3, **more),
    "mia_bench": lambda **more: mia_lines(40, **more),
}


def compare(*arguments):
    return load_command("compare")([*map(str, arguments)], {})


@pytest.fixture
def two(tmp_path):
    def create(task, count=None, **of_b):
        for name in "ab":
            lines = list(LINES[task](answers=name, **(of_b if name == "b" else {})))[:count]
            write_run(tmp_path / name / "model", task, lines)
        return tmp_path / "a", tmp_path / "b"

    return create


@pytest.mark.parametrize("task", LINES)
def test_every_benchmark_is_compared(two, task):
    text = compare(*two(task, skill=0.9), "--score", "robust")
    assert "robust score" in text
    assert "B is ahead of A by" in text
    assert "nan" not in text.lower().split()


def test_the_headline_is_put_into_words_and_json_has_the_same_numbers(two):
    runs = two("mmie", skill=0.9)
    (only,) = json.loads(compare(*runs, "--json"), parse_constant=pytest.fail)["tasks"]
    headline = only["metrics"][0]
    assert headline["interval"][0] <= headline["difference"] <= headline["interval"][1]
    assert headline["wins"] + headline["ties"] + headline["losses"] == headline["pairs"]
    words = " ".join(compare(*runs).split())
    assert f"ahead of A by {headline['difference']:.2f} percentage points (p (Holm) " in words
    counts = (headline["wins"], headline["ties"], headline["losses"])
    assert "points in {} pairs, as many in {}, fewer in {}.".format(*counts) in words


def test_a_run_does_not_differ_from_itself(two):
    a, _ = two("mmie")
    text = compare(a, a)
    assert "A and B have the same points in all" in text
    assert " identical |" in text
    assert "Samples on which they differ" not in text


def test_another_judge_is_refused_unless_it_is_ignored(two):
    runs = two("mmie", judge="judge:other|model:x")
    with pytest.raises(SettingWrong) as refused:
        compare(*runs)
    assert "judge: made_up / other" in str(refused.value)
    assert "--ignore judge,model`" in str(refused.value)
    text = compare(*runs, "--ignore", "judge, model")
    assert text.startswith("WARNING")
    assert "judge: made_up / other" in text


def test_tasks_of_only_one_run_are_not_compared(two, tmp_path):
    a, b = two("mmie")
    write_run(a / "model", "mia_bench", mia_lines(5))
    assert "mia_bench" not in compare(a, b)
    write_run(tmp_path / "c" / "model", "mia_bench", mia_lines(5))
    with pytest.raises(AnswersUnusable, match="A has mmie; B has mia_bench"):
        compare(tmp_path / "b", tmp_path / "c")


@pytest.mark.parametrize("count", [1, 3])
def test_very_few_samples_can_be_compared(two, count):
    text = compare(*two("mmie", count=count))
    assert "fewer than 10 pairs" in text
    assert "95 % interval of B - A" not in text


def test_a_run_without_scores_has_a_reason(two):
    text = compare(*two("mmie", unscored=1))
    assert "0 pairs" in text
    assert "AVG: n/a, B: no sample has a score" in text


def test_cut_off_lines_and_samples_in_one_run_only_are_reported(two):
    a, b = two("mmie")
    (log,) = b.rglob("*.jsonl")
    lines = log.read_text(encoding="utf-8").splitlines()
    log.write_text("\n".join([*lines[2:], '{"doc_id": 9, "cov']), encoding="utf-8")
    text = compare(a, b)
    assert "2 only in A" in text
    assert "B: line 59, the last, is cut off" in text


def test_what_is_unlike_the_paper_is_printed_of_both_runs(two):
    text = " ".join(compare(*two("mmie")).split())
    for label in "AB":
        assert f"{label} is unlike the paper: " in text
    assert text.count("60 of 20,103 samples; judge: made-up") == 2
