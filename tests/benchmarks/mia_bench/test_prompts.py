"""The official prompt, made from the runner's text, against the notebook's hashes."""

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mia_bench.prompts import OfficialTextChanged, check, official, parts
from mmie_tasks.runner import official_prompts

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


def test_the_text_comes_before_the_image():
    image = Path("a.png")
    assert parts("Grade.", image) == ("Grade.", image)


@pytest.mark.filterwarnings("default")  # the runner's imports are not ours
def test_the_runner_installed_here_gives_the_official_text():
    check(official_prompts.mia_bench)


def test_a_runner_without_the_prompt_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "lmms_eval.tasks.mia_bench.utils", None)
    with pytest.raises(OfficialTextChanged, match="no MIA-Bench prompt"):
        official_prompts.mia_bench("I", ["C1"], [1], "R")


def test_a_response_the_runner_changes_does_not_pass_the_check():
    def stripped(instruction, components, weights, response):
        return official_prompts.mia_bench(instruction, components, weights, response.strip())

    with pytest.raises(OfficialTextChanged, match="changes the response"):
        check(stripped)


def test_the_callers_lists_are_left_alone():
    components, weights = ("C1", "C2"), (1, 2)
    official_prompts.mia_bench("I", components, weights, "R")
    assert (components, weights) == (("C1", "C2"), (1, 2))
