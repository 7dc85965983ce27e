"""The paper's averages, on the paper's own rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASK_OF, TASKS
from mmie_tasks.benchmarks.milebench.scoring.totals import (
    MEANS_OF_DATASETS,
    MEANS_OF_TASKS,
    by_dataset,
    mean_of,
    total,
)
from mmie_tasks.verdict import Scored, Tally, Unscored, tally

PUBLISHED = {  # percent, tasks T-1..I-1, then Real and Diag as printed in the v2 table
    "Gemini 1.0": "41.5 46.0 27.3 51.6 74.4 64.7 16.9 47.8 73.0 73.1 27.5 12.5 49.2 37.7",
    "Gemini 1.5": "55.0 54.5 34.0 57.3 73.9 72.7 17.8 44.7 82.5 99.4 96.3 88.0 54.7 94.5",
    "Qwen-VL-Chat-7B": "34.7 40.0 22.3 44.6 57.3 52.3 14.3 26.7 59.5 35.3 62.8 13.5 39.1 37.2",
    "Mantis-7B": "54.8 49.9 25.3 48.9 65.8 55.5 17.4 31.9 78.0 27.5 0.0 32.2 47.5 19.9",
    "LWM": "0.5 14.6 2.5 6.4 7.3 14.0 10.7 8.4 15.0 30.6 0.0 0.0 8.8 10.2",
}
GPT_4O = "61.8 56.8 38.0 68.3 85.3 83.3 15.3 47.2 86.5 99.7 99.1 88.8"


def as_datasets(row):
    """Every dataset of a task at the task's published value."""
    values = dict(zip(TASKS, map(float, row.split()), strict=False))
    return {name: Tally(values[TASK_OF[name]] / 100, 200, 0) for name in DATASETS}


@pytest.mark.parametrize("model", PUBLISHED)
def test_real_and_diag_are_the_published_ones(model):
    *_, real, diag = map(float, PUBLISHED[model].split())
    datasets = as_datasets(PUBLISHED[model])
    assert 100 * total("real", datasets).value == pytest.approx(real, abs=0.08)
    assert 100 * total("diag", datasets).value == pytest.approx(diag, abs=0.08)


def test_the_other_papers_means_can_be_recomputed():
    datasets = as_datasets(GPT_4O)
    percent = {name: 100 * total(name, datasets).value for name in MEANS_OF_TASKS}
    assert percent["temporal"] == pytest.approx(56.2, abs=0.05)  # LongLLaVA's table
    assert percent["semantic"] == pytest.approx(63.5, abs=0.05)
    longllava = (percent["temporal"] + percent["semantic"] + percent["retrieval"]) / 3
    assert longllava == pytest.approx(69.5, abs=0.05)
    assert percent["needles"] == pytest.approx(99.4, abs=0.05)  # what its row prints as Diag
    assert percent["diag"] == pytest.approx(95.9, abs=0.05)


def test_a_mean_of_datasets_weighs_them_alike():
    datasets = as_datasets(GPT_4O)
    expected = sum(datasets[name].mean for name in MEANS_OF_DATASETS["datasets26"]) / 26
    assert total("datasets26", datasets).value == pytest.approx(expected)


def test_a_total_without_one_of_its_datasets_is_none_and_says_which():
    datasets = as_datasets(GPT_4O)
    del datasets["TQA"]
    assert total("real", datasets).value is None
    assert "TQA not in this run" in total("real", datasets).why_not
    assert total("diag", datasets).value is not None


def test_below_the_floor_of_coverage_there_is_no_mean():
    found = mean_of(Tally(0.5, 8, 2))
    assert (found.value, found.why_not) == (None, "only 8 of 10 samples have a score")
    assert mean_of(Tally(0.5, 9, 1)).value == 0.5


def test_nothing_scored_gives_no_mean():
    assert mean_of(Tally(None, 0, 5)).value is None


scored = st.builds(Scored, st.floats(0, 1))
verdicts = st.lists(scored | st.just(Unscored("no_answer")))


@given(verdicts, st.integers(0, 5))
def test_unscored_samples_never_move_the_mean(some, more):
    before, after = tally(some), tally([*some, *[Unscored("not_text")] * more])
    assert after == Tally(before.mean, before.scored, before.unscored + more)


@given(verdicts, st.randoms())
def test_the_order_of_samples_does_not_matter(some, random):
    one = by_dataset(("TQA", verdict) for verdict in some)
    other = by_dataset(("TQA", verdict) for verdict in random.sample(some, len(some)))
    assert one.keys() == other.keys()
    assert all(one[k].mean == pytest.approx(other[k].mean) for k in one)
