"""`mmie-tasks compare` on logs of the three benchmarks."""

import json

import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines, write_run

from mmie_tasks.core.errors import AnswersUnusable, MmieTasksError, SettingWrong
from mmie_tasks.results.compare import run

LINES = {
    "mmie": lambda **more: mmie_lines(60, in_proportion=True, **more),
    "milebench": lambda **more: milebench_lines(3, **more),
    "mia_bench": lambda **more: mia_lines(40, **more),
}


def compare(*arguments):
    return run([*map(str, arguments)], {})


@pytest.fixture
def two(tmp_path):
    def create(task, count=None, **of_b):
        for name in "ab":
            lines = list(LINES[task](answers=name, **(of_b if name == "b" else {})))[:count]
            write_run(tmp_path / name / "model", task, lines)
        return tmp_path / "a", tmp_path / "b"

    return create


@pytest.mark.parametrize("task", LINES)
@pytest.mark.parametrize("reading", ["official", "robust"])
def test_every_benchmark_is_compared(two, task, reading):
    text = compare(*two(task, skill=0.9), "--reading", reading)
    assert f"{reading} score" in text
    assert "B is ahead of A by" in text
    assert "| headline " in text
    assert [
        line for line in text.splitlines()[2:] if len(line) > 100
    ] == []  # the first two name the folders
    assert "nan" not in text.lower().split()


@pytest.mark.parametrize("task", LINES)
def test_json_holds_the_same_numbers(two, task):
    runs = two(task, skill=0.9)
    comparisons = json.loads(compare(*runs, "--json"), parse_constant=pytest.fail)
    (only,) = comparisons["tasks"]
    headline = only["metrics"][0]
    assert only["a"]["task"] == only["b"]["task"] == task
    assert headline["interval"][0] <= headline["difference"] <= headline["interval"][1]
    assert f"| {headline['metric']['title']} " in compare(*runs)
    assert f"{headline['difference']:+.2f}" in compare(*runs)
    assert headline["wins"] + headline["ties"] + headline["losses"] == headline["pairs"]


def test_the_headline_is_put_into_words(two):
    runs = two("mmie", skill=0.9)
    (only,) = json.loads(compare(*runs, "--json"))["tasks"]
    headline = only["metrics"][0]
    words = " ".join(compare(*runs).split())
    assert f"ahead of A by {headline['difference']:.2f} percentage points (p (Holm) " in words
    assert (
        f"points in {headline['wins']} pairs, as many in {headline['ties']}, fewer in "
        f"{headline['losses']}." in words
    )


def test_a_run_does_not_differ_from_itself(two):
    a, _ = two("mmie")
    text = compare(a, a)
    assert "A and B have the same points in all" in text
    assert " identical |" in text
    assert "Samples on which they differ" not in text


def test_another_judge_is_refused_unless_it_is_ignored(two):
    runs = two("mmie", judge="judge:openai|model:x")
    with pytest.raises(SettingWrong) as refused:
        compare(*runs)
    assert "| judge | made_up | openai |" in str(refused.value)
    assert "--ignore judge,model`" in str(refused.value)
    text = compare(*runs, "--ignore", "judge, model")
    assert text.startswith("WARNING")
    assert "| judge | made_up | openai |" in text


def test_a_replayed_judge_is_the_same_judge(two):
    assert "pairs" in compare(
        *two("mmie", judge="judge:made_up|model:made-up|replayed:0123456789ab")
    )


def test_tasks_of_only_one_run_are_not_compared(two, tmp_path):
    a, b = two("mmie")
    write_run(a / "model", "mia_bench", mia_lines(5))
    assert "mia_bench" not in compare(a, b)
    write_run(tmp_path / "c" / "model", "mia_bench", mia_lines(5))
    with pytest.raises(AnswersUnusable, match="A has mmie; B has mia_bench"):
        compare(tmp_path / "b", tmp_path / "c")


def test_names_and_folders_of_runs_are_shown(two):
    a, b = two("mmie")
    assert f"A: small ({a / 'model'}, " in compare(f"small={a}", f"large={b}")


def test_a_task_is_chosen_by_name(two):
    a, b = two("mmie")
    for folder in (a, b):
        write_run(folder / "model", "mia_bench", mia_lines(5))
    text = compare(a, b, "--task", "mia_bench")
    assert "MIA-Bench" in text
    assert "MMIE" not in text
    assert "MMIE" in compare(a, b)


@pytest.mark.parametrize("count", [1, 3])
def test_very_few_samples_can_be_compared(two, count):
    text = compare(*two("mmie", count=count))
    assert "too few pairs" in text
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


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["--top", "-1"], SettingWrong, id="top"),
        pytest.param(["--ignore", "modle"], SettingWrong, id="no-such-key"),
    ],
)
def test_an_invalid_option_is_an_error_with_a_hint(two, words, error):
    with pytest.raises(error, match=r"\n\nhint: ") as caught:
        run([*map(str, two("mmie")), *words], {})
    assert isinstance(caught.value, MmieTasksError)


def test_what_is_unlike_the_paper_is_printed_of_both_runs(two):
    text = " ".join(compare(*two("mmie")).split())
    for label in "AB":
        assert f"{label} is unlike the paper: 60 of 20,103 samples; judge: made-up" in text
