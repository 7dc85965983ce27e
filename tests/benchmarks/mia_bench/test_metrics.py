"""What one sample adds to which line of the table, and the counts of a run."""

import pytest
from support.golden import vectors
from support.mia_replies import SENTENCE

from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.metrics import METRICS, SCALE, groups
from mmie_tasks.benchmarks.mia_bench.official import TOTAL
from mmie_tasks.benchmarks.mia_bench.sample import MiaSample
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

TABLE = RunnerTable(metrics=METRICS, scale=SCALE)


def score_dict(sample_scores):
    """The mean of each key over the samples that have it, as ``get_score_dict`` (notebook, cell
    4).
    """
    values = {}
    for scores in sample_scores:
        for key, value in scores.items():
            values.setdefault(key, []).append(value)
    return {key: sum(of_key) / len(of_key) for key, of_key in values.items()}


def sample(weights=(6, 4), categories=("describe", "mention")):
    return MiaSample(
        id="3",
        instruction="Name it in red.",
        type="complex",
        components=tuple(f"part {i}" for i in range(len(weights))),
        weights=tuple(weights),
        categories=tuple(categories),
    )


def result_of(text, finish="stop"):
    return JudgeResult(reply=JudgeReply(text=text, model="m", finish=finish))


NO_ANSWER = JudgeResult(failure=Unscored("no_answer", "the API failed"))


def grade(of, result):
    return BENCHMARK.grade({"categories": of.categories, "weights": of.weights}, result)


def record(of, result):
    judgement = Judgement(judge=Signature(), result=result, verdicts=grade(of, result))
    of_groups = {k: (v,) if isinstance(v, str) else v for k, v in groups(of).items()}
    return Record(id=of.id, groups=of_groups, verdicts=NOT_JUDGED).judged([judgement])


def rows(of, result):
    return TABLE.rows(record(of, result))


def share_of(of, text, kind, name):
    """The share of full marks for a category, in percent."""
    return 100 * grade(of, result_of(text)).shares[kind][name]


def test_official_and_robust_scores_are_in_percent():
    table = rows(sample(), result_of(SENTENCE))
    assert (table["official"]["score"], table["robust"]["score"]) == (80.0, 80.0)
    assert (
        table["official_mention"]["score"]
        == share_of(sample(), SENTENCE, "robust", "mention")
        == 50.0
    )
    assert table["official_complex"]["score"] == 80.0
    assert (table["official_basic"], table["official_grammar"]) == ({}, {})


def test_a_repeated_category_is_the_last_officially_and_the_mean_robustly():
    repeated = sample((4, 3, 3), ("mention", "grammar", "mention"))
    text = "a: 4/4, b: 0/3, c: 0/3, total score: 4/10."
    text = text.replace("a:", "component 1:").replace("b:", "component 2:")
    text = text.replace("c:", "component 3:")
    assert rows(repeated, result_of(text))["official_mention"]["score"] == 0.0
    assert share_of(repeated, text, "robust", "mention") == 50.0


def test_what_only_the_robust_reader_reads_differs():
    text = SENTENCE.replace(", ", "\n")
    table = rows(sample(), result_of(text))
    assert table["official_describe"]["unscored"] == table["official"]["unscored"] == "unparsed"
    assert share_of(sample(), text, "robust", "describe") == 100.0


def test_an_answer_that_is_not_judged_has_every_row_and_no_score():
    table = rows(sample(), NO_ANSWER)
    assert set(table) == {"record", *TABLE.names}
    assert not any("score" in row for row in table.values())


def test_a_reply_that_was_cut_off_gives_no_category_either():
    table = rows(sample(), result_of(SENTENCE, finish="length"))
    assert "shares" not in table["record"]["verdicts"]
    assert "score" not in table["official_describe"]


def test_a_contradictory_sample_is_not_clean(monkeypatch):
    assert groups(sample())["clean"] == "clean"
    monkeypatch.setattr(MiaSample, "contradictory", True)
    assert "clean" not in groups(sample())


def test_means_over_the_golden_replies_are_those_of_the_notebook():
    cases = vectors("mia_bench")["cases"]
    tables = []
    for case in cases:
        of = sample(case["component_weight"], case["component_type"])
        text = case["reply"] if isinstance(case["reply"], str) else ""
        tables.append(rows(of, result_of(text)))
    expected = score_dict(c["official"]["scores"] for c in cases if c["official"]["ok"])
    means = {}
    for name in expected:
        line = "official" if name == TOTAL else f"official_{name}"
        points = [row["points"] for table in tables if "points" in (row := table[line])]
        means[name] = sum(points) / len(points)
    assert means == pytest.approx({name: 100 * value for name, value in expected.items()})
