"""Prompts and tiles of requests are the official ones; what cannot be read is refused."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import internvl_golden as golden

from mmie_tasks.judges.base import JudgeRequest, ReplySchema, RequestBroken, RequestUnfit
from mmie_tasks.judges.mmie_score.checkpoint import locate, open_checkpoint
from mmie_tasks.judges.mmie_score.inputs import (
    control_strings,
    ids_of,
    prepare,
    prompt_length,
    prompt_of,
    query,
    reply_text,
)
from mmie_tasks.judges.mmie_score.tiles import read_tiles

IMAGE = golden.IMAGES / "vga.png"
OPENED = open_checkpoint(locate(str(golden.CHECKPOINT), None))
ADDED = OPENED.tokenizer.added


def request_of(*parts, **more):
    return JudgeRequest(parts=parts, max_tokens=40, **more)


@pytest.mark.parametrize("case", golden.cases(), ids=lambda case: case.name)
def test_a_request_becomes_the_official_prompt_and_tiles(case):
    prompt = prompt_of(case.parts, OPENED, key=7, max_new_tokens=case.max_new_tokens)
    assert prompt.ids == list(case.input_ids)
    assert (prompt.key, prompt.max_new_tokens) == (7, case.max_new_tokens)
    assert prompt_length(request_of(*case.parts), OPENED) == len(case.input_ids)
    tiles = [read_tiles(image, golden.TILE_PX) for image in case.images]
    assert prompt.tile_counts == tuple(map(len, tiles)) == case.tiles
    if tiles:
        assert np.array_equal(prompt.tiles, np.concatenate(tiles))
    else:
        assert prompt.tiles is None


TWO_TILES, THREE_TILES = (f"<img>{'<IMG_CONTEXT>' * count}</img>" for count in (4, 6))


def around(question: str, system: str = "Judge.") -> str:
    return f"<|system|>\n{system}<|end|><|user|>\n{question}<|end|><|assistant|>\n"


@pytest.mark.parametrize(
    ("question", "tiles", "system", "expected"),
    [
        ("Why?", [2, 3], "Judge.", around(f"{TWO_TILES}\nWhy?")),
        ("A <image>", [3, 2], "Judge.", around(f"A {THREE_TILES}")),
        ("A <image>", [2], "<image>.", around("A <image>", f"{TWO_TILES}.")),
        ("", [], "Judge.", "<|system|>\nJudge.<|end|><|user|>\n<|assistant|>\n"),
    ],
)
def test_images_go_where_the_official_code_puts_them(question, tiles, system, expected):
    assert query(question, tiles, system_message=system, tokens_per_tile=2) == expected


@pytest.mark.parametrize("case", golden.read("cases")["errors"], ids=lambda case: case["name"])
def test_a_request_that_ends_the_official_run_is_refused(case):
    cut = [{"images/sq_small.png": 5, "images/vga.png": 13}[image] for image in case["images"]]
    text = query(case["prompt"], cut, system_message="", tokens_per_tile=golden.TOKENS_PER_TILE)
    with pytest.raises(RequestUnfit, match=f"need {sum(cut) * 4:,}"):
        ids_of(text, cut, OPENED)


SCHEMA = ReplySchema(name="f", parameters="{}")
UNUSABLE = [
    pytest.param(request_of("See ", Path("no/such.png")), RequestBroken, "such.png", id="no-file"),
    pytest.param(request_of("See ", Path(__file__)), RequestBroken, "test_inputs", id="no-image"),
    pytest.param(request_of("<IMG_CONTEXT>", IMAGE), RequestUnfit, "53 .* 52", id="mark"),
    pytest.param(request_of("word " * 9000), RequestUnfit, "8,192", id="long"),
    pytest.param(request_of("\ud800"), RequestUnfit, "text", id="no-Unicode"),
    pytest.param(request_of("See", system="Judge."), RequestUnfit, "system", id="system"),
    pytest.param(request_of("See", schema=SCHEMA), RequestUnfit, "schema", id="schema"),
]


@pytest.mark.parametrize(("request_", "kind", "words"), UNUSABLE)
def test_an_unusable_request_says_why(request_, kind, words):
    ((key, error),) = prepare([request_], OPENED)
    assert key == 0
    assert isinstance(error, kind)
    assert re.search(words, str(error))


def test_the_longest_prompt_fills_all_positions_of_the_model():
    length = len(OPENED.tokenizer.encode("Why?"))

    def ids_with(positions):
        text = OPENED.config.llm_config.model_copy(update={"max_position_embeddings": positions})
        config = OPENED.config.model_copy(update={"llm_config": text})
        return ids_of("Why?", [], replace(OPENED, config=config))

    assert len(ids_with(length)) == length
    with pytest.raises(RequestUnfit, match=f"{length} tokens.* {length - 1}"):
        ids_with(length - 1)


def test_images_are_read_from_their_bytes_and_named_by_their_number():
    here, sent = (prompt_of(["What? ", image], OPENED) for image in (IMAGE, IMAGE.read_bytes()))
    assert sent.ids == here.ids
    assert np.array_equal(sent.tiles, here.tiles)
    with pytest.raises(RequestBroken, match="image 2"):
        prompt_of(["What? ", IMAGE, b"no image"], OPENED)


@pytest.mark.parametrize(
    ("text", "strings"),
    [
        ("See <image>, </s>", {"<image>", "</s>"}),
        *((f"I say {mark} now", {mark}) for mark in ("<|end|>", "<img>", "<|placeholder1|>")),
        ("1 < 2 |end|> <Image> <|END|>", set()),
    ],
)
def test_strings_that_the_judge_reads_as_tokens_are_listed(text, strings):
    assert set(control_strings([text, IMAGE], ADDED)) == strings
    ids = {golden.added_id(OPENED.tokenizer, string) for string in strings - {"<image>"}}
    assert ids <= set(ids_of(text, [], OPENED))


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        ("a <|end|> b <|end|> c", "a"),
        (" a <|endoftext|> b\n", "a <|endoftext|> b"),
        ("<|end|>", ""),
    ],
)
def test_a_reply_ends_at_the_first_end(text, reply):
    assert reply_text(text) == reply
