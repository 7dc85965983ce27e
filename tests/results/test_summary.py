"""The headline of a task, its numbers for the results file, and notes for the log."""

from dataclasses import replace
from itertools import zip_longest

import pytest
from support.golden import vectors
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.records import record_of
from support.signatures import signature_from
from support.unloaded_benchmark import varied

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.summary import last_line, notes_of, numbers_of

USAGE = Usage(input_tokens=1_000, output_tokens=2, cost_usd=0.5)
SIGNATURE = "judge:openai|model:gpt-4o|paper_judge:no"


def run_of(*verdicts, robust=None, replies=()):
    """A run with these official verdicts; its first samples have these replies."""
    of_samples = zip_longest(verdicts, map(replied, replies), fillvalue=())
    fields = {"groups": {"category": ("SA",)}, "signature": signature_from(SIGNATURE)}
    samples = tuple(
        record_of(str(n), verdict, robust, judgements=judgements, **fields)
        for n, (verdict, judgements) in enumerate(of_samples)
    )
    return TaskRun(task="mmie", benchmark=benchmark_of_task("mmie"), records=samples)


LINES = {
    "mmie": lambda: mmie_lines(120, unscored=0.05, in_proportion=True),
    "mmie_sa": lambda: (line for line in mmie_lines(90) if line["id"].startswith("SA")),
    "milebench": lambda: milebench_lines(2),
    "mia_bench": lambda: mia_lines(60),
}


@pytest.mark.parametrize("task", LINES)
def test_the_results_file_has_the_names_and_numbers_of_an_earlier_version(task):
    """A changed name or number is a change for scripts that read results files."""
    records = tuple(map(Record.of_line, LINES[task]()))
    run = TaskRun(task=task, benchmark=benchmark_of_task(task), records=records)
    numbers = numbers_of(run)
    earlier = vectors("results_numbers")[task]
    assert {name: numbers.get(name) for name in earlier} == pytest.approx(earlier, abs=1e-9)
    assert numbers.keys() - earlier.keys() <= {"shown_images"}


def test_the_headline_has_what_people_quote_and_what_the_official_script_leaves_out():
    points = [*[Scored(6.0)] * 5, *[Scored(0.0)] * 5]
    run = run_of(*points, Unscored("left_out"), Unscored("unavailable"))
    scores = ("50.00 [11.53, 88.47]", "50.00", "10 of 11, 1 left out")
    why = "1 unscored: unavailable; 12 of 20,103 samples; judge: gpt-4o, not the paper's"
    assert last_line(run, "a model") == ("mmie", "a model", *scores, "gpt-4o", why)
    numbers = numbers_of(run)
    assert (numbers["scored"], numbers["samples"], numbers["left_out"]) == (10, 11, 1)
    assert "unscored_left_out" not in numbers


@pytest.mark.parametrize(
    ("verdicts", "robust", "reason"),
    [
        ([Scored(6.0), Unscored("unavailable")], None, "no official score: only 1 of 2"),
        ([Scored(6.0)], Unscored("unparsed"), "no robust score: no sample has a score"),
        ([Unscored("left_out")], None, "no official score: no sample has a score"),
        ([Scored(6.0)], None, "1 of 20,103 samples;"),
    ],
)
def test_a_headline_without_a_score_has_the_reason(verdicts, robust, reason):
    assert last_line(run_of(*verdicts, robust=robust), "")[-1].startswith(reason)


def test_numbers_have_a_score_of_zero_and_no_other_zero():
    scores = {f"{kind}{group}": 0 for kind in ("official", "robust") for group in ("", "_SA")}
    counts = "samples", "samples_SA", "unscored_unavailable", "robust_unscored_unavailable"
    assert numbers_of(run_of(Unscored("unavailable"))) == dict.fromkeys(counts, 1)
    numbers = numbers_of(run_of(Scored(0.0)))
    assert {name: value for name, value in numbers.items() if not value} == scores


def test_notes_name_reasons_differences_replies_and_signatures_and_no_zeros():
    verdicts = Scored(1.0), Unscored("unavailable"), Unscored("unavailable")
    first = JudgeReply(text="4", model="grader-1", usage=USAGE)
    replies = first, replace(first, cached=True, model="grader-2")
    run = run_of(*verdicts, robust=Scored(2.0), replies=replies)
    noted = varied(run.benchmark, notes=lambda _: ["a note of the benchmark"])
    assert list(notes_of(replace(run, benchmark=noted))) == [
        "no official score: only 1 of 3 samples have a score",
        "without official score: unavailable (2); without robust score: none",
        "official and robust scores differ: 3 of 3",
        "a note of the benchmark",
        "replies: grader-1 (1), grader-2 (1); 1 from the cache; 2,000 tokens in, 4 out, 1.0000 USD",
        SIGNATURE,
    ]
    full = run_of(*[Unscored("no_answer", "HTTP 400: too long")] * 2, Unscored("refused", "x"))
    assert "2 unscored because: HTTP 400: too long" in notes_of(full)
    of_unknown_cost = run_of(Scored(1.0), replies=[replace(first, usage=Usage())])
    assert any(line.endswith("cost unknown") for line in notes_of(of_unknown_cost))
