"""MileBench's prompts, as the official code builds them.

Source: ``MileBenchDataset.__getitem__`` in ``utils.py`` of MileBench at 9583e1f. Instructions and
contexts come from the annotation files; the few fixed words are part of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

from mmie_tasks.benchmarks.milebench.sample import BadSample, Sample

PLACEHOLDER = "<ImageHere>"
_WITHOUT_LETTERS = "GPR1200"  # more options than letters, so the official prompt shows no letters


class Tokenizer(Protocol):
    """What truncation needs of a tokenizer: text to token ids and back."""

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """Token ids of the text."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of the ids."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """The official truncation: from the left, whole fragments between images at a time.

    Attributes:
        tokenizer: Counts tokens.
        max_context_tokens: Limit of instruction, context and images together.
        tokens_per_image: What each image counts.
    """

    tokenizer: Tokenizer
    max_context_tokens: int
    tokens_per_image: int


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
        shown, texts = 0, []
        for part in self.parts:
            if isinstance(part, PromptImage):
                shown += 1
            texts.append(part if isinstance(part, str) else placeholder(shown))
        return "".join(texts)


def choice_block(sample: Sample) -> str:
    r"""The options as the prompt lists them; empty for an open question.

    As in the official code, letters are ``chr(65 + i)`` for any ``i``, and GPR1200 has none.
    """
    if not sample.choices:
        return ""
    with_letters = sample.dataset != _WITHOUT_LETTERS
    lines = [f"{chr(65 + i)}. {c}" if with_letters else c for i, c in enumerate(sample.choices)]
    return "\nChoice list: \n" + "\n".join(lines) + "\nYour answer is: "


def interleaved(sample: Sample, truncation: Truncation | None = None) -> QuestionPrompt:
    """Instruction first, then the context with every image at its placeholder.

    As in the official code, images are assigned from the end: the last placeholder gets the last
    image. If there is one image more than placeholders, it precedes the context; a
    placeholder without an image (a literal ``<ImageHere>`` in the text) stays text.
    """
    context = _context(sample, lambda _: PLACEHOLDER)
    fragments, leading = _fragments(context, sample.instruction, len(sample.images), truncation)
    before_images = ["", *fragments[:-1]] if leading else fragments[:-1]
    first = len(sample.images) - len(before_images)  # index of the first image; negative: none
    parts: list[PromptPart] = [sample.instruction + "\n"]
    for index, fragment in enumerate(before_images, start=first):
        parts += [fragment, PromptImage(index) if index >= 0 else PLACEHOLDER]
    parts.append(fragments[-1])
    return QuestionPrompt(tuple(part for part in parts if part != ""))


def combined(sample: Sample, truncation: Truncation | None = None) -> QuestionPrompt:
    """One picture that holds all images, then instruction and context with ``<Image k> `` marks.

    The picture is image 0 of the prompt. As in the official code, truncation does not count it.

    Raises:
        BadSample: The annotation names more than one combined picture (the official code asserts).
    """
    if len(sample.combined) > 1:
        raise BadSample(
            f"{sample.dataset}, sample {sample.sample_id}: `combined_1_images` names "
            f"{len(sample.combined)} files, and one is allowed"
        )
    context = _context(sample, lambda k: f"<Image {k}> ")
    without_images = truncation and replace(truncation, tokens_per_image=0)
    fragments, _ = _fragments(context, sample.instruction, 0, without_images)
    text = PLACEHOLDER.join(fragments)
    return QuestionPrompt((PromptImage(0), f"\n{sample.instruction}\n{text}"))


def _context(sample: Sample, placeholder: Callable[[int], str]) -> str:
    """The context with the options, and ``placeholder(k)`` for the k-th image, from 1."""
    context = sample.context + choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        mark = placeholder(k)
        context = context.replace(f"{{image#{k}}}", mark).replace(f"{{table#{k}}}", mark)
    return context


def _fragments(
    context: str, instruction: str, n_images: int, truncation: Truncation | None
) -> tuple[list[str], bool]:
    """The remaining fragments between placeholders, and whether an image precedes the first."""
    fragments = context.split(PLACEHOLDER)
    if truncation is None:
        return fragments, n_images >= len(fragments)
    return _truncated(fragments, instruction, n_images, truncation)


def _truncated(
    fragments: list[str], instruction: str, n_images: int, truncation: Truncation
) -> tuple[list[str], bool]:
    """Add fragments from the end while text and images fit.

    Quirks of the official code: a fragment stays whole or is dropped, except the very last, which
    is cut; a budget of 0 or less cuts nothing or from the wrong end (``ids[-budget:]``); every
    text is decoded from its tokens, cut or not.
    """
    encode, decode = truncation.tokenizer.encode, truncation.tokenizer.decode
    budget = truncation.max_context_tokens - len(encode(instruction, add_special_tokens=False))
    remaining: list[str] = []
    used, leading = 0, False
    for fragment in reversed(fragments):
        ids = encode(fragment, add_special_tokens=False)
        if len(ids) + used > budget:
            if not remaining:
                remaining.append(decode(ids[-budget:]))
            break
        remaining.insert(0, decode(ids))
        used, leading = used + len(ids), False
        if used + truncation.tokens_per_image > budget:
            break
        if n_images:
            n_images, leading = n_images - 1, True
            used += truncation.tokens_per_image
    return remaining, leading
