from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer

MODEL = (golden.CHECKPOINT / "tokenizer.model").read_bytes()
VARIANTS = vectors("internvl_tokenizer_variants")


@pytest.fixture(scope="module")
def tokenizer() -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer(golden.CHECKPOINT)


def stripping(folder: Path, token: str, **flags: bool) -> SlowLlamaTokenizer:
    def change(config: dict[str, Any]) -> None:
        for listed in config["added_tokens_decoder"].values():
            listed.update(flags if listed["content"] == token else {})

    return SlowLlamaTokenizer(golden.tokenizer_folder(folder, change))


def test_every_golden_text_has_the_official_tokens(tokenizer: SlowLlamaTokenizer) -> None:
    cases = golden.read("tokenizer_cases")["encode"]
    assert [tokenizer.encode(case["text"]) for case in cases] == [case["ids"] for case in cases]


def test_all_golden_tokens_have_the_official_text(tokenizer: SlowLlamaTokenizer) -> None:
    cases = golden.read("tokenizer_cases")["decode"]
    assert [tokenizer.decode(case["ids"]) for case in cases] == [case["text"] for case in cases]


@pytest.mark.parametrize(
    "variant", [pytest.param(variant, id=variant["id"]) for variant in VARIANTS["variants"]]
)
def test_every_flag_has_its_official_effect(variant: dict[str, Any], tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config.update(variant["set"])
        for key in variant["drop"]:
            del config[key]
        for token in config["added_tokens_decoder"].values():
            token.update(variant["all_flags"])

    tokenizer = SlowLlamaTokenizer(golden.tokenizer_folder(tmp_path, change))
    assert len(tokenizer) == variant["length"]
    assert [tokenizer.encode(text) for text in VARIANTS["texts"]] == variant["ids"]
    decoded = [(tokenizer.decode(case["ids"]), case["text"]) for case in variant["decode"]]
    assert [text for text, _ in decoded] == [official for _, official in decoded]


@pytest.mark.parametrize(
    ("flags", "same_as"),
    [
        pytest.param({"rstrip": True}, "x \n<|end|>y", id="after"),
        pytest.param({"rstrip": True, "lstrip": True}, "x<|end|>y", id="both"),
    ],
)
def test_a_token_absorbs_white_space_as_its_flags_say(
    flags: dict[str, bool], same_as: str, tmp_path: Path
) -> None:
    keeping = stripping(tmp_path / "keeping", "<|end|>", lstrip=False, rstrip=False)
    absorbing = stripping(tmp_path / "absorbing", "<|end|>", **flags)
    assert absorbing.encode("x \n<|end|> \ny") == keeping.encode(same_as)
    assert keeping.encode("x \n<|end|> \ny") != keeping.encode(same_as)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\u2581")))
def test_plain_text_survives_encoding_and_decoding(
    tokenizer: SlowLlamaTokenizer, text: str
) -> None:
    decoded = tokenizer.decode(tokenizer.encode(f"<|user|>{text.lstrip()}x"))
    assert decoded == f"<|user|> {text.lstrip()}x"


# Broken and unsupported files.


def error_of(folder: Path) -> str:
    with pytest.raises(JudgeMisconfigured) as caught:
        SlowLlamaTokenizer(folder)
    assert "hint: download the whole repository" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", id="a pointer"),
        pytest.param(MODEL[:-1], id="all but a byte"),
    ],
)
def test_a_broken_model_is_named(content: bytes, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / "tokenizer.model").write_bytes(content)
    assert "tokenizer.model`: it is not a sentencepiece model, or is truncated" in error_of(folder)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        pytest.param("tokenizer_class", "Qwen2Tokenizer", "'Qwen2Tokenizer'", id="another"),
        pytest.param(
            "tokenizer_class", "LlamaTokenizerFast", "should be 'LlamaTokenizer'", id="fast"
        ),
        pytest.param("tokenizer_class", None, "`tokenizer_class`", id="no class"),
        pytest.param("legacy", "false", "`legacy`", id="text for a flag"),
        pytest.param("bos_token", None, "`bos_token", id="no bos"),
        pytest.param("additional_special_tokens", ["<new>"], "lacks the token '<new>'", id="new"),
        pytest.param("add_eos_token", True, "`add_eos_token`", id="ends with eos"),
    ],
)
def test_an_unsupported_value_is_named(
    key: str, value: object, problem: str, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(tmp_path, lambda config: config.update({key: value}))
    message = error_of(folder)
    assert str(folder / "tokenizer_config.json") in message
    assert problem in message


@pytest.mark.parametrize("mark", ["<|system|>", "<|user|>", "<|end|>", "<img>", "<IMG_CONTEXT>"])
def test_a_tokenizer_without_the_special_tokens_of_the_prompt_is_refused(
    mark: str, tmp_path: Path
) -> None:
    def change(config: dict[str, Any]) -> None:
        listed = config["added_tokens_decoder"]
        renamed = json.dumps(listed).replace(json.dumps(mark), '"<other>"')
        config["added_tokens_decoder"] = json.loads(renamed)
        config["additional_special_tokens"] = []

    assert f"lacks the token {mark!r}" in error_of(golden.tokenizer_folder(tmp_path, change))
