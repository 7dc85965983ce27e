"""MileBench's prompts, as the official code builds them.

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
    """An image in a prompt; ``index`` counts the sample's images from 0."""

    index: int


PromptPart: TypeAlias = str | PromptImage


@dataclass(frozen=True, slots=True)
class QuestionPrompt:
    """Texts and images in order."""

    parts: tuple[PromptPart, ...]

    @property
    def images(self) -> list[int]:
        """The indices of the images shown, in order."""
        return [part.index for part in self.parts if isinstance(part, PromptImage)]

    def text(self, placeholder: Callable[[int], str] = lambda _: PLACEHOLDER) -> str:
        """The prompt as one text.

        Args:
            placeholder: The text for the n-th image shown, counted from 1; by default the official
                one.
        """
        shown = itertools.count(1)
        return "".join(p if isinstance(p, str) else placeholder(next(shown)) for p in self.parts)


def _choice_block(sample: Sample) -> str:
    """The options as the prompt lists them; as in the official code, ``chr(65 + i)`` for any ``i``
    is a letter.
    """
    if not sample.choices:
        return ""
    with_letters = sample.dataset != _WITHOUT_LETTERS
    lines = [f"{chr(65 + i)}. {c}" if with_letters else c for i, c in enumerate(sample.choices)]
    return "\nChoice list: \n" + "\n".join(lines) + "\nYour answer is: "


def interleaved(sample: Sample) -> QuestionPrompt:
    """Instruction first, then the context with every image at its placeholder.

    As in the official code, images are assigned from the end: the last placeholder gets the last
    image. If there is one image more than placeholders, it precedes the context; a
    placeholder without an image (a literal ``<ImageHere>`` in the text) stays text.
    """
    *before_images, last = _context(sample, lambda _: PLACEHOLDER).split(PLACEHOLDER)
    if len(sample.images) > len(before_images):
        before_images.insert(0, "")
    first = len(sample.images) - len(before_images)  # index of the first image; negative: none
    parts: list[PromptPart] = [sample.instruction + "\n"]
    for index, fragment in enumerate(before_images, start=first):
        parts += [fragment, PromptImage(index) if index >= 0 else PLACEHOLDER]
    parts.append(last)
    return QuestionPrompt(tuple(part for part in parts if part != ""))


def combined(sample: Sample) -> QuestionPrompt:
    """One picture that holds all images, then instruction and context with ``<Image k> `` marks.

    The picture is image 0 of the prompt.

    Raises:
        BadSample: The annotation names more than one combined picture (the official code asserts).
    """
    if len(sample.combined) > 1:
        raise BadSample(
            f"{sample.dataset}, sample {sample.sample_id}: `combined_1_images` names "
            f"{len(sample.combined)} files, and one is allowed"
        )
    context = _context(sample, lambda k: f"<Image {k}> ")
    return QuestionPrompt((PromptImage(0), f"\n{sample.instruction}\n{context}"))


def _context(sample: Sample, placeholder: Callable[[int], str]) -> str:
    """The context with the options, and ``placeholder(k)`` for the k-th image, from 1."""
    context = sample.context + _choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        mark = placeholder(k)
        context = context.replace(f"{{image#{k}}}", mark).replace(f"{{table#{k}}}", mark)
    return context
