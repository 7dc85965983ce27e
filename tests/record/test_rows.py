"""The runner's table has the same lines in every run, and the scores of the results commands."""

import math
from importlib import import_module

import pytest
import yaml
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.records import record_of

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import Metric, Scale
from mmie_tasks.record.record import Record
from mmie_tasks.record.rows import RunnerTable, aggregation, coverage, logged_value
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.run import TaskRun

SCALE = Scale(full_marks=4, unit="points, 0 to 4", percent=lambda mean: 25 * mean)
WHOLE = Metric(name="", title="All", kind="headline")
EVEN = Metric(name="even", title="Even", kind="group", by="parity", weights={"even": 1})
HALF = {"even": 0.5, "odd": 0.5}
HALVES = Metric(name="halves", title="Halves", kind="mean", by="parity", weights=HALF)
TABLE = RunnerTable(metrics=(WHOLE, EVEN, HALVES), scale=SCALE)


def sample(points, number=0):
    return of_verdict(Unscored("refused", "no") if points is None else Scored(points), number)


def of_verdict(verdict, number=0):
    return record_of(str(number), verdict, groups={"parity": ("odd" if number % 2 else "even",)})


def test_every_sample_has_a_row_in_every_line_and_it_is_empty_where_the_sample_does_not_count():
    record = sample(3, number=1)
    rows = TABLE.rows(record, image_set="a")
    assert rows == {
        "record": record.logged,
        "coverage": {"scored": True},
        "official": {"id": "1", "image_set": "a", "points": 3, "score": 75.0},
        "robust": {"id": "1", "image_set": "a", "points": 3, "score": 75.0},
        "official_even": {},
        "official_halves": {"id": "1", "image_set": "a", "group": "odd", "points": 3},
    }
    assert tuple(rows) == ("record", *TABLE.names)


def test_an_unscored_sample_has_its_reason_and_nothing_that_a_standard_error_could_use():
    rows = TABLE.rows(sample(None))
    assert rows["official"] == {"id": "0", "unscored": "refused"}
    assert rows["official_halves"] == {"id": "0", "group": "even", "unscored": "refused"}


def test_a_mean_of_means_has_no_value_if_a_group_is_missing():
    rows = [TABLE.rows(sample(4, n))["official_halves"] for n in (0, 1, 2)]
    halves = aggregation(SCALE, HALVES.weights)
    assert halves(rows) == 100
    assert math.isnan(halves(rows[::2]))
    assert math.isnan(aggregation(SCALE)([{}, {}]))


def test_below_the_floor_of_coverage_there_is_no_value():
    records = [sample(points, n) for n, points in enumerate([4, 2, None])]
    assert math.isnan(aggregation(SCALE)([TABLE.rows(record)["official"] for record in records]))
    lower = Signature(benchmark={"min_coverage": "0.6"})
    lowered = [record.model_copy(update={"signature": lower}) for record in records]
    assert aggregation(SCALE)([TABLE.rows(record)["official"] for record in lowered]) == 75


def test_coverage_is_in_percent_of_the_samples_that_the_official_script_does_not_leave_out():
    verdicts = [Scored(1), Scored(2), Unscored("refused"), Unscored("left_out")]
    rows = [TABLE.rows(of_verdict(verdict))["coverage"] for verdict in verdicts]
    assert coverage(rows) == pytest.approx(200 / 3)
    assert math.isnan(coverage(rows[-1:]))


@pytest.mark.parametrize(
    ("points", "logged"), [(3, [1, 0.75, 0.75, None]), (None, [0, None, None, None])]
)
def test_the_log_has_shares_of_full_marks(points, logged):
    rows = TABLE.rows(sample(points, number=1))
    names = "coverage", "official", "official_halves", "official_even"
    assert [logged_value(rows[name], SCALE) for name in names] == logged


LOGS = {
    "mmie": ("mmie/_mmie_all", list(mmie_lines(60, unscored=0.05))),
    "milebench": ("milebench/_milebench_all", list(milebench_lines(3))),
    "mia_bench": ("mia_bench/mia_bench.yaml", list(mia_lines(80))),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_task_file_computes_what_the_results_commands_compute(name):
    file, lines = LOGS[name]
    benchmark = benchmark_of_task(name)
    records = tuple(map(Record.of_line, lines))
    run = TaskRun(task=name, benchmark=benchmark, records=records)
    table = RunnerTable(metrics=benchmark.metrics, scale=benchmark.scale)
    text = (task_dir() / file).read_text(encoding="utf-8").replace("!function ", "")
    entries = yaml.safe_load(text)["metric_list"]
    functions = {entry["metric"]: entry["aggregation"] for entry in entries}
    metrics = {f"official_{metric.name}": metric for metric in benchmark.metrics}
    assert {*functions} <= {*table.names}
    for line, path in functions.items():
        if line == "coverage":
            continue
        module, _, function = path.rpartition(".")
        value = getattr(import_module(module), function)([table.rows(r)[line] for r in records])
        kind = "robust" if line == "robust" else "official"
        expected = run.score(metrics.get(line, benchmark.metrics[0]), kind)
        if expected is None or expected.percent is None:
            assert math.isnan(value), line
        else:
            assert value == pytest.approx(expected.percent, abs=1e-9), line
