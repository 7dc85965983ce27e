"""Signatures: taken apart in one place, and the same text again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from support.signatures import signature_of

from mmie_tasks.record.signature import Signature

KEYS = st.text("abcdefg_", min_size=1, max_size=3)
VALUES = st.text(st.characters(exclude_characters="|"), max_size=8)
JUDGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=3)
FIELDS = st.dictionaries(KEYS.map("of_{}".format), VALUES, max_size=4)

MMIE = (
    "judge:mmie_score|model:MMIE-Eval|checkpoint:1f2e|paper_judge:yes|prompt:official|"
    "reader:official+robust|task:mmie@5-C|data:sha256:12ab|pkg:0.1.0"
)
PANEL = (
    "judge:openai|model:gpt-4o|t:0|judge:openai|host:10.0.0.1|model:qwen|"
    "paper_judge:no|task:mia_bench@3-B|data:x|pkg:0.1.0"
)


@given(JUDGES, FIELDS)
def test_a_signature_is_the_same_value_again(
    judges: list[dict[str, str]], added: dict[str, str]
) -> None:
    own = tuple({"judge": "x", **judge} for judge in judges)
    signature = Signature(judges=own, benchmark={"paper_judge": "no", **added}, package="1.2")
    assert signature_of(str(signature)) == signature
    adapter = TypeAdapter(Signature)
    written = json.loads(json.dumps(adapter.dump_python(signature)))
    assert adapter.validate_python(written) == signature
    assert hash(adapter.validate_python(written)) == hash(signature)
    assert signature.judges == own
    for key in dict.fromkeys(key for judge in own for key in judge):
        assert signature.fields[key] == ", ".join(judge.get(key, "none") for judge in own)
    assert signature.fields["pkg"] == "1.2"


@pytest.mark.parametrize(
    ("text", "name", "other_judge", "judges"),
    [
        pytest.param(MMIE, "MMIE-Eval", False, 1, id="the paper's judge"),
        pytest.param(PANEL, "panel of gpt-4o, qwen (median)", True, 2, id="panel"),
        pytest.param("task:milebench@1-B|data:x", "", False, 0, id="by rule"),
        pytest.param("", "", False, 0, id="empty"),
    ],
)
def test_what_a_signature_says(text: str, name: str, other_judge: bool, judges: int) -> None:
    signature = signature_of(text)
    assert signature.name == name
    assert signature.is_panel is (judges == 2)
    assert signature.is_of_another_judge is other_judge
    assert len(signature.judges) == judges


def test_a_judges_own_signature_ends_before_the_benchmarks_part() -> None:
    own = "judge:mmie_score|model:MMIE-Eval|checkpoint:1f2e"
    assert [str(Signature(judges=(judge,))) for judge in signature_of(MMIE).judges] == [own]
    replayed = signature_of(f"{own}|replayed:12ab|paper_judge:yes|prompt:official")
    judges = replayed.without("replayed").judges
    assert [str(Signature(judges=(judge,))) for judge in judges] == [own]


def test_a_judge_that_could_not_be_opened_is_not_the_papers() -> None:
    text = "judge:unknown|why:no key|reader:official+robust|task:mmie@8-C|data:sha256:1|pkg:0.1.0"
    signature = signature_of(text)
    assert signature.judges == ({"judge": "unknown", "why": "no key"},)
    assert signature.benchmark["task"] == "mmie@8-C"
