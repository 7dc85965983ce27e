from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace
from html import unescape
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.judgements import replied
from support.report_runs import run, sample

from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.embedded_image import EmbeddedImage
from mmie_tasks.results.report.page import CHUNK_BYTES, pack
from mmie_tasks.results.report.samples import (
    MAX_IMAGES,
    MAX_REPLY,
    SampleRow,
    join_tasks,
    sample_html,
    shown_images,
)

SEEN = EmbeddedImage("x-picture-0")


def html_of(*row: LoggedSample | None, find_image: Any = lambda _: SEEN) -> str:
    runs = [run(f"run {n}", [one] if one else []) for n, one in enumerate(row)]
    (task,) = join_tasks(runs)
    return sample_html(row, task, [one.name for one in runs], find_image)


def words_of(html: str) -> str:
    """The text that a reader sees, and the descriptions of images."""
    described = re.sub(r'<img[^>]*alt="([^"]*)"[^>]*>', r" [\1] ", html)
    return " ".join(unescape(re.sub("<[^>]*>", " ", described)).split())


def between(html: str, begin: str, end: str) -> str:
    return words_of(html).partition(begin)[2].partition(end)[0].strip()


def test_texts_and_images_come_in_their_order_with_a_name_for_each_image() -> None:
    images = (Segment("Look:", "a/kite.png"), Segment(image="b/tree.png"))
    html = html_of(sample("1", question=(*images, Segment("And now?"))))
    kite, tree = "[image 1 of the question: kite.png]", "[image 2 of the question: tree.png]"
    assert between(html, "Question", "run 0") == f"Look: {kite} {tree} And now?"
    assert html.count('data-picture="x-picture-0"') == 2


def test_an_image_problem_is_shown_with_its_reference_and_never_opened() -> None:
    row = (sample("1", answer=(Segment(image="/etc/passwd", problem="outside"),)),)
    assert shown_images(row) == []
    assert "outside: /etc/passwd" in words_of(html_of(*row))


def test_a_drawn_image_has_its_prompt_and_so_has_one_that_is_gone() -> None:
    answer = (
        Segment("Cut.", "a.png", prompt="scissors\x00"),
        Segment(image="b", problem="missing", prompt="c"),
    )
    words = words_of(html_of(sample("1", answer=answer)))
    assert "[image 1 of the answer: a.png] drawn to: scissors␀" in words
    assert "missing: b image 2 of the answer drawn to: c" in words


@pytest.mark.parametrize(
    ("judged", "shown", "changed"),
    [
        pytest.param("a", "a", False, id="same"),
        pytest.param("a", "b", True, id="other"),
        pytest.param("", "b", False, id="not-logged"),
        pytest.param("a", "", False, id="not-read"),
    ],
)
def test_an_image_that_is_not_the_judged_one_is_not_shown(
    judged: str, shown: str, changed: bool
) -> None:
    answer = (Segment(image="a.png", sha256=judged),)
    html = html_of(sample("1", answer=answer), find_image=lambda _: replace(SEEN, sha256=shown))
    assert ("the file has changed" in words_of(html)) is changed
    assert html.count("data-picture") == (not changed)


def test_images_after_the_sixth_are_replaced_by_their_count() -> None:
    many = [Segment(image=f"{index}.png") for index in range(9)]
    row: SampleRow = (sample("1", question=(*many[:8], Segment("between"), many[8])),)
    assert shown_images(row) == [f"{index}.png" for index in range(MAX_IMAGES)]
    shown = between(html_of(*row), "[image 6 of the question: 5.png]", "run 0")
    assert shown == "and 2 more images between and 1 more image"


def test_only_the_shown_images_are_looked_up() -> None:
    images = [Segment(image=f"{k}") for k in range(9)]
    question = (Segment(image="x", problem="outside"), *images)
    requested: list[str] = []
    row = (sample("1", question=question, answer=question),)
    html_of(*row, find_image=lambda image: requested.append(image) or SEEN)  # type: ignore[func-returns-value]
    assert shown_images(row) == requested == [*"01234"] * 2


def test_question_and_gold_come_from_the_most_complete_log() -> None:
    old = sample("1", question=(Segment("Look. <image>"),))
    new = sample("1", question=(Segment("Look.", "a.png"),), gold=(Segment("A kite."),))
    words = words_of(html_of(old, new))
    assert "Question Look. [image 1 of the question: a.png] Gold answer A kite. run 0" in words


def test_thousands_of_huge_segments_are_limited_in_size() -> None:
    huge = tuple(Segment("x" * 30_000, "a.png") for _ in range(3_000))
    html = html_of(sample("1", question=huge, answer=huge))
    assert len(html) < 700_000
    assert "and 2,500 more parts" in html


def test_a_long_text_begins_and_all_of_it_is_opened() -> None:
    html = html_of(sample("1", answer=(Segment("y" * 5_000),)))
    assert "Show all 5,000 characters" in html
    assert html.count("y" * 1_500) == 1 + 5_000 // 1_500


def test_a_reply_is_shown_with_its_tokens_and_cost() -> None:
    usage = Usage(input_tokens=9, output_tokens=2, cost_usd=0.5)
    replies = (
        JudgeReply(text="Good.", model="m", usage=usage, finish="length", cached=True),
        JudgeReply(text="y" * (MAX_REPLY + 7), model="made-up", usage=Usage(cost_usd=float("nan"))),
    )
    words = words_of(
        html_of(sample("1", judgements=replied(*replies, judge="judge:openai|model:made-up")))
    )
    details = "from the cache · finish: length · 9 tokens in, 2 out · $0.50000"
    assert f"Judge's reply 1 of 2 Good. made-up, reply by m · {details}" in words
    assert "(7 more characters in the log) made-up · new reply" in words
    assert "nan" not in words


def test_verdicts_properties_and_shares_are_shown() -> None:
    properties = {
        "tiles": 3,
        "whole": True,
        "shape": "json",
        "odd": float("nan"),
        "long": 1234567.5,
    }
    shares = {"official": {"look": 0.5, "odd": float("inf")}}
    words = words_of(html_of(sample("1", None, 3, properties=properties, shares=shares)))
    assert "official n/a unparsed no number robust 3 of 4, read from 3" in words
    assert "look 50.00 n/a odd n/a n/a" in words
    assert "tiles 3 whole yes shape json odd n/a long 1234567.5 signature judge:made_up" in words


HOSTILE = st.text(st.characters(codec=None, exclude_categories=()), max_size=30)


@settings(max_examples=40)
@given(HOSTILE, st.floats() | HOSTILE | st.booleans())
def test_any_content_of_a_log_can_be_packed_and_no_tag_begins_in_it(text: str, value: Any) -> None:
    segments = (Segment(text, text), Segment(image=text, problem=text, prompt=text))
    reply = JudgeReply(text=text, model=text)
    fields = {
        "question": segments,
        "answer": segments,
        "judgements": replied(reply),
        "properties": {text: value},
    }
    html, harmless = html_of(sample("1", **fields)), html_of(sample("1"))  # type: ignore[arg-type]
    _, (chunk,) = pack([html])
    assert json.loads(gzip.decompress(base64.b64decode(chunk))) == [html]
    ours = {"figure", "figcaption", "img", "dd", "dt", "dl", *TAG.findall(harmless)}
    assert set(TAG.findall(html)) <= ours | OURS


TAG = re.compile("<([^/ >]+)")
OURS = {"p", "span", "div", "b", "q", "h4", "h5", "details", "summary"}


@given(st.lists(st.integers(0, CHUNK_BYTES + 9), max_size=12))
@settings(max_examples=20)
def test_chunks_hold_every_detail_in_order_and_none_is_too_large(sizes: list[int]) -> None:
    details = [f"{index}:{'x' * size}" for index, size in enumerate(sizes)]
    starts, chunks = pack(details)
    texts = [gzip.decompress(base64.b64decode(chunk)) for chunk in chunks]
    lists = [json.loads(text) for text in texts]
    assert [detail for in_chunk in lists for detail in in_chunk] == details
    assert starts == [int(in_chunk[0].partition(":")[0]) for in_chunk in lists]
    for text, in_chunk in zip(texts, lists, strict=True):
        assert len(text) < CHUNK_BYTES + 100 or len(in_chunk) == 1
    # No chunk could hold its neighbour too.
    assert all(sum(map(len, pair)) > CHUNK_BYTES for pair in pairwise(texts))
