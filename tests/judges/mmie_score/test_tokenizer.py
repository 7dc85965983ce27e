from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from hypothesis import given
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

VARIANTS = vectors("internvl_tokenizer_variants")
_SENTENCES = [
    "the judge looks at  the picture",
    "five of six <or> so",
    "naïve 第一 ﬁne",
    "a . b , c !",
]


@pytest.fixture(scope="module")
def tokenizer() -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer.from_folder(golden.CHECKPOINT)


@pytest.fixture(scope="module", params=["golden", "unigram"])
def model(request: pytest.FixtureRequest) -> bytes:
    """The golden sentencepiece model, and one that folds characters and drops double spaces."""
    if request.param == "golden":
        return (golden.CHECKPOINT / "tokenizer.model").read_bytes()
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_SENTENCES * 20),
        model_writer=written,
        model_type="unigram",
        vocab_size=980,
        hard_vocab_limit=False,
        byte_fallback=True,
        minloglevel=2,
    )
    return written.getvalue()


@pytest.fixture(scope="module", params=[False, True], ids=["legacy-false", "legacy-true"])
def any_tokenizer(
    request: pytest.FixtureRequest, model: bytes, tmp_path_factory: pytest.TempPathFactory
) -> SlowLlamaTokenizer:
    pieces = sentencepiece.SentencePieceProcessor(model_proto=model).get_piece_size()

    def change(config: dict[str, Any]) -> None:
        config["legacy"] = request.param
        listed = config["added_tokens_decoder"]
        moved = {i if int(i) < 3 else str(int(i) - 980 + pieces): t for i, t in listed.items()}
        config["added_tokens_decoder"] = moved

    folder = golden.tokenizer_folder(tmp_path_factory.mktemp("tokenizer"), change)
    (folder / "tokenizer.model").write_bytes(model)
    return SlowLlamaTokenizer.from_folder(folder)


def changed(folder: Path, **keys: object) -> SlowLlamaTokenizer:
    return SlowLlamaTokenizer.from_folder(golden.tokenizer_folder(folder, lambda c: c.update(keys)))


def stripping(folder: Path, token: str, **flags: bool) -> SlowLlamaTokenizer:
    def change(config: dict[str, Any]) -> None:
        for listed in config["added_tokens_decoder"].values():
            listed.update(flags if listed["content"] == token else {})

    return SlowLlamaTokenizer.from_folder(golden.tokenizer_folder(folder, change))


def texts() -> st.SearchStrategy[str]:
    """Anything, with marks of the judge and the spaces that matter in it."""
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
def test_every_flag_does_what_it_did_officially(variant: dict[str, Any], tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config.update(variant["set"])
        for key in variant["drop"]:
            del config[key]
        for token in config["added_tokens_decoder"].values():
            token.update(variant["all_flags"])

    tokenizer = SlowLlamaTokenizer.from_folder(golden.tokenizer_folder(tmp_path, change))
    assert len(tokenizer) == variant["length"]
    assert [tokenizer.encode(text) for text in VARIANTS["texts"]] == variant["ids"]
    decoded = [(tokenizer.decode(case["ids"]), case["text"]) for case in variant["decode"]]
    assert [ours for ours, _ in decoded] == [official for _, official in decoded]


def test_a_space_mark_stands_before_the_first_role(tokenizer: SlowLlamaTokenizer) -> None:
    first = [tokenizer.id_of(token) for token in ("<s>", "\u2581", "<|system|>")]
    assert tokenizer.encode("<|system|>\n")[:3] == first


def test_no_space_mark_stands_there_in_the_old_way(tmp_path: Path) -> None:
    old = changed(tmp_path, legacy=True)
    assert old.encode("<|system|>\n") == [old.id_of("<s>"), old.id_of("<|system|>")]


@pytest.mark.parametrize(
    ("flags", "same_as"),
    [
        pytest.param({"rstrip": True}, "x \n<|end|>y", id="behind"),
        pytest.param({"rstrip": False, "lstrip": True}, "x<|end|> \ny", id="before"),
        pytest.param({"rstrip": True, "lstrip": True}, "x<|end|>y", id="both"),
    ],
)
def test_a_token_takes_the_white_space_its_flags_name(
    flags: dict[str, bool], same_as: str, tmp_path: Path
) -> None:
    keeps = stripping(tmp_path / "keeps", "<|end|>", lstrip=False, rstrip=False)
    takes = stripping(tmp_path / "takes", "<|end|>", **flags)
    assert takes.encode("x \n<|end|> \ny") == keeps.encode(same_as)
    assert keeps.encode("x \n<|end|> \ny") != keeps.encode(same_as)


def test_the_longest_added_token_wins(tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["added_tokens_decoder"]["1000"] = {"content": "<|end|>>"}

    tokenizer = SlowLlamaTokenizer.from_folder(golden.tokenizer_folder(tmp_path, change))
    assert tokenizer.encode("a<|end|>>")[-1] == tokenizer.id_of("<|end|>>") == 1000


def test_the_list_in_the_configuration_is_the_only_one_that_counts(
    tokenizer: SlowLlamaTokenizer, tmp_path: Path
) -> None:
    folder = golden.tokenizer_folder(tmp_path)
    (folder / "added_tokens.json").write_text('{"<more>": 1000}')
    (folder / "special_tokens_map.json").write_text('{"bos_token": "<|user|>"}')
    with_more = SlowLlamaTokenizer.from_folder(folder)
    assert with_more.added == tokenizer.added
    assert with_more.encode("a <more>") == tokenizer.encode("a <more>")


def test_an_added_token_is_found_by_its_content_and_a_piece_as_well(
    tokenizer: SlowLlamaTokenizer,
) -> None:
    found = [tokenizer.id_of(name) for name in ("<|end|>", "<s>", "\u2581", "<0x0A>", "no token")]
    assert found[:2] == [987, 1]
    assert None not in found[:4]
    assert found[4] is None


def test_a_stop_that_is_no_special_token_stays_in_the_text(tokenizer: SlowLlamaTokenizer) -> None:
    ids = [
        *tokenizer.encode("the"),
        *(tokenizer.id_of(t) or 0 for t in ("<|endoftext|>", "<|end|>")),
    ]
    assert tokenizer.decode(ids) == "the <|end|>"


def test_an_id_that_is_no_token_is_the_replacement_character(tokenizer: SlowLlamaTokenizer) -> None:
    assert tokenizer.decode([len(tokenizer), -1, 10**9]).replace(" ", "") == "\ufffd" * 3


def test_a_first_word_keeps_the_space_before_it(any_tokenizer: SlowLlamaTokenizer) -> None:
    with_space = {any_tokenizer.id_of(f"\u2581{'the'[:n]}") for n in range(4)}
    assert any_tokenizer.encode("the")[1] in with_space - {None}


@given(text=texts())
def test_any_text_has_tokens_of_the_vocabulary(
    any_tokenizer: SlowLlamaTokenizer, text: str
) -> None:
    ids = any_tokenizer.encode(text)
    assert ids[0] == any_tokenizer.id_of("<s>")
    assert all(0 <= i < len(any_tokenizer) for i in ids)


@given(ids=st.lists(st.integers(0, 1100), max_size=20))
def test_any_tokens_have_a_text(any_tokenizer: SlowLlamaTokenizer, ids: list[int]) -> None:
    any_tokenizer.decode(ids).encode()


@given(ids=st.lists(st.integers(0, 999), max_size=20), cut=st.integers(0, 20))
def test_more_tokens_leave_the_text_before_them_as_it_is(
    any_tokenizer: SlowLlamaTokenizer, ids: list[int], cut: int
) -> None:
    before = any_tokenizer.decode(ids[:cut]).rstrip("\ufffd")
    assert any_tokenizer.decode(ids).startswith(before)


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\u2581")))
def test_plain_text_comes_back_as_it_was(tokenizer: SlowLlamaTokenizer, text: str) -> None:
    decoded = tokenizer.decode(tokenizer.encode(f"<|user|>{text.lstrip()}x"))
    assert decoded == f"<|user|> {text.lstrip()}x"


@pytest.mark.parametrize("text", ["\ud800", "a\udfff<|end|>", "\ude00\ud83d"])
def test_half_a_surrogate_pair_is_a_value_error(tokenizer: SlowLlamaTokenizer, text: str) -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        tokenizer.encode(text)


def test_threads_may_share_a_tokenizer(tokenizer: SlowLlamaTokenizer) -> None:
    cases = golden.read("tokenizer_cases")["encode"] * 5
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(tokenizer.encode, [case["text"] for case in cases]))
    assert ids == [case["ids"] for case in cases]


def test_a_prompt_of_many_tiles_is_one_token_per_mark(tokenizer: SlowLlamaTokenizer) -> None:
    ids = tokenizer.encode(f"<img>{'<IMG_CONTEXT>' * 13_312}</img>")
    assert ids.count(tokenizer.id_of("<IMG_CONTEXT>") or 0) == 13_312
    assert len(ids) == 13_312 + 3


def test_flags_are_shown_as_they_were_read(tmp_path: Path) -> None:
    files = changed(tmp_path, legacy=True, add_eos_token=True).files
    assert (files.legacy, files.add_bos, files.add_eos, files.cleans_up) == (
        True,
        True,
        True,
        False,
    )
    assert json.dumps([files.bos, files.eos, files.unk]) == '["<s>", "<|endoftext|>", "<unk>"]'
