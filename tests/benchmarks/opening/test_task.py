"""The functions that the YAMLs name, with a replayed judge, and what a log of them says."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
import yaml
from PIL import Image
from support.golden import GOLDEN
from support.opening_data import EXAMPLE, reply

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks.opening import benchmark, metrics
from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK, grade
from mmie_tasks.benchmarks.opening.data import dataset
from mmie_tasks.benchmarks.opening.official import METRICS, read_official
from mmie_tasks.benchmarks.opening.request import prepared
from mmie_tasks.benchmarks.opening.robust import read_robust
from mmie_tasks.benchmarks.opening.sample import OpeningSample
from mmie_tasks.core.files import task_dir
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record.facts import totals
from mmie_tasks.record.metrics import slug
from mmie_tasks.record.record import Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult

Line = dict[str, Any]


def docs() -> dict[str, dict[str, Any]]:
    return {doc["id"]: dict(doc) for doc in dataset({"OPENING_DATA": str(EXAMPLE / "data")})}


def lines() -> dict[str, Line]:
    """The lines of a log of the example's answers, by id."""
    saved = {answer.id: answer.answer for answer in read_answers([EXAMPLE]).answers}
    judged = {
        sample_id: (doc, benchmark.process_results(doc, [saved[sample_id]]))
        for sample_id, doc in docs().items()
    }
    return {
        sample_id: json.loads(
            json.dumps(
                {
                    "filtered_resps": saved[sample_id],
                    "target": benchmark.doc_to_target(doc),
                    "input": benchmark.doc_to_text(doc),
                    **dict(rows.items()),
                }
            )
        )
        for sample_id, (doc, rows) in judged.items()
    }


def test_the_examples_replies_have_both_scores() -> None:
    logged = {sample_id: Record.of_line(line) for sample_id, line in lines().items()}
    official = {sample_id: sample.official for sample_id, sample in logged.items()}
    assert official.pop("1101004") == Unscored(
        "left_out", "the official summary drops a reply with `scores`"
    )
    points = {i: round(7 * v.points) for i, v in official.items() if isinstance(v, Scored)}
    expected = {"0101001": 59, "0301002": 56, "0501003": 35, "1402005": 1, "2001006": 51}
    assert points == {**expected, "2301007": 60}
    assert logged["1101004"].robust == Scored(36 / 7)
    assert (
        logged["0501003"].verdicts.shares["official"]["Content Richness"] == 0.3
    )  # of the second reply
    assert logged["1101004"].facts["lost"] == "no JPEG (1)"
    assert logged["2001006"].groups == {
        "topic": ("cooking_tasks",),
        "subtask": ("recipe_generation",),
    }


def test_the_signature_names_judge_prompt_pictures_steps_and_data() -> None:
    signature = str(BENCHMARK.signature(next(iter(docs().values()))))
    assert signature.startswith("judge:made_up|model:made-up|replayed:")
    for part in (
        *("|paper_judge:no|prompt:other:", ",max_tokens=2000|pillow:"),
        *("|steps:told|", "|task:opening@3-D|data:sha256:"),
    ):
        assert part in signature


def test_the_counts_have_the_official_table_to_the_digit() -> None:
    records = [Record.of_line(line) for line in lines().values()]
    counts = metrics.counts(records)
    noted = totals(record.facts for record in records)
    assert noted["pictures_lost"] == noted["without_picture"] == noted["asked_twice"] == 1
    assert noted["other_length"] == 2
    means = (6.5, 6.33, 7.0, 6.0, 7.17, 6.17, 4.5)  # of six replies; the wrapped one is dropped
    assert [counts[f"table_{slug(name)}"] for name in METRICS] == list(means)
    assert counts["table_overall"] == round(sum(means) / 7, 2) == 6.24
    assert any("Overall 6.24" in line for line in metrics.notes(records))


def test_the_tested_model_gets_texts_and_pictures_in_order() -> None:
    doc = docs()["2001006"]
    (turn,) = benchmark.doc_to_messages(doc)
    content = turn["content"]
    assert isinstance(content, list)
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
    ("first", "second", "official", "robust"),
    [
        pytest.param(reply(7), None, Scored(7), Scored(7), id="one reply"),
        pytest.param("no", reply(7), Scored(7), Scored(7), id="asked twice"),
        pytest.param(reply(6), reply(7), Scored(6), Scored(6), id="a needless second reply"),
        pytest.param(f"Here: {reply(7)}", None, "unparsed", Scored(7), id="no second reply"),
        pytest.param(reply(11), None, Scored(11), "off_scale", id="off the scale"),
    ],
)
def test_the_last_reply_that_the_official_script_would_ask_for_counts(
    first: str, second: str | None, official: Scored | str, robust: Scored | str
) -> None:
    verdicts = grade(
        JudgeResult(
            reply=JudgeReply(text=first, model="m"),
            second_reply=None if second is None else JudgeReply(text=second, model="m"),
        )
    )
    for verdict, expected in ((verdicts.official, official), (verdicts.robust, robust)):
        assert (verdict if isinstance(verdict, Scored) else verdict.reason) == expected
    assert set(verdicts.shares) == {
        kind
        for kind, expected in (("official", official), ("robust", robust))
        if isinstance(expected, Scored)
    }


def test_a_reply_that_reached_its_limit_counts_officially_if_it_is_json() -> None:
    whole = JudgeReply(text=reply(7), model="m", finish="length")
    verdicts = grade(JudgeResult(reply=whole))
    assert (verdicts.official, verdicts.robust) == (
        Scored(7),
        Unscored("cut_off", "the reply reached its token limit"),
    )


def listed() -> dict[str, Any]:
    text = (task_dir() / "opening" / "opening.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text.replace("!function", ""))
    return content


REPLIES = (
    *(reply(7), reply(7.5), reply(0, 1, 2, 3, 4, 5, 6), reply(11), reply("8", 6), reply("7/5")),
    *(reply(True, False), reply(7, Charm={"Score": 0}), f"```json\n{reply(7)}\n```", reply(7) * 2),
    *(json.dumps({"scores": json.loads(reply(7))}), reply(7)[:-40], "All metrics: 7/10.", ""),
)


def behaviour() -> str:
    """A digest of what can move a score: requests about the example's answers, the settings of the
    tested model and both readers.
    """
    lines = [json.dumps(listed()["generation_kwargs"])]
    saved = {answer.id: answer.answer for answer in read_answers([EXAMPLE]).answers}
    for sample_id, doc in sorted(docs().items()):
        request = prepared(
            OpeningSample.from_doc(doc), [saved[sample_id]], BENCHMARK.settings
        ).request
        if request is not None:
            parts = [part if isinstance(part, str) else "picture" for part in request.parts]
            lines.append(json.dumps([parts, request.max_tokens, request.system]))
    for text in REPLIES:
        for verdict in (read_official(text), read_robust(text)):
            points = f"{verdict.points:.9f}" if isinstance(verdict, Scored) else verdict.reason
            lines.append(f"{text} {points}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def test_the_version_moves_when_a_score_can() -> None:
    """When this fails: raise the number of `version`, in the YAML too, and note the new digest."""
    noted = json.loads((GOLDEN / "versions.json").read_text(encoding="utf-8"))["opening"]
    assert {"version": BENCHMARK.version, "behaviour": behaviour()} == noted
