from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from support import internvl_golden as golden

from mmie_tasks.judges.base import RequestUnfit
from mmie_tasks.judges.mmie_score.checkpoint.config import END
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer
from mmie_tasks.judges.mmie_score.inputs import control_strings, ids_of, query, reply_text


@pytest.fixture(scope="module")
def tokenizer() -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer(golden.CHECKPOINT)


def checkpoint(tokenizer: SlowLlamaTokenizer, max_positions: int = 8192) -> Any:
    """The part of a checkpoint that a prompt needs."""
    text = SimpleNamespace(max_position_embeddings=max_positions)
    config = SimpleNamespace(tokens_per_tile=4, llm_config=text)
    return SimpleNamespace(image_token_id=993, tokenizer=tokenizer, config=config)


def judge_query(question: str, tiles: Sequence[int] = (), system: str = "Judge.") -> str:
    return query(question, tiles, system_message=system, tokens_per_tile=2)


def tokens_of(tiles: int) -> str:
    return f"<img>{'<IMG_CONTEXT>' * 2 * tiles}</img>"


def around(question: str, system: str = "Judge.") -> str:
    return f"<|system|>\n{system}<|end|><|user|>\n{question}<|end|><|assistant|>\n"


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in golden.error_cases()])
def test_a_request_that_ends_the_official_run_is_refused(
    case: golden.ErrorCase, tokenizer: SlowLlamaTokenizer
) -> None:
    tiles = {"sq_small.png": 5, "vga.png": 13}
    cut = [tiles[image.name] for image in case.images]
    text = query(case.prompt, cut, system_message="", tokens_per_tile=golden.TOKENS_PER_TILE)
    with pytest.raises(RequestUnfit, match=f"need {sum(cut) * 4:,}: fewer"):
        ids_of(text, cut, checkpoint(tokenizer))


@pytest.mark.parametrize(
    ("question", "tiles", "expected"),
    [
        pytest.param("Why?", [], around("Why?"), id="no image"),
        pytest.param("A <image> B", [3], around(f"A {tokens_of(3)} B"), id="in its position"),
        pytest.param("Say <image>", [], around("Say <image>"), id="text without images"),
        pytest.param(
            "It says <image>. Image-0: <image>",
            [1],
            around(f"It says {tokens_of(1)}. Image-0: <image>"),
            id="one in the text takes the image",
        ),
        pytest.param("Why?", [1], around(f"{tokens_of(1)}\nWhy?"), id="no position: in front"),
        pytest.param(
            "Why?", [1, 2], around(f"{tokens_of(1)}\nWhy?"), id="no position: one for all"
        ),
        pytest.param("A <image>", [1, 2], around(f"A {tokens_of(1)}"), id="too few positions"),
        pytest.param("", [], "<|system|>\nJudge.<|end|><|user|>\n<|assistant|>\n", id="nothing"),
    ],
)
def test_images_go_where_the_official_code_puts_them(
    question: str, tiles: list[int], expected: str
) -> None:
    assert judge_query(question, tiles) == expected


def test_an_image_string_in_the_system_message_comes_first() -> None:
    whole = judge_query("A <image>", [1], system="Look <image>.")
    assert whole == around("A <image>", system=f"Look {tokens_of(1)}.")


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
    assert reply_text(text) == reply


@pytest.mark.parametrize("mark", ["<|end|>", "<|user|>", "</s>", "<img>", "<|placeholder1|>"])
def test_listed_strings_are_those_that_the_judge_reads_as_tokens(
    mark: str, tokenizer: SlowLlamaTokenizer
) -> None:
    assert control_strings([f"I say {mark} now"], tokenizer.added) == (mark,)
    assert golden.added_id(tokenizer, mark) in ids_of(
        f"I say {mark} now", [], checkpoint(tokenizer)
    )


def test_the_longest_prompt_fills_all_positions_of_the_model(tokenizer: SlowLlamaTokenizer) -> None:
    length = len(tokenizer.encode("Why?"))
    assert len(ids_of("Why?", [], checkpoint(tokenizer, length))) == length
    with pytest.raises(RequestUnfit, match=rf"{length} tokens, and the model reads {length - 1}"):
        ids_of("Why?", [], checkpoint(tokenizer, length - 1))
