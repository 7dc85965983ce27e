"""The official scorer against the scores of the official script, and against its ROUGE package."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge import Rouge
from support.golden import vectors

from mmie_tasks.benchmarks.milebench import official
from mmie_tasks.benchmarks.milebench.benchmark import BENCHMARK, scored_fields
from mmie_tasks.benchmarks.milebench.sample import MileSample, rule_of
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.metrics import weighted_mean

GOLDEN = vectors("milebench")


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["id"])
def test_points_and_label_are_the_official_ones_and_an_error_is_unscored(case):
    pair, expected = (case["gt_response"], case["pred_response"]), case["expected"]
    if case["scorer"] == "rouge":
        verdict = official.score_rouge(*pair)
    elif case["scorer"] == "multi_choice":
        verdict = official.score_choice(*pair, case["choice_list"])
    elif "Needle" in case["dataset"]:
        verdict = official.score_needle(*pair)
    else:
        verdict = official.score_substring(*pair)
    if expected["raises"] is None:
        assert verdict.points == pytest.approx(expected["score"], abs=1e-12)
        assert verdict.reading == expected.get("extracted", verdict.reading)
    elif case.get("env_dependent"):  # it only reaches the recursion limit
        assert isinstance(verdict, Scored)
    else:
        assert isinstance(verdict, Unscored)


@pytest.mark.parametrize("pair", GOLDEN["normaliser"], ids=lambda pair: repr(pair["in"])[:30])
def test_the_normaliser_is_the_official_one(pair):
    once = official.normalise(pair["in"])
    assert (once, official.normalise(once)) == (pair["process"], pair["process_twice"])


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


few_words = st.lists(
    st.sampled_from(["a", "b", "c", "d", "1.5", ".", ".."]), min_size=1, max_size=14
)


@given(few_words, few_words)
def test_rouge_l_is_that_of_the_package_the_official_script_calls(hypothesis, reference):
    ours = official.rouge_l(" ".join(hypothesis), " ".join(reference))
    try:
        theirs = Rouge().get_scores(" ".join(hypothesis), " ".join(reference))
    except ValueError:
        assert isinstance(ours, Unscored)
    else:
        assert ours.points == theirs[0]["rouge-l"]["f"]
