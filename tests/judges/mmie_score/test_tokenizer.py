from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer

MODEL = (golden.CHECKPOINT / "tokenizer.model").read_bytes()
PIECE_TAG = 0x0A  # of a piece in the file, followed by its length in one byte
VARIANTS = vectors("internvl_tokenizer_variants")
_SENTENCES = [
    "the judge looks at  the picture",
    "five of six <or> so",
    "naïve 第一 ﬁne",
    "a . b , c !",
]


@pytest.fixture(scope="module")
def tokenizer() -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer(golden.CHECKPOINT)


@pytest.fixture(scope="module", params=["golden", "unigram"])
def model(request: pytest.FixtureRequest) -> bytes:
    """The golden sentencepiece model, and one that folds characters and drops double spaces."""
    if request.param == "golden":
        return (golden.CHECKPOINT / "tokenizer.model").read_bytes()
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 20),
        model_writer=buffer,
        model_type="unigram",
        vocab_size=980,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    return buffer.getvalue()


@pytest.fixture(scope="module", params=[False, True], ids=["legacy-false", "legacy-true"])
def any_tokenizer(
    request: pytest.FixtureRequest, model: bytes, tmp_path_factory: pytest.TempPathFactory
) -> SlowLlamaTokenizer:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()

    def change(config: dict[str, Any]) -> None:
        config["legacy"] = request.param
        listed = config["added_tokens_decoder"]
        shifted = {i if int(i) < 3 else str(int(i) - 980 + pieces): t for i, t in listed.items()}
        config["added_tokens_decoder"] = shifted

    folder = golden.tokenizer_folder(tmp_path_factory.mktemp("tokenizer"), change)
    (folder / "tokenizer.model").write_bytes(model)
    return SlowLlamaTokenizer(folder)


def stripping(folder: Path, token: str, **flags: bool) -> SlowLlamaTokenizer:
    def change(config: dict[str, Any]) -> None:
        for listed in config["added_tokens_decoder"].values():
            listed.update(flags if listed["content"] == token else {})

    return SlowLlamaTokenizer(golden.tokenizer_folder(folder, change))


def texts() -> st.SearchStrategy[str]:
    """Any text, with special tokens of the judge and significant spaces."""
    marks = ["<|end|>", "<|user|>", "<img>", "</s>", "<s>", "<unk>", " ", "  ", "\n", "\u2581"]
    return st.lists(st.sampled_from(marks) | st.text(max_size=8), max_size=9).map("".join)


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


def test_the_longest_added_token_wins(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["added_tokens_decoder"]["1000"] = {"content": "<|end|>>"}

    tokenizer = SlowLlamaTokenizer(golden.tokenizer_folder(tmp_path, change))
    assert tokenizer.encode("a<|end|>>")[-1] == golden.added_id(tokenizer, "<|end|>>") == 1000


def test_only_the_list_in_the_configuration_is_read(
    tokenizer: SlowLlamaTokenizer, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / "added_tokens.json").write_text('{"<more>": 1000}')
    (folder / "special_tokens_map.json").write_text('{"bos_token": "<|user|>"}')
    with_more = SlowLlamaTokenizer(folder)
    assert with_more.added == tokenizer.added
    assert with_more.encode("a <more>") == tokenizer.encode("a <more>")


def test_an_id_outside_the_vocabulary_is_the_replacement_character(
    tokenizer: SlowLlamaTokenizer,
) -> None:
    assert tokenizer.decode([len(tokenizer), -1, 10**9]).replace(" ", "") == "\ufffd" * 3


@given(text=texts())
def test_any_text_has_tokens_of_the_vocabulary(
    any_tokenizer: SlowLlamaTokenizer, text: str
) -> None:
    ids = any_tokenizer.encode(text)
    assert ids[0] == golden.added_id(any_tokenizer, "<s>")
    assert all(0 <= i < len(any_tokenizer) for i in ids)


@given(ids=st.lists(st.integers(0, 999), max_size=20), cut=st.integers(0, 20))
def test_more_tokens_do_not_change_the_text_before_them(
    any_tokenizer: SlowLlamaTokenizer, ids: list[int], cut: int
) -> None:
    before = any_tokenizer.decode(ids[:cut]).rstrip("\ufffd")
    assert any_tokenizer.decode(ids).startswith(before)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\u2581")))
def test_plain_text_survives_encoding_and_decoding(
    tokenizer: SlowLlamaTokenizer, text: str
) -> None:
    decoded = tokenizer.decode(tokenizer.encode(f"<|user|>{text.lstrip()}x"))
    assert decoded == f"<|user|> {text.lstrip()}x"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff<|end|>", "\ude00\ud83d"])
def test_a_lone_surrogate_is_a_value_error(tokenizer: SlowLlamaTokenizer, text: str) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode(text)


# Broken and unsupported files.


def error_of(folder: Path) -> str:
    with pytest.raises(JudgeMisconfigured) as caught:
        SlowLlamaTokenizer(folder)
    assert "hint: download the whole repository" in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["tokenizer.model", "tokenizer_config.json"])
def test_a_missing_file_is_named(name: str, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / name).unlink()
    assert f"`{folder / name}` cannot be read" in error_of(folder)


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


def test_a_model_without_its_last_pieces_does_not_fit(tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    ends = [0]
    while MODEL[ends[-1]] == PIECE_TAG:
        ends.append(ends[-1] + 2 + MODEL[ends[-1] + 1])
    (folder / "tokenizer.model").write_bytes(MODEL[: ends[-11]] + MODEL[ends[-1] :])
    assert "up to the id 999, and with `tokenizer.model` there are 990 tokens" in error_of(folder)


@pytest.mark.parametrize(
    ("content", "problem"),
    [pytest.param("{}", "`tokenizer_class` is missing (field required)", id="nothing in it")],
)
def test_an_invalid_configuration_is_named(content: str, problem: str, tmp_path: Path) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    encoded = content.encode("utf-8", "surrogateescape")
    (folder / "tokenizer_config.json").write_bytes(encoded)
    assert "tokenizer_config.json`: " in error_of(folder)
    assert problem in error_of(folder)


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


@pytest.mark.parametrize(
    ("i", "token", "problem"),
    [
        pytest.param("1000", {"content": "<|end|>"}, "up to the id 1000", id="content"),
        pytest.param("1001", {"content": "<x>"}, "up to the id 1001", id="a hole before it"),
        pytest.param("1000", {"content": "<x>", "rstrip": "no"}, "1000.rstrip`", id="a flag"),
    ],
)
def test_an_invalid_added_token_is_named(
    i: str, token: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(
        tmp_path, lambda config: config["added_tokens_decoder"].update({i: token})
    )
    assert problem in error_of(folder)


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
