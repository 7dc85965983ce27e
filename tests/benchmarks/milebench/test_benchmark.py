"""MileBench's logs: metrics as in the runner's table, and answers scored again."""

import copy
import math

import pytest
from support.example import DATA
from support.logged_runs import milebench_lines

from mmie_tasks.benchmarks.milebench import benchmark
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.milebench.data import dataset
from mmie_tasks.benchmarks.milebench.metrics import TABLE
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import Record
from mmie_tasks.results.scores import score_of

LINES = list(milebench_lines(6))
ONE = next(line for line in LINES if line["record"]["sample"]["rule"] == "choice")


def changed(line=ONE, **fields):
    line = copy.deepcopy(line)
    line["record"].update(fields)
    return line


def regraded(line):
    return BENCHMARK.regraded(Record.of_line(line))


def test_a_total_without_all_of_its_datasets_has_no_value():
    lines = [line for line in LINES if line["record"]["groups"]["dataset"] != ("DocVQA",)]
    real, diag = BENCHMARK.metrics[:2]
    samples = [Record.of_line(line) for line in lines]
    assert score_of(BENCHMARK, "milebench", samples, real, "official").percent is None
    rows = [TABLE.rows(record)["official_real"] for record in samples]
    assert math.isnan(benchmark.real(rows))
    assert score_of(BENCHMARK, "milebench", samples, diag, "official").percent is not None


DOCVQA, NEEDLE = (
    dict(dataset(name, {"MILEBENCH_DATA": str(DATA)})[0])
    for name in ("DocVQA", "TextNeedleInAHaystack")
)


def record_of(doc, answer="A"):
    return Record.model_validate(benchmark.process_results(doc, [answer])["record"])


def test_the_record_has_groups_facts_and_the_question_with_its_images_in_place():
    record = record_of(DOCVQA)
    assert record.groups == {"dataset": ("DocVQA",), "task": ("S-2",), "level": ("medium",)}
    assert [segment.image for segment in record.question if segment.image] == DOCVQA["images"]
    assert (record.facts["rule"], record.facts["images"]) == ("choice", len(DOCVQA["images"]))
    assert record.facts["option"] == "A"
    assert "option" not in record_of(DOCVQA, "Please try again later.").facts
    assert not {"needle_length", "needle_depth"} & record.facts.keys()


@pytest.mark.parametrize(
    ("context", "depth"),
    [
        pytest.param("1234567" + "." * 12, 0.05, id="at-the-beginning"),
        pytest.param("." * 9 + "1234567...", 0.5, id="in-the-middle"),
        pytest.param("." * 19, None, id="in-a-picture"),
    ],
)
def test_the_depth_of_a_needle_is_its_position(context, depth):
    """The prompt has a line end before the context."""
    doc = {
        **NEEDLE,
        "gold": "1234567",
        "images": [],
        "instruction": "",
        "context": context,
        "choices": [],
    }
    facts = record_of(doc).facts
    assert facts["needle_length"] == 0
    assert facts.get("needle_depth") == depth


@pytest.mark.parametrize("reason", ["no_answer", "not_text", "bad_image"])
def test_a_sample_without_an_answer_stays_unscored(reason):
    row = {"reason": reason, "detail": "why"}
    record = regraded(changed(verdicts={"official": row, "robust": row}))
    assert record.official == record.robust == Unscored(reason, "why")


def test_a_sample_without_a_gold_is_scored_again():
    row = {"reason": "bad_gold", "detail": "?"}
    assert regraded(changed(verdicts={"official": row, "robust": row})).robust == Scored(1.0, "A")
