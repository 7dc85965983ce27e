"""MileBench's prompts, as in the official code.

Source: ``MileBenchDataset.__getitem__`` in ``utils.py`` of MileBench at 9583e1f. Instructions and
contexts come from the annotation files; the few fixed words are part of the format.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.core.errors import BadSample

PLACEHOLDER = "<ImageHere>"
_WITHOUT_LETTERS = "GPR1200"  # more options than letters, so the official prompt shows no letters


@dataclass(frozen=True, slots=True)
class PromptImage:
    """An image in a prompt, by its index in the sample, from 0."""

    index: int


PromptPart: TypeAlias = str | PromptImage


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """Texts and images in order."""

    content: tuple[PromptPart, ...]

    @property
    def images(self) -> list[int]:
        """The indices of the shown images, in order."""
        return [part.index for part in self.content if isinstance(part, PromptImage)]

    def text(self, placeholder: Callable[[int], str] = lambda _: PLACEHOLDER) -> str:
        """The prompt as one text.

        Args:
            placeholder: The text for the n-th shown image, from 1; by default the official one.
        """
        shown = itertools.count(1)
        return "".join(p if isinstance(p, str) else placeholder(next(shown)) for p in self.content)


def _choice_block(sample: Sample) -> str:
    """The options in the prompt; their letter is ``chr(65 + i)`` for any ``i``, as officially."""
    if not sample.choices:
        return ""
    with_letters = sample.dataset != _WITHOUT_LETTERS
    lines = [f"{chr(65 + i)}. {c}" if with_letters else c for i, c in enumerate(sample.choices)]
    return "\nChoice list: \n" + "\n".join(lines) + "\nYour answer is: "


def interleaved(sample: Sample) -> QuestionPrompt:
    """The instruction, then the context with every image at its placeholder.

    As in the official code, the last placeholder gets the last image, and so on. One image without
    a placeholder precedes the context. A placeholder without an image (a literal ``<ImageHere>`` in
    the text) stays text.
    """
    *before_images, last = _context(sample, lambda _: PLACEHOLDER).split(PLACEHOLDER)
    if len(sample.images) > len(before_images):
        before_images.insert(0, "")
    first = len(sample.images) - len(before_images)  # index of the first image; negative: none
    content: list[PromptPart] = [sample.instruction + "\n"]
    for index, fragment in enumerate(before_images, start=first):
        content += [fragment, PromptImage(index) if index >= 0 else PLACEHOLDER]
    content.append(last)
    return QuestionPrompt(tuple(part for part in content if part != ""))


def combined(sample: Sample) -> QuestionPrompt:
    """The combined picture as image 0, then instruction and context with ``<Image k> `` marks.

    Raises:
        BadSample: The annotation names several combined pictures (an official assertion).
    """
    if len(sample.combined) > 1:
        raise BadSample(
            f"{sample.dataset}, sample {sample.sample_id}: `combined_1_images` names "
            f"{len(sample.combined)} files, and one is allowed"
        )
    context = _context(sample, lambda k: f"<Image {k}> ")
    return QuestionPrompt((PromptImage(0), f"\n{sample.instruction}\n{context}"))


def _context(sample: Sample, placeholder: Callable[[int], str]) -> str:
    """The context and options, with ``placeholder(k)`` for the k-th image, from 1."""
    context = sample.context + _choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        mark = placeholder(k)
        context = context.replace(f"{{image#{k}}}", mark).replace(f"{{table#{k}}}", mark)
    return context
