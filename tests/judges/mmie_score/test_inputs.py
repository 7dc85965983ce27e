"""Prompts and tiles of requests, on the golden set."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support import internvl_golden as golden
from support.internvl_golden import CHECKPOINT
from support.judge_engines import open_folder

from mmie_tasks.judges.base import JudgeRequest, ReplySchema, RequestBroken, RequestUnfit
from mmie_tasks.judges.mmie_score.inputs import control_strings, prepare, prompt_length, prompt_of
from mmie_tasks.judges.mmie_score.tiles import read_tiles

CASES = golden.cases()
IMAGE = golden.IMAGES / "vga.png"

OPENED = open_folder(CHECKPOINT)
ADDED = OPENED.tokenizer.added


def request_of(*parts: str | Path) -> JudgeRequest:
    return JudgeRequest(parts=parts, max_tokens=40)


def of_case(case: golden.Case) -> JudgeRequest:
    return JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_request_becomes_the_official_prompt_and_tiles(case: golden.Case) -> None:
    prompt = prompt_of(case.parts, OPENED, key=7, max_new_tokens=case.max_new_tokens)
    assert prompt.ids == list(case.input_ids)
    assert (prompt.key, prompt.max_new_tokens) == (7, case.max_new_tokens)
    if not case.images:
        assert prompt.tiles is None
        return
    tiles = [read_tiles(image, golden.TILE_PX) for image in case.images]
    assert [len(image_tiles) for image_tiles in tiles] == list(case.tiles)
    assert prompt.tiles is not None
    assert np.array_equal(prompt.tiles, np.concatenate(tiles))


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_length_is_computed_from_the_headers_of_the_images(case: golden.Case) -> None:
    assert prompt_length(of_case(case), OPENED) == len(case.input_ids)


UNUSABLE = [
    pytest.param(request_of("See ", Path("no/such.png")), RequestBroken, "such.png", id="no file"),
    pytest.param(request_of("See ", Path(__file__)), RequestBroken, "test_inputs", id="no image"),
    pytest.param(
        request_of("<IMG_CONTEXT>", IMAGE), RequestUnfit, "53 `<IMG_CONTEXT>`.* need 52", id="mark"
    ),
    pytest.param(
        request_of("word " * 9000), RequestUnfit, "the model reads 8,192 at most", id="long"
    ),
    pytest.param(request_of("\ud800"), RequestUnfit, "cannot read the text", id="no Unicode"),
    pytest.param(
        replace(request_of("See"), system="Judge."), RequestUnfit, "system message", id="system"
    ),
    pytest.param(
        replace(request_of("See"), schema=ReplySchema(name="f", parameters="{}")),
        RequestUnfit,
        "schema",
        id="schema",
    ),
]


@pytest.mark.parametrize(("request_", "kind", "words"), UNUSABLE)
def test_an_unusable_request_says_why(
    request_: JudgeRequest, kind: type[Exception], words: str
) -> None:
    ((key, error),) = prepare([request_], OPENED)
    assert key == 0
    assert isinstance(error, kind)
    assert re.search(words, str(error))


def test_images_are_read_from_their_bytes_and_named_by_their_number() -> None:
    here, sent = (prompt_of(["What? ", image], OPENED) for image in (IMAGE, IMAGE.read_bytes()))
    assert sent.ids == here.ids
    assert np.array_equal(sent.tiles, here.tiles)  # type: ignore[arg-type]
    with pytest.raises(RequestBroken, match="image 2"):
        prompt_of(["What? ", IMAGE, b"no image"], OPENED)


CONTROL_STRINGS = [
    pytest.param(["An answer.<|end|>"], ("<|end|>",), id="its end"),
    pytest.param(["See <image>.", "</s>"], ("<image>", "</s>"), id="an image and a token"),
    pytest.param(["1 < 2 |end|> <Image>", "<|END|>"], (), id="only alike"),
]


@pytest.mark.parametrize(("texts", "strings"), CONTROL_STRINGS)
def test_control_strings_in_the_text_are_listed(texts: list[str], strings: tuple[str]) -> None:
    assert set(control_strings([*texts, IMAGE], ADDED)) == set(strings)
