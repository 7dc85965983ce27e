"""How a MileBench request is put together, as the official code does it.

Source: ``MileBenchDataset.__getitem__`` in ``utils.py`` of MileBench at 9583e1f. Instructions and
contexts come from the annotation files; the few fixed words are facts of the format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mmie_tasks.benchmarks.milebench.sample import BadSample, Sample

PLACE = "<ImageHere>"
_UNLETTERED = "GPR1200"  # its options outnumber the alphabet, so the official prompt shows none


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
    """The official truncation: from the left, whole fragments between images at a time."""

    tokenizer: Tokenizer
    max_context_tokens: int
    tokens_per_image: int


@dataclass(frozen=True, slots=True)
class ImagePlace:
    """Where an image stands in a prompt; ``index`` counts the sample's images from 0."""

    index: int


Part = str | ImagePlace


@dataclass(frozen=True, slots=True)
class Prompt:
    """Text and image places, in order."""

    parts: tuple[Part, ...]

    @property
    def images(self) -> list[int]:
        """The indices of the images shown, in order."""
        return [part.index for part in self.parts if isinstance(part, ImagePlace)]

    def text(self, place: Callable[[int], str] = lambda _: PLACE) -> str:
        """The prompt as one text; ``place`` writes the n-th image shown (from 1).

        The default gives the official text.
        """
        shown, pieces = 0, []
        for part in self.parts:
            if isinstance(part, ImagePlace):
                shown += 1
            pieces.append(part if isinstance(part, str) else place(shown))
        return "".join(pieces)


def choice_block(sample: Sample) -> str:
    r"""The options as the prompt lists them; nothing for an open question.

    Letters are ``chr(65 + i)`` whatever ``i``, and GPR1200 has none, as official.
    """
    if not sample.choices:
        return ""
    lettered = sample.dataset != _UNLETTERED
    lines = [f"{chr(65 + i)}. {c}" if lettered else c for i, c in enumerate(sample.choices)]
    return "\nChoice list: \n" + "\n".join(lines) + "\nYour answer is: "


def interleaved(sample: Sample, truncation: Truncation | None = None) -> Prompt:
    """Instruction first, then the context with every image at its place.

    As official, images are dealt out from the end: the last place gets the last image. One image
    more than there are places stands before the context; a place without an image (a literal
    ``<ImageHere>`` in the text) stays as text.
    """
    context = sample.context + choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        context = context.replace(f"{{image#{k}}}", PLACE).replace(f"{{table#{k}}}", PLACE)
    fragments, leading = _kept(context, sample.instruction, len(sample.images), truncation)
    before = ["", *fragments[:-1]] if leading else fragments[:-1]
    first = len(sample.images) - len(before)  # index of the image at the first place; below 0: none
    parts: list[Part] = [sample.instruction + "\n"]
    for index, fragment in enumerate(before, start=first):
        parts += [fragment, ImagePlace(index) if index >= 0 else PLACE]
    parts.append(fragments[-1])
    return Prompt(tuple(part for part in parts if part != ""))


def combined(sample: Sample, truncation: Truncation | None = None) -> Prompt:
    """One picture that holds all images, then instruction and context with ``<Image k> `` marks.

    The picture is image 0 of the prompt. Truncation does not count it, as official.

    Raises:
        BadSample: The annotation names more than one combined picture (the official code asserts).
    """
    if len(sample.combined) > 1:
        raise BadSample(
            f"{sample.dataset}, sample {sample.sample_id}: `combined_1_images` names "
            f"{len(sample.combined)} files, and one is allowed"
        )
    context = sample.context + choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        mark = f"<Image {k}> "
        context = context.replace(f"{{image#{k}}}", mark).replace(f"{{table#{k}}}", mark)
    uncounted = truncation and replace(truncation, tokens_per_image=0)
    fragments, _ = _kept(context, sample.instruction, 0, uncounted)
    return Prompt((ImagePlace(0), "\n" + sample.instruction + "\n" + PLACE.join(fragments)))


def _kept(
    context: str, instruction: str, n_images: int, truncation: Truncation | None
) -> tuple[list[str], bool]:
    """The fragments between places that stay, and whether an image stands before the first."""
    fragments = context.split(PLACE)
    if truncation is None:
        return fragments, n_images >= len(fragments)
    return _truncated(fragments, instruction, n_images, truncation)


def _truncated(
    fragments: list[str], instruction: str, n_images: int, truncation: Truncation
) -> tuple[list[str], bool]:
    """Walk from the end while text and images fit.

    Quirks kept: a fragment is kept whole or dropped, but the very last, which is cut; a budget of
    0 or less cuts nothing or from the wrong end (``ids[-budget:]``); every text is decoded from
    its tokens, cut or not.
    """
    encode, decode = truncation.tokenizer.encode, truncation.tokenizer.decode
    budget = truncation.max_context_tokens - len(encode(instruction, add_special_tokens=False))
    kept: list[str] = []
    used, leading = 0, False
    for fragment in reversed(fragments):
        ids = encode(fragment, add_special_tokens=False)
        if len(ids) + used > budget:
            if not kept:
                kept.append(decode(ids[-budget:]))
            break
        kept.insert(0, decode(ids))
        used, leading = used + len(ids), False
        if used + truncation.tokens_per_image > budget:
            break
        if n_images:
            n_images, leading = n_images - 1, True
            used += truncation.tokens_per_image
    return kept, leading
