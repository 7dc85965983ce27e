from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support import internvl_golden as golden

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

MODEL = (golden.CHECKPOINT / "tokenizer.model").read_bytes()
PIECE_TAG = 0x0A  # of a piece in the file, followed by its length in one byte


def refused(folder: Path) -> str:
    with pytest.raises(JudgeMisconfigured) as caught:
        SlowLlamaTokenizer.from_folder(folder)
    assert "hint: download the whole repository" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.model", "tokenizer_config.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / name).unlink()
    assert f"`{folder / name}`: it cannot be read: No such file" in refused(folder)


@pytest.mark.parametrize("name", ["tokenizer.model", "tokenizer_config.json"])
def test_a_folder_in_the_place_of_a_file_is_named(name: str, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / name).unlink()
    (folder / name).mkdir()
    assert f"`{folder / name}`: it cannot be read: Is a directory" in refused(folder)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"version https://git-lfs.github.com/spec/v1\n", id="a pointer"),
        pytest.param(b"<!doctype html>", id="a page"),
        pytest.param(MODEL[: len(MODEL) // 2], id="half"),
        pytest.param(MODEL[:-1], id="all but a byte"),
    ],
)
def test_a_broken_model_is_named(content: bytes, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / "tokenizer.model").write_bytes(content)
    assert "tokenizer.model`: it is not a sentencepiece model, or is cut off" in refused(folder)


def test_a_model_that_lost_its_last_pieces_does_not_fit(tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    ends = [0]
    while MODEL[ends[-1]] == PIECE_TAG:
        ends.append(ends[-1] + 2 + MODEL[ends[-1] + 1])
    (folder / "tokenizer.model").write_bytes(MODEL[: ends[-11]] + MODEL[ends[-1] :])
    assert "it adds the id 999, and there are 990 tokens" in refused(folder)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        pytest.param("", "Invalid JSON", id="empty"),
        pytest.param("{", "Invalid JSON", id="cut off"),
        pytest.param("[" * 100_000, "Invalid JSON", id="nested"),
        pytest.param("\udcff", "Invalid JSON", id="not UTF-8"),
        pytest.param("[]", "Input should be an object", id="a list"),
        pytest.param("{}", "`tokenizer_class`: Field required", id="nothing in it"),
    ],
)
def test_a_configuration_that_is_none_is_named(content: str, found: str, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    written = content.encode("utf-8", "surrogateescape")
    (folder / "tokenizer_config.json").write_bytes(written)
    assert f"tokenizer_config.json`: {found}" in refused(folder)


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        pytest.param("tokenizer_class", "Qwen2Tokenizer", "'Qwen2Tokenizer'", id="another"),
        pytest.param("tokenizer_class", "LlamaTokenizerFast", "not 'LlamaTokenizer'", id="fast"),
        pytest.param("tokenizer_class", None, "`tokenizer_class`", id="no class"),
        pytest.param("legacy", "false", "`legacy`", id="a word for a flag"),
        pytest.param("add_bos_token", 1, "`add_bos_token`", id="a number for a flag"),
        pytest.param("bos_token", 5, "`bos_token", id="a number for a token"),
        pytest.param("bos_token", None, "`bos_token` or `eos_token` is null", id="no bos"),
        pytest.param("unk_token", None, "`unk_token` is null", id="no unk"),
        pytest.param("additional_special_tokens", "<img>", "`additional", id="no list"),
        pytest.param("additional_special_tokens", ["\ud800"], "Invalid JSON", id="no text"),
        pytest.param("added_tokens_decoder", [], "`added_tokens_decoder`", id="a list"),
        pytest.param("added_tokens_decoder", {"5": "x"}, "`added_tokens_decoder.5`", id="a word"),
        pytest.param("split_special_tokens", True, "`split_special_tokens`", id="splits"),
        pytest.param("sp_model_kwargs", {"enable_sampling": True}, "`sp_model_", id="samples"),
    ],
)
def test_a_value_that_cannot_be_obeyed_is_named(
    key: str, value: object, found: str, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(tmp_path, lambda config: config.update({key: value}))
    message = refused(folder)
    assert str(folder / "tokenizer_config.json") in message
    assert found in message


@pytest.mark.parametrize(
    ("i", "token", "found"),
    [
        pytest.param("1000", {"content": "<|end|>"}, "('<|end|>') is there twice", id="content"),
        pytest.param("0987", {"content": "<x>"}, "('<x>') is there twice", id="id"),
        pytest.param("-1", {"content": "<x>"}, "decoder.-1` has no usable id", id="negative"),
        pytest.param("x", {"content": "<x>"}, "decoder.x` has no usable id", id="a word"),
        pytest.param("1" * 5000, {"content": "<x>"}, "has no usable id", id="endless"),
        pytest.param("123456789", {"content": "<x>"}, "adds the id 123456789", id="huge"),
        pytest.param("1001", {"content": "<x>"}, "adds the id 1001", id="a hole before it"),
        pytest.param("1000", {"content": ""}, "decoder.1000.content`", id="no content"),
        pytest.param("1000", {"content": "<x>", "rstrip": "no"}, "1000.rstrip`", id="a flag"),
        pytest.param("1000", {"content": "<x>", "single_word": True}, "single_word", id="a word"),
    ],
)
def test_an_added_token_that_cannot_be_is_named(
    i: str, token: dict[str, Any], found: str, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(
        tmp_path, lambda config: config["added_tokens_decoder"].update({i: token})
    )
    assert found in refused(folder)


@pytest.mark.parametrize("mark", ["<|system|>", "<|user|>", "<|end|>", "<img>", "<IMG_CONTEXT>"])
def test_a_tokenizer_without_the_marks_of_a_prompt_is_refused(mark: str, tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        listed = config["added_tokens_decoder"]
        renamed = json.dumps(listed).replace(json.dumps(mark), '"<other>"')
        config["added_tokens_decoder"] = json.loads(renamed)
        config["additional_special_tokens"] = []

    assert f"it does not add the token {mark!r}" in refused(
        golden.tokenizer_folder(tmp_path, change)
    )
