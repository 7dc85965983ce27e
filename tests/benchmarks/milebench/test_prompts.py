"""Prompts, byte for byte what the official dataset class builds."""

from pathlib import Path

import pytest
from support.golden import vectors

from mmie_tasks.benchmarks.milebench.prompts import PLACEHOLDER, question_content
from mmie_tasks.benchmarks.milebench.sample import MileSample
from mmie_tasks.core.errors import BadSample

# Shorter limits cut the context; this package never cuts it.
CASES = [case for case in vectors("milebench")["prompts"] if case["max_context_len"] >= 100]
TOLERATED = {"choice_list_none"}  # the official code raises; the Hub's parquet files have it so


def sample_of(case):
    return MileSample.from_annotation(
        case["annotation"],
        dataset=case["dataset"],
        rule="rouge",
        instructions=case["task_instruction"],
    )


def assembled(case):
    return question_content(sample_of(case), combined=case["combine_image"])


def images(content):
    return [str(part) for part in content if isinstance(part, Path)]


def text(content):
    return "".join(PLACEHOLDER if isinstance(part, Path) else part for part in content)


def by_name(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


BUILT = [case for case in CASES if not case["expected"].get("raises")]


@pytest.mark.parametrize("case", by_name(BUILT))
def test_text_and_images_are_the_official_ones(case):
    content = assembled(case)
    folder = "combined_1_images" if case["combine_image"] else "images"
    assert text(content) == case["expected"]["context"]
    assert [f"ROOT/{folder}/{name}" for name in images(content)] == case["expected"]["images"]
    assert sample_of(case).gold == case["expected"]["response"]


@pytest.mark.parametrize("case", by_name(c for c in CASES if c["expected"].get("raises")))
def test_a_prompt_that_raises_officially_raises_or_is_tolerated_by_name(case):
    if case["name"] in TOLERATED:
        assert len(images(assembled(case))) == 1
        return
    with pytest.raises(BadSample, match="sample 0: `combined_1_images`"):
        assembled(case)


def test_gpr1200_shows_no_letters():
    sample = MileSample(
        dataset="GPR1200",
        sample_id="0",
        rule="choice",
        instruction="Do it.",
        context="q",
        images=(),
        gold="image1",
        choices=("image1", "image2"),
    )
    assert text(question_content(sample)).endswith("\nimage1\nimage2\nYour answer is: ")
