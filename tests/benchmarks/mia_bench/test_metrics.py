"""What one sample adds to which number, and the run in words."""

import pytest
from support.golden import vectors
from support.mia_official import score_dict
from support.mia_replies import SENTENCE

from mmie_tasks.benchmarks.mia_bench.metrics import Grading, certain, rows, summary, ungraded
from mmie_tasks.benchmarks.mia_bench.official import TOTAL, read_official
from mmie_tasks.benchmarks.mia_bench.robust import read_robust
from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.core.verdict import Unscored, mean_of, tally, verdict_of

REPLY = {
    "text": "",
    "model": "grader-1",
    "finish": "stop",
    "cached": False,
    "usage": {"input_tokens": 10, "output_tokens": 2, "reasoning_tokens": 0, "cost_usd": 0.5},
}


def sample(weights=(6, 4), categories=("describe", "mention")):
    return Sample(
        id="3",
        instruction="Name it in red.",
        type="complex",
        components=tuple(f"part {i}" for i in range(len(weights))),
        weights=tuple(weights),
        categories=tuple(categories),
    )


def graded(text, of=None):
    of = of or sample()
    return Grading(
        official=read_official(of.categories, text), official_text=text, robust=read_robust(of, text), robust_text=text
    )


def logged(**changes):
    return {"signature": "judge:x", "replies": [REPLY], **changes}


def score(row):
    return verdict_of(row).points


def test_official_and_robust_scores_are_in_percent():
    made = rows(sample(), graded(SENTENCE), logged())
    assert (score(made["official"]), score(made["robust"])) == (80.0, 80.0)
    assert score(made["official_mention"]) == score(made["robust_mention"]) == 50.0
    assert score(made["official_complex"]) == score(made["official_clean"]) == 80.0
    assert made["differ"] == {"differ": False}


def test_a_repeated_category_is_the_last_officially_and_the_mean_robustly():
    repeated = sample((4, 3, 3), ("mention", "grammar", "mention"))
    text = "a: 4/4, b: 0/3, c: 0/3, total score: 4/10."
    text = text.replace("a:", "component 1:").replace("b:", "component 2:")
    made = rows(repeated, graded(text.replace("c:", "component 3:"), repeated), logged())
    assert (score(made["official_mention"]), score(made["robust_mention"])) == (0.0, 50.0)


def test_what_only_the_robust_reader_reads_differs():
    made = rows(sample(), graded(SENTENCE.replace(", ", "\n")), logged())
    assert made["differ"] == {"differ": True}
    assert verdict_of(made["official_describe"]).reason == "unparsed"
    assert score(made["robust_describe"]) == 100.0
    assert made["unscored_unparsed"] == {"id": "3"}


def test_an_answer_that_is_not_judged_has_every_row_and_no_score():
    made = rows(sample(), ungraded("no_answer", "the API failed"), logged(replies=[]))
    assert set(made) == {*certain(sample()), "unscored_no_answer"}
    assert not any("score" in row for row in made.values())


def test_a_reply_that_was_cut_off_gives_no_category_either():
    cut = Unscored("cut_off", "")
    grading = Grading(official=cut, official_text=SENTENCE, robust=cut, robust_text=SENTENCE)
    made = rows(sample(), grading, logged())
    assert made["coverage"]["parts"] == {"official": {}, "robust": {}}
    assert "score" not in made["robust_describe"]


def test_a_contradictory_sample_is_not_clean(monkeypatch):
    monkeypatch.setattr(Sample, "contradictory", True)
    made = rows(sample(), graded(SENTENCE), logged())
    assert "official" in made
    assert not {"official_clean", "robust_clean"} & (set(made) | set(certain(sample())))


def test_the_certain_rows_are_those_that_are_made():
    repeated = sample((4, 3, 3), ("mention", "grammar", "mention"))
    for of in (sample(), repeated):
        assert set(rows(of, graded(SENTENCE), logged())) - {"unscored_unparsed"} == {*certain(of)}


def test_means_over_the_golden_replies_are_those_of_the_notebook():
    cases = vectors("mia_bench")["cases"]
    made = []
    for case in cases:
        of = sample(case["component_weight"], case["component_type"])
        text = case["reply"] if isinstance(case["reply"], str) else ""
        made.append(rows(of, graded(text, of), logged()))
    expected = score_dict(c["official"]["scores"] for c in cases if c["official"]["ok"])
    found = {
        name: tally(verdict_of(row[f"official_{name}"]) for row in made if f"official_{name}" in row)
        for name in expected
        if name != TOTAL
    }
    found[TOTAL] = tally(verdict_of(row["official"]) for row in made)
    assert {name: of.mean for name, of in found.items()} == pytest.approx(
        {name: 100 * value for name, value in expected.items()}
    )


def test_below_the_floor_of_coverage_there_is_no_mean():
    good, bad = graded(SENTENCE), ungraded("unavailable", "down")
    verdicts = [verdict_of(rows(sample(), g, logged())["official"]) for g in [good] * 4 + [bad]]
    assert mean_of(tally(verdicts)).value is None


def test_the_summary_names_judge_cost_and_unscored_samples():
    made = [
        rows(sample(), graded(SENTENCE), logged()),
        rows(sample(), graded(SENTENCE.replace("8/10", "9/10")), logged(replies=[REPLY, REPLY])),
        rows(sample(), ungraded("unavailable", "down"), logged(replies=[])),
    ]
    text = summary([row["coverage"] for row in made])
    assert "n/a" in text.splitlines()[1]  # two of three are below the floor
    for words in (
        "without official score: unavailable 1",
        "not that of its parts: 1",
        "requested twice: 1",
        "grader-1 (3)",
        "30 tokens in, 6 out, 1.5000 USD",
        "judge:x",
    ):
        assert words in text
