"""The official prompt, made from the runner's text, against the notebook's hashes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mia_bench.prompts import (
    OfficialTextChanged,
    check,
    official,
    runner_prompt,
)
from mmie_tasks.benchmarks.mia_bench.request import prompt_maker

ENDING = "in this EXACT format: a. Use only numbers, please. Then explain."
CUT = "in this format: a. Then explain."


def make(instruction, components, weights, response):
    return f"{instruction} {components} {weights} {response}' {ENDING}"


@pytest.mark.parametrize(
    "response",
    [
        pytest.param("", id="empty"),
        pytest.param("EXACT  Use only numbers Then explain", id="anchors"),
        pytest.param(ENDING, id="ending"),
        pytest.param(ENDING * 2, id="twice"),
    ],
)
def test_only_the_ending_is_cut(response):
    assert official(make("I", [], [], response)) == f"I [] [] {response}' {CUT}"


@given(st.lists(st.sampled_from(["EXACT ", " Use only numbers", " Then explain", "x"])))
def test_no_response_moves_the_cut(pieces):
    response = "".join(pieces)
    assert official(f"{response}{ENDING}") == f"{response}{CUT}"


@pytest.mark.parametrize("anchor", ["EXACT ", " Use only numbers", " Then explain"])
def test_an_ending_that_is_not_known_is_an_error(anchor):
    with pytest.raises(OfficialTextChanged, match=anchor.strip()):
        official(make("I", [], [], "R").replace(anchor, ""))


def test_another_text_does_not_pass_the_check():
    with pytest.raises(OfficialTextChanged, match="1 components"):
        check(make)


def test_the_installed_runner_gives_the_official_text():
    check(prompt_maker())


@pytest.mark.parametrize("source", ["", "def generate_prompt(", "def another(): ...", "x = 1\0"])
def test_a_runner_without_the_prompt_is_named(source):
    with pytest.raises(OfficialTextChanged, match="no MIA-Bench prompt"):
        runner_prompt(source)


@pytest.mark.parametrize(
    "expression",
    ["instruction.strip()", "other", "d['components'][7]", "d['other'][0]", "instruction * 2", "1"],
)
def test_a_prompt_of_another_form_is_never_evaluated(expression):
    source = (
        "def generate_prompt(d, response):\n"
        "    if d['num_of_component'] == 1:\n        components = 'a'\n"
        f"    return 'x' + {expression}\n"
    )
    with pytest.raises(OfficialTextChanged, match="cannot be made"):
        runner_prompt(source)("I", ["C1"], [1], "R")


def test_a_number_of_components_without_a_form_is_named():
    with pytest.raises(OfficialTextChanged, match="6 components"):
        prompt_maker()("I", ["C"] * 6, [1] * 6, "R")


def test_a_response_the_runner_changes_does_not_pass_the_check():
    def stripped(instruction, components, weights, response):
        return prompt_maker()(instruction, components, weights, response.strip())

    with pytest.raises(OfficialTextChanged, match="changes the response"):
        check(stripped)


def test_the_callers_lists_are_left_alone():
    components, weights = ["C1", "C2"], [1, 2]
    prompt_maker()("I", components, weights, "R")
    assert (components, weights) == (["C1", "C2"], [1, 2])
