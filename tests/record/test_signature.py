"""Signatures: taken apart in one place, and the same text again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.record.panel import Panel
from mmie_tasks.record.signature import Signature, signature_text

WORD = st.text(st.characters(exclude_characters="|"), max_size=8)
TEXTS = st.lists(st.builds("{}:{}".format, WORD, WORD) | WORD, max_size=9).map("|".join)
KEYS = st.text("abcdefg_", min_size=1, max_size=4)
VALUES = st.text(st.characters(exclude_characters="|"), max_size=8)
JUDGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=3)
FIELDS = st.dictionaries(KEYS.map("of_{}".format), VALUES, max_size=4)

MMIE = (
    "judge:mmie_score|model:MMIE-Eval|checkpoint:1f2e|paper_judge:yes|prompt:official|"
    "reader:official+robust|task:mmie@5-C|data:sha256:12ab|pkg:0.1.0"
)
PANEL = (
    "panel:median,min_valid=2|judge:openai|model:gpt-4o|t:0|judge:openai|host:10.0.0.1|model:qwen|"
    "paper_judge:no|task:mia_bench@3-B|data:x|pkg:0.1.0"
)


@given(TEXTS)
def test_a_signature_is_the_same_text_again(text: str) -> None:
    signature = Signature.parse(text)
    assert str(signature) == text
    assert "|".join(signature.parts) == "|".join(filter(None, text.split("|")))
    assert all(signature.has(*part.partition(":")[::2]) for part in signature.parts if ":" in part)
    assert all(str(judge) in text for judge in signature.judges)
    assert len(signature.fields) <= len(signature.parts)


@given(JUDGES, FIELDS)
def test_what_is_written_is_read_again(judges: list[dict[str, str]], added: dict[str, str]) -> None:
    parts = [signature_text(judge="x", **judge) for judge in judges]
    written = Signature.parse(signature_text(*parts, paper_judge="no", **added))
    assert [str(judge) for judge in written.judges] == parts
    if len(judges) == 1:
        assert written.fields == {"judge": "x", **judges[0], "paper_judge": "no", **added}
    for key in dict.fromkeys(key for judge in judges for key in judge):
        of_judges = ", ".join(judge.get(key, "none") for judge in judges)
        assert written.fields[key].startswith(of_judges)


@pytest.mark.parametrize(
    ("text", "name", "panel", "other_judge", "judges"),
    [
        pytest.param(MMIE, "MMIE-Eval", None, False, 1, id="the paper's judge"),
        pytest.param(
            PANEL,
            "panel of gpt-4o, qwen (median)",
            Panel(rule="median", min_valid=2),
            True,
            2,
            id="panel",
        ),
        pytest.param("task:milebench@1-B|data:x", "", None, False, 0, id="by rule"),
        pytest.param("", "", None, False, 0, id="empty"),
    ],
)
def test_what_a_signature_says(
    text: str, name: str, panel: Panel | None, other_judge: bool, judges: int
) -> None:
    signature = Signature.parse(text)
    assert signature.name == name
    assert signature.panel == panel
    assert signature.is_of_another_judge is other_judge
    assert len(signature.judges) == judges


def test_a_judges_own_signature_ends_before_the_benchmarks_part() -> None:
    own = "judge:mmie_score|model:MMIE-Eval|checkpoint:1f2e"
    assert list(map(str, Signature(MMIE).judges)) == [own]
    replayed = Signature.parse(f"{own}|replayed:12ab|paper_judge:yes|prompt:official")
    assert [str(judge.recorded) for judge in replayed.judges] == [own]
