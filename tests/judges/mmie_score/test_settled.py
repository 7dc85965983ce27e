from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from support import internvl_golden as golden

from mmie_tasks.judges.mmie_score.judge import score_settled

_PIECES = ["### Score", "\n", "4", "５", ".", "-", " ", "a", "#", " 10", "\u0663", "\ufffd", "/6"]


def find_score(text: str) -> int | None:
    """The official rule: the first number after the first heading, rounded half to even."""
    _, heading, after = text.partition("### Score")
    number = re.search(r"-?\d+(\.\d+)?", after)
    return round(float(number[0])) if heading and number else None


def texts() -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(_PIECES), max_size=9).map("".join)


def test_the_rule_in_this_file_is_the_official_one() -> None:
    cases = golden.read("score_cases")
    assert [find_score(case["text"]) for case in cases] == [case["score"] for case in cases]


@given(before=texts(), after=texts() | st.text())
@example(before="### Score 4.", after="5")
@example(before="### Score 4", after="0")
def test_a_settled_score_stays_whatever_follows(before: str, after: str) -> None:
    text = f"### Score{before}"
    if score_settled(text):
        assert find_score(text + after) == find_score(text) is not None


@given(before=texts())
def test_a_character_that_is_still_missing_bytes_settles_nothing(before: str) -> None:
    assert not score_settled(f"### Score{before}\ufffd")


@given(text=texts())
def test_a_score_that_nothing_can_change_is_settled(text: str) -> None:
    if find_score(text) is not None and not text.endswith("\ufffd"):
        ends = ("0", ".9", "9.9", "５")
        changes = any(_number(text + end) != _number(text) for end in ends)
        assert score_settled(text) is not changes


def _number(text: str) -> str:
    found = re.search(r"### Score.*?(-?\d+(\.\d+)?)", text, re.DOTALL)
    return found[1] if found else ""


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        pytest.param("", False, id="nothing"),
        pytest.param("### Score", False, id="no number yet"),
        pytest.param("4 ### Scor", False, id="no heading yet"),
        pytest.param("### Score\n4", False, id="may go on"),
        pytest.param("### Score\n4.", False, id="may be a decimal point"),
        pytest.param("### Score\n4.5", False, id="decimals may go on"),
        pytest.param("### Score\n4.5.", True, id="a second point"),
        pytest.param("### Score\n4. ", True, id="a full stop"),
        pytest.param("### Score\n4\n", True, id="a line"),
        pytest.param("### Score\n4/", True, id="out of"),
        pytest.param("### Score\n-", False, id="a sign"),
        pytest.param("### Score\n４", False, id="a full-width digit may go on"),
        pytest.param("### Score\n４ ", True, id="a full-width digit"),
        pytest.param("### Score\n4\ufffd", False, id="inside a character"),
        pytest.param("### Score\n4.\ufffd", False, id="inside one behind a point"),
        pytest.param("### Score\n4\ufffd ", True, id="behind a broken character"),
    ],
)
def test_a_score_is_settled_when_its_number_has_ended(text: str, settled: bool) -> None:
    assert score_settled(text) is settled
