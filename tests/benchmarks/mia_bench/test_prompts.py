"""The official prompt, made from the installed runner's function."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mia_bench.prompts import find_function, judge_prompt

PIECES = ["EXACT ", " Use only numbers", " Then explain", "x", "\n"]
BEFORE, AFTER = judge_prompt("I", ["C1", "C2"], [4, 6], "\0").split("\0")


@given(st.lists(st.sampled_from(PIECES)))
def test_no_answer_moves_what_is_cut(pieces):
    answer = "".join(pieces)
    assert judge_prompt("I", ["C1", "C2"], [4, 6], answer) == f"{BEFORE}{answer}{AFTER}"


def test_the_additions_of_the_runner_are_cut():
    assert not any(piece in AFTER for piece in PIECES[:2])
    assert PIECES[2] in AFTER
    assert all(text in BEFORE + AFTER for text in ("I", "C1", "C2", "4", "6"))


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def generate_prompt(", id="no Python"),
        pytest.param("x = 1\0", id="NUL"),
        pytest.param("def generate_prompt(d, response):\n    return response", id="another"),
    ],
)
def test_no_other_function_is_run(source):
    assert find_function(source) == ""
