from __future__ import annotations

import base64
import gzip
import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.judgements import replied
from support.report_runs import SIGNATURE, sample

from mmie_tasks.core.verdict import Scored
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.embedded_image import EmbeddedImage
from mmie_tasks.results.page_data import page_data
from mmie_tasks.results.report.command import CHUNK_BYTES, pack
from mmie_tasks.results.report.samples import (
    MAX_IMAGES,
    MAX_REPLY,
    SampleRow,
    sample_detail,
    shown_images,
)

SEEN = EmbeddedImage("x-picture-0")


def detail_of(*row: Any) -> Any:
    return page_data(sample_detail(tuple(row), {Signature.parse(SIGNATURE): 0}, lambda _: SEEN))


def texts_of(segments: list[dict[str, Any]]) -> list[str]:
    return [
        str(segment.get("text") or segment.get("note") or segment["alt"]) for segment in segments
    ]


def test_texts_and_images_come_in_their_order_with_a_name_for_each_image() -> None:
    images = (Segment("Look:", "a/kite.png"), Segment(image="b/tree.png"))
    detail = detail_of(sample("1", question=(*images, Segment("And now?"))))
    assert texts_of(detail["question"]) == [
        "Look:",
        "image 1 of the question: kite.png",
        "image 2 of the question: tree.png",
        "And now?",
    ]


def test_an_image_problem_is_shown_with_its_reference_and_never_opened() -> None:
    row = (sample("1", answer=(Segment(image="/etc/passwd", problem="outside"),)),)
    assert shown_images(row) == []
    assert texts_of(detail_of(*row)["runs"][0]["answer"]) == ["outside: /etc/passwd"]


def test_a_drawn_image_has_its_prompt_and_so_has_one_that_is_gone() -> None:
    answer = (
        Segment("Cut.", "a.png", prompt="scissors\x00"),
        Segment(image="b", problem="missing", prompt="b"),
    )
    _, drawn, missing = detail_of(sample("1", answer=answer))["runs"][0]["answer"]
    assert (drawn["image"], drawn["prompt"]) == (SEEN.address, "scissors␀")
    assert (missing["note"], missing["prompt"]) == ("missing: b", "b")


def test_images_after_the_sixth_are_replaced_by_their_count() -> None:
    many = [Segment(image=f"{index}.png") for index in range(9)]
    row: SampleRow = (sample("1", question=(*many[:8], Segment("between"), many[8])),)
    assert shown_images(row) == [f"{index}.png" for index in range(MAX_IMAGES)]
    shown = texts_of(detail_of(*row)["question"])[6:]
    assert shown == ["and 2 more images", "between", "and 1 more image"]


def test_only_the_shown_images_are_looked_up() -> None:
    images = [Segment(image=f"{k}") for k in range(9)]
    question = (Segment(image="x", problem="outside"), *images)
    requested: list[str] = []
    row = (sample("1", question=question, answer=question),)
    sample_detail(
        row, {Signature.parse(SIGNATURE): 0}, lambda image: requested.append(image) or SEEN
    )  # type: ignore[func-returns-value]
    assert shown_images(row) == requested == [*"01234"] * 2


def test_question_and_gold_come_from_the_most_complete_log() -> None:
    old = sample("1", question=(Segment("Look. <image>"),))
    new = sample("1", question=(Segment("Look.", "a.png"),), gold=(Segment("A kite."),))
    detail = detail_of(old, None, new)
    assert texts_of(detail["question"]) == ["Look.", "image 1 of the question: a.png"]
    assert texts_of(detail["gold"]) == ["A kite."]
    assert detail["runs"][1] is None


def test_thousands_of_huge_segments_are_limited_in_size() -> None:
    huge = tuple(Segment("x" * 30_000, "a.png") for _ in range(3_000))
    detail = detail_of(sample("1", question=huge, answer=huge))
    assert len(json.dumps(detail)) < 600_000
    assert texts_of(detail["question"])[-1] == "and 2,500 more parts"


def test_a_reply_is_shown_with_its_tokens_and_cost() -> None:
    usage = Usage(input_tokens=9, output_tokens=2, cost_usd=0.5)
    replies = (
        JudgeReply(text="Good.", model="m", usage=usage, finish="length", cached=True),
        JudgeReply(text="y" * (MAX_REPLY + 7), model="m", usage=Usage(cost_usd=float("nan"))),
    )
    first, second = detail_of(sample("1", judgements=replied(*replies)))["runs"][0]["replies"]
    assert (first["text"], first["finish"], first["cached"]) == ("Good.", "length", True)
    assert (first["input_tokens"], first["output_tokens"], first["cost_usd"]) == (9, 2, 0.5)
    assert second["text"].endswith("(7 more characters in the log)")
    assert second["cost_usd"] is None


def test_a_reply_of_another_model_names_the_judge_too() -> None:
    replies = (JudgeReply(text="4", model="made-up"), JudgeReply(text="4", model="other"))
    own, other = detail_of(sample("1", judgements=replied(*replies)))["runs"][0]["replies"]
    assert (own["model"], own["instead_of"]) == ("made-up", "")
    assert (other["model"], other["instead_of"]) == ("other", "made-up")


def test_verdicts_facts_and_parts_are_shown() -> None:
    facts = {"tiles": 3, "whole": True, "shape": "json", "odd": float("nan")}
    parts = {"official": {"look": 0.5, "odd": float("inf")}}
    shown_run = detail_of(sample("1", None, 3, facts=facts, parts=parts))["runs"][0]
    assert shown_run["official"] == {"unscored": "unparsed", "detail": "no number"}
    assert shown_run["robust"] == {"points": 3, "reading": "3"}
    assert shown_run["expected"] is None
    certain = detail_of(sample("1", 4, expected=Scored(4.31), entropy_bits=0.8))["runs"][0]
    assert certain["expected"] == {"points": 4.31, "reading": "", "entropy_bits": 0.8}
    assert shown_run["facts"] == {"tiles": 3, "whole": True, "shape": "json", "odd": "n/a"}
    assert shown_run["parts"] == {"official": {"look": 0.5}, "robust": {}}


HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)


@settings(max_examples=40)
@given(HOSTILE, st.floats() | HOSTILE | st.booleans())
def test_any_content_of_a_log_can_be_packed_and_unpacked(text: str, fact: Any) -> None:
    segments = (Segment(text, text), Segment(image=text, problem=text))
    reply = JudgeReply(text=text, model=text)
    hostile = sample(
        "1", question=segments, answer=segments, judgements=replied(reply), facts={text: fact}
    )
    detail = sample_detail((hostile,), {Signature.parse(SIGNATURE): 0}, lambda _: SEEN)
    _, (chunk,) = pack([detail])
    assert json.loads(gzip.decompress(base64.b64decode(chunk))) == [page_data(detail)]


@given(st.lists(st.integers(0, CHUNK_BYTES + 9), max_size=12))
@settings(max_examples=20)
def test_chunks_hold_every_detail_in_order_and_none_is_too_large(sizes: list[int]) -> None:
    details = [{"place": index, "text": "x" * size} for index, size in enumerate(sizes)]
    starts, chunks = pack(details)
    texts = [gzip.decompress(base64.b64decode(chunk)) for chunk in chunks]
    lists = [json.loads(text) for text in texts]
    assert [detail for in_chunk in lists for detail in in_chunk] == details
    assert starts == [in_chunk[0]["place"] for in_chunk in lists]
    for text, in_chunk in zip(texts, lists, strict=True):
        assert len(text) < CHUNK_BYTES + 100 or len(in_chunk) == 1
    # No chunk could hold its neighbour too.
    assert all(sum(map(len, pair)) > CHUNK_BYTES for pair in pairwise(texts))
