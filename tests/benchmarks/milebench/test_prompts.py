"""Prompts, byte for byte what the official dataset class builds."""

from dataclasses import replace
from pathlib import Path

import pytest
from support.golden import vectors

from mmie_tasks.benchmarks.milebench.prompts import PLACEHOLDER, question_content
from mmie_tasks.benchmarks.milebench.sample import MileSample
from mmie_tasks.core.errors import BadSample

# Shorter limits cut the context; this package never cuts it.
CASES = [case for case in vectors("milebench")["prompts"] if case["max_context_len"] >= 100]
TOLERATED = "choice_list_none"  # the official code raises; the Hub's parquet files have it so


def sample_of(case):
    return MileSample.from_annotation(
        case["annotation"],
        dataset=case["dataset"],
        rule="rouge",
        instructions=case["task_instruction"],
    )


def text(content):
    return "".join(PLACEHOLDER if isinstance(part, Path) else part for part in content)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_text_and_images_are_the_official_ones(case):
    expected, folder = case["expected"], "images"
    if case["combine_image"]:
        folder = "combined_1_images"
        if expected.get("raises"):
            with pytest.raises(BadSample, match="sample 0: `combined_1_images`"):
                question_content(sample_of(case), combined=True)
            return
    content = question_content(sample_of(case), combined=case["combine_image"])
    images = [part for part in content if isinstance(part, Path)]
    if expected.get("raises"):
        assert (case["name"], len(images)) == (TOLERATED, 1)
        return
    assert text(content) == expected["context"]
    assert [f"ROOT/{folder}/{name}" for name in images] == expected["images"]
    assert sample_of(case).gold == expected["response"]


def test_gpr1200_shows_no_letters():
    options = ("image1", "image2")
    sample = replace(sample_of(CASES[0]), dataset="GPR1200", images=(), choices=options)
    assert text(question_content(sample)).endswith("\nimage1\nimage2\nYour answer is: ")
