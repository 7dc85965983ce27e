"""Prompts, byte for byte what the official dataset class builds."""

import pytest
from support.golden import vectors

from mmie_tasks.benchmarks.milebench.prompts import PromptImage, combined, interleaved
from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.core.errors import BadSample

# Shorter limits cut the context; this package never cuts it.
CASES = [case for case in vectors("milebench")["prompts"] if case["max_context_len"] >= 100]
TOLERATED = {"choice_list_none"}  # the official code raises; the Hub's parquet files have it so


def sample_of(case):
    return Sample.from_annotation(
        case["annotation"],
        dataset=case["dataset"],
        rule="rouge",
        instructions=case["task_instruction"],
    )


def assembled(case):
    return (combined if case["combine_image"] else interleaved)(sample_of(case))


def by_name(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


BUILT = [case for case in CASES if not case["expected"].get("raises")]


@pytest.mark.parametrize("case", by_name(BUILT))
def test_text_and_images_are_the_official_ones(case):
    prompt, sample = assembled(case), sample_of(case)
    files = sample.combined if case["combine_image"] else sample.images
    folder = "combined_1_images" if case["combine_image"] else "images"
    assert prompt.text() == case["expected"]["context"]
    assert [f"ROOT/{folder}/{files[i]}" for i in prompt.images] == case["expected"]["images"]
    assert sample.gold == case["expected"]["response"]


@pytest.mark.parametrize("case", by_name(c for c in CASES if c["expected"].get("raises")))
def test_a_prompt_that_raises_officially_raises_or_is_tolerated_by_name(case):
    if case["name"] in TOLERATED:
        assert assembled(case).images == [0]
        return
    with pytest.raises(BadSample, match="sample 0: `combined_1_images`"):
        assembled(case)


def make(context, n_images, **fields):
    return Sample(
        dataset=fields.pop("dataset", "DocVQA"),
        sample_id="0",
        rule="choice",
        instruction="Do it.",
        context=context,
        images=tuple(f"{k}.png" for k in range(n_images)),
        gold="a",
        **fields,
    )


def test_images_are_at_their_placeholders():
    prompt = interleaved(make("one {image#1} two {table#2} three", 2))
    assert prompt.content == ("Do it.\n", "one ", PromptImage(0), " two ", PromptImage(1), " three")


def test_an_image_without_a_placeholder_stands_before_the_context():
    prompt = interleaved(make("q", 1))
    assert prompt.content == ("Do it.\n", PromptImage(0), "q")


def test_a_placeholder_without_an_image_stays_text():
    prompt = interleaved(make("<ImageHere>{image#1}q", 1))
    assert prompt.content == ("Do it.\n", "<ImageHere>", PromptImage(0), "q")


def test_no_image_makes_a_text_prompt():
    assert interleaved(make("just text", 0)).images == []


def test_gpr1200_shows_no_letters():
    sample = make("q", 0, dataset="GPR1200", choices=("image1", "image2"))
    assert interleaved(sample).text().endswith("\nimage1\nimage2\nYour answer is: ")


def test_a_wrapper_can_number_the_images():
    prompt = interleaved(make("{image#1}{image#2}q", 2))
    assert prompt.text(lambda n: f"[image {n}]") == "Do it.\n[image 1][image 2]q"
