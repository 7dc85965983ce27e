"""The prompt that the judge model reads, and the reply in the text that it writes.

Source: ``InternVLChatModel.chat`` and the ``phi3-chat`` template of OpenGVLab/InternVL at 22839ce.
The system message is read from the checkpoint; it is not in this file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import RequestUnfit

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint

IMAGE = "<image>"
IMAGE_START = "<img>"
IMAGE_CONTEXT = "<IMG_CONTEXT>"
IMAGE_END = "</img>"
SYSTEM = "<|system|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
END = "<|end|>"

MARKS = (SYSTEM, USER, ASSISTANT, END, IMAGE_START, IMAGE_CONTEXT, IMAGE_END)
"""Strings that a prompt is built with. Each must be one token of the judge."""


def question_of(parts: Sequence[str | Path]) -> str:
    """The question as the official code receives it: ``<image>`` for every image.

    >>> question_of(["Image-0: ", Path("a.png"), " Why?"])
    'Image-0: <image> Why?'
    """
    return "".join(IMAGE if isinstance(part, Path) else part for part in parts)


def query(question: str, tiles: Sequence[int], *, system_message: str, tokens_per_tile: int) -> str:
    """The whole text that the model reads.

    Each image replaces the first ``<image>`` that is left in the whole text, system message included. So if the judged
    text contains one, later images move forward and the last ``<image>`` stays text, as in the official code. If there
    are images and no ``<image>``, one is put in front.

    Args:
        question: With an ``<image>`` for every image.
        tiles: Tiles of each image, in order; empty without images.
        system_message: As in the checkpoint; may be empty.
        tokens_per_tile: ``<IMG_CONTEXT>`` per tile.

    >>> print(query("Why? <image>", [1], system_message="Look.", tokens_per_tile=2), end="")
    <|system|>
    Look.<|end|><|user|>
    Why? <img><IMG_CONTEXT><IMG_CONTEXT></img><|end|><|assistant|>
    """
    if tiles and IMAGE not in question:
        question = f"{IMAGE}\n{question}"
    turn = f"{USER}\n{question}{END}" if question else f"{USER}\n"
    texts = f"{SYSTEM}\n{system_message}{END}{turn}{ASSISTANT}\n".split(IMAGE, maxsplit=len(tiles))
    pieces = [texts[0]]
    for count, text in zip(tiles, texts[1:], strict=False):  # surplus images are dropped
        pieces += [IMAGE_START, IMAGE_CONTEXT * (tokens_per_tile * count), IMAGE_END, text]
    return "".join(pieces)


def reply_text(text: str) -> str:
    r"""The reply in the decoded text: everything before the first ``<|end|>``, stripped.

    >>> reply_text(" Fair.\n### Score\n4 <|end|> \n")
    'Fair.\n### Score\n4'
    """
    return text.split(END, maxsplit=1)[0].strip()


def control_strings(parts: Iterable[str | Path], added: Iterable[str]) -> tuple[str, ...]:
    """The control strings of the judge that occur in a request's text.

    An ``<image>`` in the text takes the position of an image, and an added token is read as that token: a judged answer
    could end its turn and write its own score. The official code reads both so.

    Args:
        parts: The parts of a request; images are left out.
        added: All added tokens of the judge's tokenizer.

    Returns:
        Each string once; ``<image>`` first, the others in the order of `added`.

    >>> control_strings(["See <image>.", "<|end|>"], ["<s>", "<|end|>"])
    ('<image>', '<|end|>')
    """
    texts = [part for part in parts if isinstance(part, str)]
    return tuple(mark for mark in dict.fromkeys((IMAGE, *added)) if any(mark in text for text in texts))


def ids_of(text: str, tiles: Sequence[int], checkpoint: Checkpoint) -> list[int]:
    """The tokens of a query, with as many ``<IMG_CONTEXT>`` as its images need.

    Without images an ``<IMG_CONTEXT>`` in the text is a token like any other, as in the official
    code. Beside images that code raises an error and ends the run; here the request fails.

    Args:
        text: Result of `query`.
        tiles: The same as in the call of `query`.
        checkpoint: Of the judge.

    Raises:
        RequestUnfit: Images and image tokens do not match, the prompt is longer than the model's
            positions, or the text is not Unicode.
    """
    try:
        ids = checkpoint.tokenizer.encode(text)
    except ValueError as error:
        raise RequestUnfit(f"the judge cannot read the text: {error}") from error
    count = ids.count(checkpoint.image_token_id)
    needed = sum(tiles) * checkpoint.config.tokens_per_tile
    if tiles and count != needed:
        raise RequestUnfit(
            f"the prompt has {count:,} `{IMAGE_CONTEXT}` and its {len(tiles)} images need "
            f"{needed:,}: fewer `{IMAGE}` than images, or control strings in the text"
        )
    if len(ids) > (limit := checkpoint.config.llm_config.max_position_embeddings):
        raise RequestUnfit(f"the prompt has {len(ids):,} tokens, and the model reads {limit:,} at most")
    return ids
