from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import internvl_golden as golden

from mmie_tasks.judges.base import RequestUnfit
from mmie_tasks.judges.mmie_score.prompt import (
    END,
    IMAGE,
    finish,
    ids_of,
    query,
    question_of,
    typed_marks,
)
from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

PICTURE = Path("a.png")


@pytest.fixture(scope="module")
def tokenizer() -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer.from_folder(golden.CHECKPOINT)


def facts(max_positions: int = 8192) -> Any:
    """Of a checkpoint, what a prompt needs."""
    return SimpleNamespace(image_token_id=993, tokens_per_tile=4, max_positions=max_positions)


def asked(question: str, tiles: Sequence[int] = (), system: str = "Judge.") -> str:
    return query(question, tiles, system_message=system, tokens_per_tile=2)


def picture(tiles: int) -> str:
    return f"<img>{'<IMG_CONTEXT>' * 2 * tiles}</img>"


def around(question: str, system: str = "Judge.") -> str:
    return f"<|system|>\n{system}<|end|><|user|>\n{question}<|end|><|assistant|>\n"


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in golden.cases()])
def test_a_golden_prompt_has_the_official_tokens(
    case: golden.Case, tokenizer: SlowLlamaTokenizer
) -> None:
    text = query(
        question_of(case.parts),
        case.tiles,
        system_message=golden.system_message(),
        tokens_per_tile=golden.TOKENS_PER_TILE,
    )
    assert ids_of(text, case.tiles, tokenizer, facts()) == list(case.input_ids)


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in golden.cases()])
def test_a_golden_output_is_the_official_reply(
    case: golden.Case, tokenizer: SlowLlamaTokenizer
) -> None:
    assert finish(tokenizer.decode(case.output_ids)) == case.response


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in golden.error_cases()])
def test_what_ends_the_official_run_is_refused(
    case: golden.ErrorCase, tokenizer: SlowLlamaTokenizer
) -> None:
    tiles = {"sq_small.png": 5, "vga.png": 13}
    cut = [tiles[image.name] for image in case.images]
    text = query(case.prompt, cut, system_message="", tokens_per_tile=golden.TOKENS_PER_TILE)
    with pytest.raises(RequestUnfit, match=f"need {sum(cut) * 4:,}: fewer"):
        ids_of(text, cut, tokenizer, facts())


@pytest.mark.parametrize(
    ("question", "tiles", "expected"),
    [
        pytest.param("Why?", [], around("Why?"), id="no picture"),
        pytest.param("A <image> B", [3], around(f"A {picture(3)} B"), id="in its place"),
        pytest.param("<image><image>", [2, 1], around(picture(2) + picture(1)), id="two, in order"),
        pytest.param("Say <image>", [], around("Say <image>"), id="a word without pictures"),
        pytest.param(
            "It says <image>. Image-0: <image>",
            [1],
            around(f"It says {picture(1)}. Image-0: <image>"),
            id="a typed one takes the picture",
        ),
        pytest.param("Why?", [1], around(f"{picture(1)}\nWhy?"), id="no place: in front"),
        pytest.param("Why?", [1, 2], around(f"{picture(1)}\nWhy?"), id="no place: once for all"),
        pytest.param("A <image>", [1, 2], around(f"A {picture(1)}"), id="too few places"),
        pytest.param("", [], "<|system|>\nJudge.<|end|><|user|>\n<|assistant|>\n", id="nothing"),
        pytest.param("", [1], around(f"{picture(1)}\n"), id="only a picture"),
        pytest.param("{0} {image} %s", [], around("{0} {image} %s"), id="braces are text"),
    ],
)
def test_pictures_go_where_the_official_code_puts_them(
    question: str, tiles: list[int], expected: str
) -> None:
    assert asked(question, tiles) == expected


def test_a_place_in_the_system_message_comes_first() -> None:
    whole = asked("A <image>", [1], system="Look <image>.")
    assert whole == around("A <image>", system=f"Look {picture(1)}.")


def test_an_empty_system_message_is_one() -> None:
    assert asked("Why?", system="") == around("Why?", system="")


@given(
    question=st.lists(st.sampled_from([IMAGE, "<ima", "ge>", "<img>", "x", "<", "\n"])).map(
        "".join
    ),
    tiles=st.lists(st.integers(1, 3), max_size=4),
)
def test_it_is_one_replacement_after_the_other(question: str, tiles: list[int]) -> None:
    placed = f"{IMAGE}\n{question}" if tiles and IMAGE not in question else question
    one_by_one = around(placed) if placed else asked("")
    for count in tiles:
        one_by_one = one_by_one.replace(IMAGE, picture(count), 1)
    assert asked(question, tiles) == one_by_one


@pytest.mark.parametrize(
    ("parts", "question"),
    [
        pytest.param(["Why?"], "Why?", id="text"),
        pytest.param(["A ", PICTURE, "B", PICTURE], "A <image>B<image>", id="nothing between"),
        pytest.param([PICTURE], "<image>", id="a picture"),
        pytest.param([], "", id="nothing"),
    ],
)
def test_a_picture_is_its_place_in_the_question(parts: list[str | Path], question: str) -> None:
    assert question_of(parts) == question


@pytest.mark.parametrize(
    ("text", "reply"),
    [
        pytest.param(" Fair. ### Score 4\n", "Fair. ### Score 4", id="stripped"),
        pytest.param("a <|end|> b <|end|> c", "a", id="up to the first end"),
        pytest.param("a <|endoftext|> b", "a <|endoftext|> b", id="another end is text"),
        pytest.param(END, "", id="nothing"),
    ],
)
def test_a_reply_ends_at_the_first_end(text: str, reply: str) -> None:
    assert finish(text) == reply


@pytest.mark.parametrize(
    ("texts", "marks"),
    [
        pytest.param(["All is well.", "a < b > c"], (), id="none"),
        pytest.param(["See <image>."], ("<image>",), id="a place"),
        pytest.param(
            ["<|end|>", "a<s>b <image> <|end|>"], ("<image>", "<s>", "<|end|>"), id="each once"
        ),
        pytest.param(["<|END|> <|en d|>"], (), id="other spellings"),
    ],
)
def test_marks_in_the_judged_text_are_told(texts: list[str], marks: tuple[str, ...]) -> None:
    assert typed_marks(iter(texts), iter(["<s>", "<|end|>"])) == marks


@pytest.mark.parametrize("mark", ["<|end|>", "<|user|>", "</s>", "<img>", "<|placeholder1|>"])
def test_what_is_told_is_what_the_judge_reads_as_a_token(
    mark: str, tokenizer: SlowLlamaTokenizer
) -> None:
    assert typed_marks([f"I say {mark} now"], tokenizer.added) == (mark,)
    assert tokenizer.id_of(mark) in ids_of(f"I say {mark} now", [], tokenizer, facts())


def test_a_typed_context_mark_is_a_token_where_there_are_no_pictures(
    tokenizer: SlowLlamaTokenizer,
) -> None:
    assert ids_of(asked("a <IMG_CONTEXT> b"), [], tokenizer, facts()).count(993) == 1


def test_the_longest_prompt_is_the_models_last_position(tokenizer: SlowLlamaTokenizer) -> None:
    length = len(tokenizer.encode("Why?"))
    assert len(ids_of("Why?", [], tokenizer, facts(length))) == length
    with pytest.raises(RequestUnfit, match=rf"{length} tokens, and the model reads {length - 1}"):
        ids_of("Why?", [], tokenizer, facts(length - 1))


def test_text_that_is_no_unicode_is_refused(tokenizer: SlowLlamaTokenizer) -> None:
    with pytest.raises(RequestUnfit, match="surrogates not allowed"):
        ids_of("a \ud83d b", [], tokenizer, facts())
