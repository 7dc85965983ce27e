"""The functions that the task file names, with a replayed judge, and both scores of its replies."""

import pytest
from PIL import Image
from support.judgements import result_of
from support.opening_data import EXAMPLE, reply

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks.opening import benchmark, metrics
from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK, grade
from mmie_tasks.benchmarks.opening.data import dataset
from mmie_tasks.benchmarks.opening.official import METRICS
from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.facts import totals
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.record import Record


def docs():
    return {doc["id"]: dict(doc) for doc in dataset({"OPENING_DATA": str(EXAMPLE / "data")})}


def test_the_examples_replies_have_both_scores_and_the_official_table_to_the_digit():
    answers = {answer.id: answer.answer for answer in read_answers([EXAMPLE]).answers}
    records = {
        sample_id: Record.of_line(benchmark.process_results(doc, [answers[sample_id]]))
        for sample_id, doc in docs().items()
    }
    official = {sample_id: record.official for sample_id, record in records.items()}
    assert official.pop("1101004").reason == "left_out"
    points = {sample_id: round(7 * verdict.points) for sample_id, verdict in official.items()}
    expected = {"0101001": 59, "0301002": 56, "0501003": 35, "1402005": 1, "2001006": 51}
    assert points == {**expected, "2301007": 60}
    assert records["1101004"].robust == Scored(36 / 7)
    of_second_reply = records["0501003"].verdicts.shares["official"]
    assert of_second_reply["Content Richness"] == 0.3
    groups = {"topic": ("cooking_tasks",), "subtask": ("recipe_generation",)}
    assert records["2001006"].groups == groups
    noted = totals(record.facts for record in records.values())
    assert noted["pictures_lost"] == noted["without_picture"] == noted["asked_twice"] == 1
    assert noted["other_length"] == 2
    counts = metrics.counts([*records.values()])
    means = (6.5, 6.33, 7.0, 6.0, 7.17, 6.17, 4.5)  # of six replies; the wrapped one is dropped
    assert [counts[f"table_{slug(name)}"] for name in METRICS] == list(means)
    assert BENCHMARK.scale.percent(6.24) == pytest.approx(62.4)
    assert counts["table_overall"] == round(sum(means) / 7, 2) == 6.24
    assert any("Overall 6.24" in line for line in metrics.notes([*records.values()]))


def test_the_signature_names_judge_prompt_pictures_steps_and_data():
    signature = str(BENCHMARK.signature(next(iter(docs().values()))))
    assert signature.startswith("judge:made_up|model:made-up|replayed:")
    for part in (
        *("|paper_judge:no|prompt:other:", ",max_tokens=2000|pillow:"),
        *("|steps:told|", "|task:opening@3-D|data:sha256:"),
    ):
        assert part in signature


def test_the_tested_model_gets_texts_and_pictures_in_order():
    doc = docs()["2001006"]
    (turn,) = benchmark.doc_to_messages(doc)
    content = turn["content"]
    assert [part["type"] for part in content] == ["text", "image", "text", "image"]
    assert isinstance(content[1]["url"], Image.Image)
    text = benchmark.doc_to_text(doc, {"image_token": "[image {n}]"})
    assert text == (
        "Answer in text and pictures.\nAnswer in 3 steps of a text and a picture:\n"
        "I have these apples.\n[image 1]\nAnd this flour.  What can I bake?\n[image 2]"
    )
    assert benchmark.doc_to_target(doc) == "Cut the apples.\nMake a dough.\nBake the cake."
    assert BENCHMARK.picture_limit(doc) == 3


@pytest.mark.parametrize(
    ("replies", "official", "robust"),
    [
        pytest.param([reply(7)], 7, 7, id="one reply"),
        pytest.param(["no", reply(7)], 7, 7, id="asked twice"),
        pytest.param([reply(6), reply(7)], 6, 6, id="a needless second reply"),
        pytest.param([f"Here: {reply(7)}"], "unparsed", 7, id="no second reply"),
        pytest.param([reply(11)], 11, "off_scale", id="off the scale"),
        pytest.param([reply(7)], 7, "cut_off", id="whole JSON at the limit"),
    ],
)
def test_the_last_reply_that_the_official_script_would_ask_for_counts(replies, official, robust):
    finish = "length" if robust == "cut_off" else "stop"
    verdicts = grade(result_of(*replies, finish=finish))
    for kind, expected in (("official", official), ("robust", robust)):
        verdict = verdicts.verdict(kind)
        assert (verdict.points if isinstance(verdict, Scored) else verdict.reason) == expected
        assert (kind in verdicts.shares) is isinstance(verdict, Scored)
