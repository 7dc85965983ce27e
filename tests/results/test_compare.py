"""Two runs of one task, compared metric by metric, if they were scored alike."""

import json
import random
from dataclasses import replace
from functools import partial

import pytest
from scipy import stats
from support.letters import make_run as task_run
from support.logged_runs import milebench_lines, mmie_lines, write_run
from support.signatures import signature_from
from support.unloaded_benchmark import varied

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.intervals import holm
from mmie_tasks.results.comparability import (
    NotComparable,
    mixed_keys,
    require_comparable,
    signature_differences,
)
from mmie_tasks.results.compare import compare, p_text


def numbers(*points):
    """Title to the result of a metric for two runs with these points."""
    return {result.title: result for result in compare(*map(task_run, points)).metrics}


def drawn(seed, names, low=0):
    lots = random.Random(seed)  # noqa: S311 - no secret
    return {name: lots.randint(low, 10) for name in names}


NAMES = [f"{letter}{number}" for letter in "ab" for number in range(40)]


def test_a_number_is_the_mean_over_the_pairs_and_its_difference_in_percent_points():
    a, b = {"a1": 9, "a2": 4, "a3": 2, "a4": 5}, {"a1": 10, "a2": 4, "a3": 7, "a4": 2}
    comparison = compare(task_run(a), task_run(b))
    average = comparison.metrics[0]
    assert (average.a, average.b, average.difference) == (50.0, 57.5, 7.5)
    assert (average.wins, average.ties, average.losses, average.pairs) == (2, 1, 1, 4)
    assert [sample.id for sample in comparison.differing] == ["a3", "a4", "a1"]


def test_a_mean_of_group_means_weighs_the_groups():
    a, b = {"a1": 0, "a2": 0, "a3": 0, "b1": 0}, {"a1": 1, "a2": 1, "a3": 1, "b1": 5}
    by_title = numbers(a, b)
    assert by_title["AVG"].difference == pytest.approx(20)
    assert by_title["Even"].difference == pytest.approx(30)
    assert (by_title["Even"].interval, by_title["Even"].p) == (None, None)  # one pair in a group


def test_unpaired_samples_are_counted_and_do_not_change_the_difference():
    full = {f"a{n}": n % 7 for n in range(40)}
    a = full | {"a0": None, "a1": None, "a2": Unscored("left_out"), "a90": 9}
    b = full | {"a0": None, "a3": None, "a91": 0}
    comparison = compare(task_run(a), task_run(b))
    unscored = (f"unscored in {which}" for which in ("A only", "B only", "both"))
    reasons = ["only in A", "only in B", "left out", *unscored]
    assert comparison.left_over == dict.fromkeys(reasons, 1)
    assert comparison.pairs == 36 == comparison.metrics[0].pairs
    assert comparison.metrics[0].difference == 0


@pytest.mark.parametrize("how", ["unscored", "absent", "absent-in-a"])
def test_below_the_coverage_floor_there_is_no_difference(how):
    full = {f"a{n}": 5 for n in range(10)}
    for missing, is_there in ((1, True), (2, False)):
        less = dict([*full.items()][missing:])
        if how == "unscored":
            less = dict.fromkeys(full) | less
        average = numbers(*((less, full) if how == "absent-in-a" else (full, less)))["AVG"]
        assert (average.difference is not None) == is_there
        assert bool(average.why_not) != is_there


def test_below_ten_pairs_there_is_neither_a_p_value_nor_an_interval():
    for pairs, is_there in ((9, False), (10, True)):
        a = {f"a{n}": n for n in range(pairs)}
        b = {name: 10 - points for name, points in a.items()}
        average = numbers(a, b)["AVG"]
        assert (average.interval is not None) == (average.p is not None) == is_there
        assert bool(average.why_no_interval) != is_there


def test_a_difference_may_be_chance_unless_its_corrected_p_is_small():
    a = drawn(1, NAMES)
    clear = {name: min(10, points + 1) for name, points in a.items()}
    assert not numbers(a, clear)["AVG"].may_be_chance
    assert numbers(a, drawn(2, NAMES))["AVG"].may_be_chance
    same = numbers(a, a)["AVG"]
    assert (same.difference, same.interval, same.p) == (0, None, None)
    assert (same.why_no_interval, same.may_be_chance) == ("identical", False)


def test_the_interval_and_p_value_of_a_plain_mean_are_those_of_a_paired_t_test():
    names = [f"a{n}" for n in range(400)]
    a, b = drawn(1, names), drawn(2, names, low=2)
    average = numbers(a, b)["AVG"]
    test = stats.ttest_rel([b[n] for n in names], [a[n] for n in names])
    assert average.p == pytest.approx(test.pvalue, rel=0.05)
    ends = [10 * end for end in test.confidence_interval(0.95)]
    assert average.interval == pytest.approx(ends, abs=0.02)


@pytest.mark.parametrize("seed", [9, 11, 25])  # with a p that Holm lifts above 5 percent
def test_adjusted_intervals_exclude_0_exactly_where_the_adjusted_p_is_below_5_percent(seed):
    lots = random.Random(seed)  # noqa: S311 - no secret
    a = {f"{letter}{n}": lots.randint(0, 9) for letter in "abc" for n in range(40)}
    b = {name: points + (lots.random() < 0.15) for name, points in a.items()}
    for result in numbers(a, b).values():
        if result.interval:
            excludes_0 = result.interval.low > 0 or result.interval.high < 0
            assert excludes_0 == (result.p_corrected < 0.05)


def test_the_correction_is_holms():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1, 1]


def test_a_difference_of_runs_with_other_proportions_has_a_p_value_and_no_interval():
    runs = [task_run(drawn(seed, NAMES, low=low)) for seed, low in ((1, 0), (2, 3))]
    other = varied(runs[0].benchmark, strata="letter", stratum_sizes={"a": 900, "b": 100})
    average, _, of_a, *_ = compare(*(replace(run, benchmark=other) for run in runs)).metrics
    assert "not in Letters's proportions" in average.why_no_interval
    assert (average.interval, average.p is None) == (None, False)
    assert of_a.interval is not None


def test_the_requested_score_is_compared():
    runs = [task_run({"a1": 1, "a2": 1}, robust={"a1": points}) for points in (2, 8)]
    assert compare(*runs).metrics[0].difference == 0
    assert compare(*runs, "robust").metrics[0].difference == 30


# Whether two runs were scored alike.

OPENAI = (
    "judge:openai|model:gpt-4o-2024-11-20|t:0|paper_judge:no|prompt:other:1,max_tokens=1024"
    "|reader:official+robust|task:mmie@1-A|data:sha256:1|pkg:0.1.0"
)


def differences(a, b):
    """The keys in which two sets of signatures differ, with the values of both."""
    found = signature_differences(map(signature_from, a), map(signature_from, b))
    return {difference.key: (difference.a, difference.b) for difference in found}


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param("judge:openai", "judge:mmie_score", "judge", id="judge"),
        pytest.param("11-20", "08-06", "model", id="model"),
        pytest.param("|paper", "|max:64|paper", "max", id="only-one-has-a-limit"),
        pytest.param("other:1,", "other:2,", "prompt", id="prompt"),
        pytest.param("|prompt", "|replies_by:m|prompt", "replies_by", id="answering-model"),
        pytest.param("@1-A", "@2-A", "task", id="version"),
        pytest.param("|data", "|variant:adv|data", "variant", id="variant"),
        pytest.param("sha256:1", "sha256:2", "data", id="data"),
        pytest.param("pkg:0.1.0", "pkg:0.2.0", None, id="package"),
        pytest.param("@1-A", "@1-B", None, id="interface"),
        pytest.param("|t:0", "|t:0|replayed:b25fd307e228", None, id="replayed"),
    ],
)
def test_a_key_that_moves_a_score_is_a_difference_and_no_other(old, new, key):
    assert old in OPENAI
    changed = OPENAI.replace(old, new)
    assert [*differences([OPENAI], [changed])] == [*differences([OPENAI], [OPENAI, changed])]
    assert [*differences([OPENAI], [changed])] == ([key] if key else [])


def test_runs_may_differ_in_who_drew_the_answers_but_one_run_may_not():
    drawings, other = (f"{OPENAI}|answers:step-1,model={name}" for name in "ab")
    assert differences([OPENAI], [drawings]) == differences([drawings], [other]) == {}
    of_a, of_b = differences([drawings], [drawings, other])["answers"]
    assert (of_a, of_b) == (("step-1,model=a",), ("step-1,model=a", "step-1,model=b"))
    assert differences(["t:0", "t:1"], ["t:0", "t:1"]) == {"t": (("0", "1"), ("0", "1"))}
    assert mixed_keys(map(signature_from, [OPENAI, drawings])) == ("answers",)


def test_differences_are_refused_with_a_remedy_unless_all_are_ignored():
    a, b = (task_run({"a": 1}, text) for text in ("model:x|t:0", "model:y|t:1"))
    for ignored, keys in (((), ("model", "t")), ({"model"}, ("t",))):
        with pytest.raises(NotComparable, match="--ignore model,t") as refused:
            require_comparable(a, b, ignored)
        assert refused.value.keys == keys
    allowed = require_comparable(a, b, {"t", "model"})
    assert [difference.key for difference in allowed] == ["model", "t"]
    with pytest.raises(SettingWrong, match="`modle`"):
        require_comparable(a, b, {"modle"})


# The command.

LINES = {
    "mmie": partial(mmie_lines, 60, in_proportion=True),
    "milebench": partial(milebench_lines, 3),
}


def printed(*arguments):
    return load_command("compare")([*map(str, arguments)], {})


def two(folder, task, **of_b):
    for name, options in (("a", {}), ("b", of_b)):
        write_run(folder / name / "model", task, LINES[task](answers=name, **options))
    return folder / "a", folder / "b"


@pytest.mark.parametrize("task", LINES)
def test_the_headline_is_put_into_words_and_json_has_its_numbers(tmp_path, task):
    runs = two(tmp_path, task, skill=0.9)
    output = json.loads(printed(*runs, "--score", "robust", "--json"), parse_constant=pytest.fail)
    headline = output["tasks"][0]["metrics"][0]
    assert headline["interval"][0] <= headline["difference"] <= headline["interval"][1]
    counts = [headline[name] for name in ("wins", "ties", "losses")]
    assert sum(counts) == headline["pairs"]
    words = " ".join(printed(*runs, "--score", "robust").split())
    p, difference = p_text(headline["p_corrected"]), headline["difference"]
    ahead = f"B is ahead of A by {difference:.2f} percentage points (p (Holm) {p}; 95 % interval"
    assert ahead in words
    assert "points in {} pairs, as many in {}, fewer in {}.".format(*counts) in words
    assert all(f"{label} is unlike the paper: " in words for label in "AB")


def test_a_p_value_has_four_decimals_and_equal_runs_none(tmp_path):
    assert list(map(p_text, (0.5, 1e-4, 9e-5, None))) == ["0.5000", "0.0001", "<0.0001", "n/a"]
    run, _ = two(tmp_path, "milebench")
    text = printed(run, run)
    assert "A and B have the same points in all " in text
    assert "identical" in text


def test_another_judge_is_refused_unless_it_is_ignored(tmp_path):
    runs = two(tmp_path, "mmie", judge="judge:other|model:x")
    with pytest.raises(SettingWrong, match="--ignore judge,model`"):
        printed(*runs)
    text = printed(*runs, "--ignore", "judge, model")
    assert text.startswith("WARNING")
    assert "judge: made_up / other" in text
