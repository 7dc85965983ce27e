"""The paper's averages, recomputed from the rows of its table."""

import pytest
from support.golden import vectors

from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.milebench.metrics import (
    MEANS_OF_DATASETS,
    MEANS_OF_TASKS,
    METRIC_OF,
    METRICS,
)
from mmie_tasks.benchmarks.milebench.sample import DATASETS, TASK_OF, TASKS
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.metrics import weighted_mean

TABLE = {model: percents for model, *percents in vectors("milebench_published")["rows"]}
WITHOUT_RETRIEVAL = {"GPT-4V", "GPT-4o"}  # their printed Diag leaves out I-1


def means_of(model):
    """Every mean, with each dataset at the published value of its task."""
    of_task = dict(zip(TASKS, TABLE[model], strict=False))
    datasets = {name: [Scored(of_task[TASK_OF[name]])] for name in DATASETS}
    names = (*MEANS_OF_TASKS, *MEANS_OF_DATASETS)
    return {name: weighted_mean(datasets, METRIC_OF[name].weights, 1).value for name in names}


@pytest.mark.parametrize("model", TABLE)
def test_real_and_diag_are_the_published_ones(model):
    means, (*_, real, diag) = means_of(model), TABLE[model]
    assert means["real"] == pytest.approx(real, abs=0.08)
    printed = "needles" if model in WITHOUT_RETRIEVAL else "diag"
    assert means[printed] == pytest.approx(diag, abs=0.08)


@pytest.mark.parametrize("row", BENCHMARK.published_rows, ids=lambda row: row.model)
def test_the_published_rows_are_those_of_the_table(row):
    assert row.scores == dict(zip((*TASKS, "real", "diag"), TABLE[row.model], strict=True))
    assert ("leaves out I-1" in row.source) == (row.model in WITHOUT_RETRIEVAL)


def test_the_means_of_other_papers_are_the_published_ones():
    means = means_of("GPT-4o")
    assert means["temporal"] == pytest.approx(56.2, abs=0.05)  # LongLLaVA's table
    assert means["semantic"] == pytest.approx(63.5, abs=0.05)
    longllava = (means["temporal"] + means["semantic"] + means["retrieval"]) / 3
    assert longllava == pytest.approx(69.5, abs=0.05)
    assert means["needles"] == pytest.approx(99.4, abs=0.05)  # what its row prints as Diag
    assert means["diag"] == pytest.approx(95.9, abs=0.05)
    of_datasets = [means[TASK_OF[name]] for name in MEANS_OF_DATASETS["datasets26"]]
    assert means["datasets26"] == pytest.approx(sum(of_datasets) / 26)


def test_the_weights_of_every_metric_add_up_to_one():
    assert [sum(metric.weights.values()) for metric in METRICS] == [pytest.approx(1)] * len(METRICS)
