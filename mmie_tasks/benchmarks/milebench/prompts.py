"""MileBench's prompts, as in the official code.

Source: ``MileBenchDataset.__getitem__`` in ``utils.py`` of MileBench at 9583e1f. Instructions and
contexts come from the annotation files; the few fixed words are part of the format.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from mmie_tasks.benchmarks.milebench.sample import MileSample
from mmie_tasks.core.errors import BadSample

PLACEHOLDER = "<ImageHere>"
_WITHOUT_LETTERS = "GPR1200"  # more options than letters, so the official prompt shows no letters


def question_content(sample: MileSample, *, combined: bool = False) -> list[str | Path]:
    """The texts and image files of a question, in order.

    The instruction, then the context with every image at its placeholder. As in the official code,
    the last placeholder gets the last image, and so on. One image without a placeholder precedes
    the context. A placeholder without an image (a literal ``<ImageHere>`` in the text) stays text.

    If `combined`, the published image that shows all images, then instruction and context with
    ``<Image k> `` marks.

    Raises:
        BadSample: The annotation does not name one combined image (an official assertion).
    """
    if combined:
        if len(sample.combined) != 1:
            raise BadSample(
                f"{sample.dataset}, sample {sample.sample_id}: `combined_1_images` names "
                f"{len(sample.combined)} files instead of one"
            )
        context = _context(sample, lambda k: f"<Image {k}> ")
        return [Path(sample.combined[0]), f"\n{sample.instruction}\n{context}"]
    *before_images, last = _context(sample, lambda _: PLACEHOLDER).split(PLACEHOLDER)
    if len(sample.images) > len(before_images):
        before_images.insert(0, "")
    first = len(sample.images) - len(before_images)  # index of the first image; negative: none
    content: list[str | Path] = [sample.instruction + "\n"]
    for index, fragment in enumerate(before_images, start=first):
        content += [fragment, Path(sample.images[index]) if index >= 0 else PLACEHOLDER]
    return [part for part in (*content, last) if part != ""]


def _choice_block(sample: MileSample) -> str:
    """The options in the prompt; their letter is ``chr(65 + i)`` for any ``i``, as officially."""
    if not sample.choices:
        return ""
    with_letters = sample.dataset != _WITHOUT_LETTERS
    lines = [f"{chr(65 + i)}. {c}" if with_letters else c for i, c in enumerate(sample.choices)]
    return "\nChoice list: \n" + "\n".join(lines) + "\nYour answer is: "


def _context(sample: MileSample, placeholder: Callable[[int], str]) -> str:
    """The context and options, with ``placeholder(k)`` for the k-th image, from 1."""
    context = sample.context + _choice_block(sample)
    for k in range(1, len(sample.images) + 1):
        mark = placeholder(k)
        context = context.replace(f"{{image#{k}}}", mark).replace(f"{{table#{k}}}", mark)
    return context
