"""Both scores of a judge's replies, what a sample adds to each metric, and what is noted of it."""

import math
import statistics
from collections import defaultdict

import pytest
from support.golden import vectors
from support.judgements import result_of
from support.mia_replies import SENTENCE

from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.metrics import METRICS, SCALE, groups, reply_facts
from mmie_tasks.benchmarks.mia_bench.official import TOTAL
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, MiaSample
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

TABLE = RunnerTable(metrics=METRICS, scale=SCALE)
SOUND = "score of component 1: 3/6, score of component 2: 4/4, total score: 7/10. Fine."
OTHER = "score of component 1: 6/6, score of component 2: 2/4, total score: 8/10. Fine."
IMPOSSIBLE = "score of component 1: 9/6, score of component 2: 4/4, total score: 13/10. Fine."


def sample(weights=(6, 4), categories=("describe", "mention")):
    fields = {"id": "3", "instruction": "Name it in red.", "type": "complex"}
    components = tuple("abcde"[: len(weights)])
    return MiaSample(**fields, components=components, weights=weights, categories=categories)


def judged(*results, of=None):
    """The record of a sample with these results of its judges."""
    of = of or sample()
    judgements = []
    for number, result in enumerate(results):
        verdicts = BENCHMARK.grade({"categories": of.categories, "weights": of.weights}, result)
        judge = Signature(judges=({"judge": f"{number}"},))
        judgements.append(Judgement(judge=judge, result=result, verdicts=verdicts))
    of_groups = {k: (v,) if isinstance(v, str) else v for k, v in groups(of).items()}
    record = Record(id=of.id, groups=of_groups, verdicts=NOT_JUDGED).judged(judgements)
    return record.model_copy(update={"facts": reply_facts(of, record)})


def test_scores_and_shares_of_categories_are_in_percent():
    table = TABLE.rows(judged(result_of(SENTENCE)))
    scores = {name: row.get("score") for name, row in table.items() if name != "record" and row}
    assert scores == {
        "coverage": None,
        **dict.fromkeys(("official", "robust", "official_clean", "official_complex"), 80.0),
        "official_describe": 100.0,
        "official_mention": 50.0,
    }


def test_a_repeated_category_is_the_last_officially_and_the_mean_robustly():
    repeated = sample((4, 3, 3), ("mention", "grammar", "mention"))
    text = "component 1: 4/4, component 2: 0/3, component 3: 0/3, total score: 4/10."
    shares = judged(result_of(text), of=repeated).verdicts.shares
    assert (shares["official"]["mention"], shares["robust"]["mention"]) == (0, 0.5)


@pytest.mark.parametrize(
    ("result", "official", "robust"),
    [
        pytest.param(result_of(SENTENCE.replace(", ", "\n")), "unparsed", 80, id="robust-only"),
        pytest.param(result_of("a: 9/6, b: 4/4, c: 13/10. Off."), 130, "unparsed", id="off-scale"),
        pytest.param(result_of(IMPOSSIBLE, SOUND), 130, 70, id="the-first-and-the-last-reply"),
        pytest.param(result_of(SOUND, IMPOSSIBLE), 70, 70, id="a-needless-second-reply"),
        pytest.param(result_of(SENTENCE, finish="length"), "cut_off", "cut_off", id="cut-off"),
        pytest.param(result_of(), "unavailable", "unavailable", id="no-reply"),
    ],
)
def test_what_replies_give(result, official, robust):
    verdicts = judged(result).verdicts
    for kind, expected in (("official", official), ("robust", robust)):
        verdict = verdicts.verdict(kind)
        if isinstance(expected, str):
            assert (verdict.reason, kind in verdicts.shares) == (expected, False)
        else:
            assert (verdict.points, kind in verdicts.shares) == (pytest.approx(expected), True)


def test_a_contradictory_sample_is_not_clean(monkeypatch):
    assert groups(sample())["clean"] == "clean"
    monkeypatch.setattr(MiaSample, "contradictory", True)
    assert "clean" not in groups(sample())


def test_every_category_and_type_has_a_number():
    assert {number.name for number in METRICS} == {"", "clean", *CATEGORIES, *TYPES}
    assert all(math.isclose(sum(number.weights.values()), 1) for number in METRICS)


def test_each_component_is_shown_with_its_mark_and_what_it_asks():
    facts = {"component_1": "describe 3/6: a", "component_2": "mention 4/4: b"}
    facts["component_total"] = pytest.approx(70)
    assert judged(result_of(SOUND)).facts == facts
    assert judged(result_of(SOUND.replace("7/10", "9/10"))).facts == facts | {"unsound_totals": 1}
    assert judged(result_of(IMPOSSIBLE, SOUND)).facts == facts | {"requested_twice": 1}
    for result in (result_of("nothing"), result_of()):
        assert judged(result).facts["component_2"] == "mention -/4: b"


def test_a_panels_sample_has_the_mean_and_the_marks_of_its_judges():
    record = judged(result_of(IMPOSSIBLE, SOUND), result_of(OTHER))
    assert (record.official.points, record.robust.points) == ((130 + 80) / 2, 75)
    assert record.verdicts.shares["robust"] == {"describe": 0.75, "mention": 0.75}
    assert record.facts["component_1"] == "describe 3/6, 6/6: a"
    assert record.facts["requested_twice"] == 1


def test_means_over_the_golden_replies_are_those_of_the_notebook():
    """The mean of each key is over the samples that have it: ``get_score_dict``, cell 4."""
    officially, ours = defaultdict(list), defaultdict(list)
    for case in vectors("mia_bench")["cases"]:
        text = case["reply"] if isinstance(case["reply"], str) else ""
        of = sample(tuple(case["component_weight"]), tuple(case["component_type"]))
        for line, row in TABLE.rows(judged(result_of(text), of=of)).items():
            ours[line] += [row["points"]] if "points" in row else []
        for name, share in (case["official"].get("scores") or {}).items():
            officially["official" if name == TOTAL else f"official_{name}"].append(100 * share)
    assert len(officially) > 2
    for line, points in officially.items():
        assert statistics.fmean(ours[line]) == pytest.approx(statistics.fmean(points))
