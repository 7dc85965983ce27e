"""MileBench's logs: metrics as in the runner's table, and answers scored again."""

import copy
import math

import pytest
from mmie_tasks.record.sample import Needle
from support.example import DATA
from support.logged_runs import milebench_lines

from mmie_tasks.benchmarks.milebench import benchmark
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.milebench.data import dataset
from mmie_tasks.benchmarks.milebench.metrics import TABLE
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.scores import score_of

LINES = list(milebench_lines(6))
ONE = next(line for line in LINES if line["record"]["rule"] == "choice")


def changed(line=ONE, **fields):
    line = copy.deepcopy(line)
    line["record"].update(fields)
    return line


def regraded(line):
    return BENCHMARK.regraded(BENCHMARK.read_record(line), line)


def test_a_total_without_all_of_its_datasets_has_no_value():
    lines = [line for line in LINES if line["record"]["dataset"] != "DocVQA"]
    real, diag = BENCHMARK.metrics[:2]
    samples = [BENCHMARK.read_line(line) for line in lines]
    assert score_of(BENCHMARK, "milebench", samples, real, "official").percent is None
    rows = [TABLE.rows(BENCHMARK.read_record(line))["official_real"] for line in lines]
    assert math.isnan(benchmark.real(rows))
    assert score_of(BENCHMARK, "milebench", samples, diag, "official").percent is not None


def test_the_images_are_at_their_placeholders():
    line = changed(images=["a.png", "b.png"])
    line["input"] = "First <image> then <image> what?"
    assert BENCHMARK.read_line(line).question == (
        Segment(text="First ", image="a.png"),
        Segment(text=" then ", image="b.png"),
        Segment(text=" what?"),
    )


def test_a_text_that_contains_the_placeholder_itself_is_shown_as_it_is():
    line = changed(images=["a.png"])
    line["input"] = "<image> What does <image> mean?"
    assert BENCHMARK.read_line(line).question == (
        Segment(text=line["input"]),
        Segment(image="a.png"),
    )


def test_groups_are_dataset_task_and_level():
    groups = BENCHMARK.read_line(ONE).groups
    assert groups == {"dataset": ("ActionLocalization",), "task": ("T-1",), "level": ("few",)}


@pytest.mark.parametrize(
    ("question", "depth"),
    [
        pytest.param("1234567" + "." * 13, 0, id="at-the-beginning"),
        pytest.param("." * 10 + "1234567...", 0.5, id="in-the-middle"),
        pytest.param("." * 20, None, id="in-a-picture"),
        pytest.param("", None, id="not-logged"),
    ],
)
def test_the_depth_of_a_needle_is_its_position(question, depth):
    needle = next(line for line in LINES if line["record"]["rule"] == "needle")
    line = changed(needle, gold="1234567", images=["a", "b"])
    line["input"] = question
    read = BENCHMARK.read_line(line)
    assert read.needle == Needle(length=2, depth=depth)
    assert read.properties["needle_length"] == 2
    assert read.properties.get("needle_depth") == depth


def test_only_needles_have_a_depth():
    read = BENCHMARK.read_line(ONE)
    assert read.needle is None
    assert not {"needle_length", "needle_depth"} & read.properties.keys()


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"rule": ["choice"]}, "rule", id="rule"),
        pytest.param({"rule": "judge"}, "rule", id="unknown-rule"),
        pytest.param({"dataset": 3}, "dataset", id="dataset"),
        pytest.param({"level": None}, "level", id="level"),
        pytest.param({"gold": 3}, "gold", id="gold"),
        pytest.param({"images": "a.png"}, "images", id="images"),
        pytest.param({"images": [3]}, "images", id="image"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, named):
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(changed(**fields))


def test_an_answer_that_is_no_text_is_named():
    with pytest.raises(BadRecord, match="filtered_resps"):
        BENCHMARK.read_line({**ONE, "filtered_resps": {"a": 1}})


@pytest.mark.parametrize("reason", ["no_answer", "not_text", "bad_image"])
def test_a_sample_without_an_answer_stays_unscored(reason):
    row = {"reason": reason, "detail": "why"}
    record = regraded(changed(official=row, robust=row))
    assert record.official == record.robust == Unscored(reason, "why")


def test_a_sample_without_a_gold_is_scored_again():
    row = {"reason": "bad_gold", "detail": "?"}
    assert regraded(changed(official=row, robust=row)).robust == Scored(1.0, "A")


def test_the_log_has_the_files_at_the_placeholders_of_the_prompt():
    for doc in dataset("DocVQA", {"MILEBENCH_DATA": str(DATA)}):
        assert list(benchmark.process_results(doc, ["A"])["record"]["images"]) == doc["images"]
