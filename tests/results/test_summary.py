"""The headline of a task, its numbers for the results file, and notes for the log."""

from __future__ import annotations

from dataclasses import replace
from itertools import zip_longest

import pytest
from support.golden import vectors
from support.judgements import replied
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.records import changed, record_of
from support.signatures import signature_from
from support.unloaded_benchmark import varied

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.core.verdict import Scored, Unscored, Verdict
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.summary import last_line, notes_of, numbers_of

REPLY = JudgeReply(
    text="4", model="grader-1", usage=Usage(input_tokens=1_000, output_tokens=2, cost_usd=0.5)
)


def run_of(*verdicts: Verdict, task: str = "mmie", robust: Verdict | None = None) -> TaskRun:
    """A run with these official verdicts."""
    benchmark = benchmark_of_task(task)
    assert benchmark is not None
    samples = tuple(
        record_of(
            str(n),
            verdict,
            robust,
            groups={"category": ("SA",)},
            signature=signature_from("judge:openai|model:gpt-4o|paper_judge:no"),
        )
        for n, verdict in enumerate(verdicts)
    )
    return TaskRun(task=task, benchmark=benchmark, records=samples)


LINES = {
    "mmie": lambda: mmie_lines(120, unscored=0.05, in_proportion=True),
    "mmie_sa": lambda: (line for line in mmie_lines(90) if line["id"].startswith("SA")),
    "milebench": lambda: milebench_lines(2),
    "mia_bench": lambda: mia_lines(60),
}


@pytest.mark.parametrize("task", LINES)
def test_the_results_file_has_the_names_and_numbers_of_an_earlier_version(task: str) -> None:
    """A changed name or number is a change for scripts that read results files."""
    benchmark = benchmark_of_task(task)
    assert benchmark is not None
    records = tuple(map(Record.of_line, LINES[task]()))
    numbers = numbers_of(TaskRun(task=task, benchmark=benchmark, records=records))
    earlier = vectors("results_numbers")[task]
    assert {name: numbers.get(name) for name in earlier} == pytest.approx(earlier, abs=1e-9)
    assert numbers.keys() - earlier.keys() <= {"shown_images"}


def test_the_headline_has_what_people_quote() -> None:
    points = [*[Scored(6.0)] * 5, *[Scored(0.0)] * 5]
    run = run_of(*points, Unscored("left_out"), Unscored("unavailable"))
    scores = ("50.00 [11.53, 88.47]", "50.00", "10 of 11, 1 left out")
    why = "1 unscored: unavailable; 12 of 20,103 samples; judge: gpt-4o, not the paper's"
    assert last_line(run, "a model") == ("mmie", "a model", *scores, "gpt-4o", why)


@pytest.mark.parametrize(
    ("verdicts", "robust", "reason"),
    [
        ([Scored(6.0), Unscored("unavailable")], None, "no official score: only 1 of 2"),
        ([Scored(6.0)], Unscored("unparsed"), "no robust score: no sample has a score"),
        ([Unscored("left_out")], None, "no official score: no sample has a score"),
        ([Scored(6.0)], None, "1 of 20,103 samples;"),
    ],
)
def test_a_headline_without_a_score_has_the_reason(
    verdicts: list[Verdict], robust: Verdict | None, reason: str
) -> None:
    assert last_line(run_of(*verdicts, robust=robust), "")[-1].startswith(reason)


def test_samples_that_the_official_script_leaves_out_are_named_and_do_not_count() -> None:
    run = run_of(Scored(1.0), Unscored("left_out"))
    assert last_line(run, "")[4] == "1 of 1, 1 left out"
    numbers = numbers_of(run)
    assert (numbers["scored"], numbers["samples"], numbers["left_out"]) == (1, 1, 1)
    assert "unscored_left_out" not in numbers


def test_numbers_have_a_score_of_zero_and_no_other_zero() -> None:
    scores = {f"{kind}{group}": 0 for kind in ("official", "robust") for group in ("", "_SA")}
    counts = {"samples": 1, "samples_SA": 1}
    assert numbers_of(run_of(Unscored("unavailable"))) == {
        **counts,
        "unscored_unavailable": 1,
        "robust_unscored_unavailable": 1,
    }
    numbers = numbers_of(run_of(Scored(0.0)))
    assert {name: value for name, value in numbers.items() if not value} == scores


def test_notes_name_reasons_differences_replies_and_signatures_and_no_zeros() -> None:
    run = run_of(Scored(1.0), Unscored("unavailable"), Unscored("unavailable"), robust=Scored(2.0))
    plain = replace(
        run, benchmark=varied(run.benchmark, notes=lambda _: ["a note of the benchmark"])
    )
    replies = (REPLY, replace(REPLY, cached=True, model="grader-2"))
    assert list(notes_of(with_replies(plain, *replies))) == [
        "no official score: only 1 of 3 samples have a score",
        "without official score: unavailable (2); without robust score: none",
        "official and robust scores differ: 3",
        "a note of the benchmark",
        "replies: grader-1 (1), grader-2 (1); 1 from the cache; 2,000 tokens in, 4 out, 1.0000 USD",
        "judge:openai|model:gpt-4o|paper_judge:no",
    ]
    full = run_of(*[Unscored("no_answer", "HTTP 400: too long")] * 2, Unscored("refused", "x"))
    assert "2 unscored because: HTTP 400: too long" in notes_of(full)
    of_unknown_cost = with_replies(plain, replace(REPLY, usage=Usage()))
    assert any(line.endswith("cost unknown") for line in notes_of(of_unknown_cost))


def with_replies(run: TaskRun, *replies: JudgeReply) -> TaskRun:
    """The run; the first samples have these replies."""
    pairs = zip_longest(run.records, ((reply,) for reply in replies), fillvalue=())
    samples = (changed(sample, judgements=replied(*own)) for sample, own in pairs)
    return replace(run, records=tuple(samples))
