"""The official scorer against the scores of the official script, and against its ROUGE package."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge import Rouge
from support.golden import vectors

from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK, scored_fields
from mmie_tasks.benchmarks.milebench.official import (
    normalise,
    rouge_l,
    score_choice,
    score_needle,
    score_rouge,
    score_substring,
)
from mmie_tasks.benchmarks.milebench.sample import MileSample, rule_of
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import weighted_mean

GOLDEN = vectors("milebench")


def verdict_on(case):
    gold, answer = case["gt_response"], case["pred_response"]
    if case["scorer"] == "rouge":
        return score_rouge(gold, answer)
    if case["scorer"] == "multi_choice":
        return score_choice(gold, answer, case["choice_list"])
    return (score_needle if "Needle" in case["dataset"] else score_substring)(gold, answer)


def by_id(cases):
    return [pytest.param(case, id=case["id"]) for case in cases]


SCORED = [case for case in GOLDEN["cases"] if case["expected"]["raises"] is None]
RAISING = [case for case in GOLDEN["cases"] if case["expected"]["raises"]]


@pytest.mark.parametrize("case", by_id(SCORED))
def test_points_and_label_are_the_official_ones(case):
    verdict, expected = verdict_on(case), case["expected"]
    assert verdict.points == pytest.approx(expected["score"], abs=1e-12)
    if "extracted" in expected:
        assert verdict.reading == expected["extracted"]


@pytest.mark.parametrize("case", by_id(c for c in RAISING if not c.get("env_dependent")))
def test_an_answer_that_raises_in_the_official_code_is_unscored(case):
    assert isinstance(verdict_on(case), Unscored)


@pytest.mark.parametrize("case", by_id(c for c in GOLDEN["cases"] if c.get("env_dependent")))
def test_an_answer_that_only_reaches_the_recursion_limit_is_scored(case):
    assert isinstance(verdict_on(case), Scored)


@pytest.mark.parametrize("pair", GOLDEN["normaliser"], ids=lambda pair: repr(pair["in"])[:30])
def test_the_normaliser_is_the_official_one(pair):
    once = normalise(pair["in"])
    assert (once, normalise(once)) == (pair["process"], pair["process_twice"])


def aggregate_samples(case):
    for i, entry in enumerate(case["samples"]):
        kind = "multi-choice" if case["scorer"] == "multi_choice" else "open-ended"
        sample = MileSample(
            dataset=case["dataset"],
            sample_id=str(i),
            rule=rule_of(case["dataset"], kind),
            instruction="",
            context="",
            images=("x",) * entry["n_images"],
            gold=entry["gt"],
            choices=tuple(entry.get("choices", ())),
        )
        yield sample, None if entry.get("drop_pred") else entry["pred"]


@pytest.mark.parametrize("case", GOLDEN["aggregates"], ids=lambda case: case["name"])
def test_dataset_and_level_means_are_the_official_ones(case):
    read = [
        (sample, BENCHMARK.score(scored_fields(sample), answer).official)
        for sample, answer in aggregate_samples(case)
    ]
    whole = weighted_mean({"": [verdict for _, verdict in read]}, {"": 1.0}, floor=0)
    expected = case["expected"]
    if expected.get("raises"):
        assert not read or any(isinstance(verdict, Unscored) for _, verdict in read)
        return
    result = expected["eval_result"]
    score = result.get("Accuracy", result.get("Rouge-L f"))
    assert whole.value == pytest.approx(score, abs=1e-12)
    for level, (points, n) in result["image_quantity_level-Result"].items():
        at = [verdict for sample, verdict in read if sample.level == level.lower()]
        scored = [verdict.points for verdict in at if isinstance(verdict, Scored)]
        assert (len(scored), sum(scored)) == (n, pytest.approx(points))


texts = st.text(max_size=60)
few_words = st.lists(
    st.sampled_from(["a", "b", "c", "d", "1.5", ".", ".."]), min_size=1, max_size=14
)


@given(few_words, few_words)
def test_rouge_l_is_that_of_the_package_the_official_script_calls(hypothesis, reference):
    ours = rouge_l(" ".join(hypothesis), " ".join(reference))
    try:
        theirs = Rouge().get_scores(" ".join(hypothesis), " ".join(reference))
    except ValueError:
        assert isinstance(ours, Unscored)
    else:
        assert ours.points == theirs[0]["rouge-l"]["f"]


@given(texts, st.lists(texts, min_size=1, max_size=6), st.data())
def test_any_text_gets_a_verdict_on_the_scale(answer, options, data):
    gold = data.draw(st.sampled_from(options))
    for verdict in (
        score_choice(gold, answer, options),
        score_rouge(gold, answer),
        score_needle(gold, answer),
        score_substring(gold, answer),
    ):
        assert isinstance(verdict, Unscored) or 0 <= verdict.points <= 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param("word " * 40_000, id="words"),
        pytest.param("." * 200_000, id="periods"),
        pytest.param("(.*)+$^|[" * 20_000, id="regex characters"),
    ],
)
def test_a_long_answer_is_scored(answer):
    options = [f"image{k}" for k in range(1, 64)]
    assert isinstance(score_choice("image9", answer, options), Scored)
    assert isinstance(score_needle("7984462", answer), Scored)
    assert isinstance(score_rouge("the red mug is on the table", answer), (Scored, Unscored))
