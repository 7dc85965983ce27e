import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.golden import vectors

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.tokenizer import SlowLlamaTokenizer

VARIANTS = vectors("internvl_tokenizer_variants")


@pytest.fixture(scope="module")
def tokenizer():
    return SlowLlamaTokenizer(golden.CHECKPOINT)


def test_every_golden_text_has_the_official_tokens_and_the_reverse(tokenizer):
    cases = golden.read("tokenizer_cases")
    encode, decode = cases["encode"], cases["decode"]
    assert [tokenizer.encode(case["text"]) for case in encode] == [case["ids"] for case in encode]
    assert [tokenizer.decode(case["ids"]) for case in decode] == [case["text"] for case in decode]


@pytest.mark.parametrize("variant", VARIANTS["variants"], ids=lambda variant: variant["id"])
def test_every_flag_has_its_official_effect(variant, tmp_path):
    def change(config):
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


@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="<\u2581")))
def test_plain_text_survives_encoding_and_decoding(tokenizer, text):
    decoded = tokenizer.decode(tokenizer.encode(f"<|user|>{text.lstrip()}x"))
    assert decoded == f"<|user|> {text.lstrip()}x"


# Broken and unsupported files.

SENTENCEPIECE = "tokenizer.model`: it is not a sentencepiece model, or is truncated"


def setting(**fields):
    return lambda config: config.update(fields)


def without(token):
    def change(config):
        listed = json.dumps(config["added_tokens_decoder"]).replace(json.dumps(token), '"<other>"')
        config |= {"added_tokens_decoder": json.loads(listed), "additional_special_tokens": []}

    return change


MARKS = ("<|system|>", "<|user|>", "<|end|>", "<img>", "<IMG_CONTEXT>")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", SENTENCEPIECE),
        ((golden.CHECKPOINT / "tokenizer.model").read_bytes()[:-1], SENTENCEPIECE),
        (setting(tokenizer_class="Qwen2Tokenizer"), "'Qwen2Tokenizer'"),
        (setting(tokenizer_class="LlamaTokenizerFast"), "should be 'LlamaTokenizer'"),
        (setting(tokenizer_class=None), "`tokenizer_class`"),
        (setting(legacy="false"), "`legacy`"),
        (setting(bos_token=None), "`bos_token"),
        (setting(additional_special_tokens=["<new>"]), "lacks the token '<new>'"),
        (setting(add_eos_token=True), "`add_eos_token`"),
        *((without(mark), f"lacks the token {mark!r}") for mark in MARKS),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_problem(change, problem, tmp_path):
    if isinstance(change, bytes):
        folder, file = golden.tokenizer_folder(tmp_path), "tokenizer.model"
        (folder / file).write_bytes(change)
    else:
        folder, file = golden.tokenizer_folder(tmp_path, change), "tokenizer_config.json"
    with pytest.raises(JudgeMisconfigured, match="hint: download the whole repository") as caught:
        SlowLlamaTokenizer(folder)
    assert str(folder / file) in str(caught.value)
    assert problem in str(caught.value)
