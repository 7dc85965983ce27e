"""The prompt the judge model reads, and the reply in what it writes.

Source: ``InternVLChatModel.chat`` and the ``phi3-chat`` template of OpenGVLab/InternVL at 22839ce.
The system message is not in here: it is read from the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import RequestUnfit

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.checkpoint import Facts
    from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer


IMAGE = "<image>"
IMAGE_START = "<img>"
IMAGE_CONTEXT = "<IMG_CONTEXT>"
IMAGE_END = "</img>"
SYSTEM = "<|system|>"
USER = "<|user|>"
ASSISTANT = "<|assistant|>"
END = "<|end|>"

MARKS = (SYSTEM, USER, ASSISTANT, END, IMAGE_START, IMAGE_CONTEXT, IMAGE_END)
"""What a prompt is built with. Each must be one token of the judge."""


def question_of(parts: Sequence[str | Path]) -> str:
    """The question as the official code is given it: ``<image>`` for every picture.

    >>> question_of(["Image-0: ", Path("a.png"), " Why?"])
    'Image-0: <image> Why?'
    """
    return "".join(IMAGE if isinstance(part, Path) else part for part in parts)


def query(question: str, tiles: Sequence[int], *, system_message: str, tokens_per_tile: int) -> str:
    """Everything the model reads, as text.

    Each image takes the place of the first ``<image>`` that is left in the whole query, the system
    message included. So where the judged text has typed one, later pictures move forward and the
    last ``<image>`` stays text, as it does in the official code. Pictures without any ``<image>``
    share one, in front.

    Args:
        question: With an ``<image>`` for every picture.
        tiles: Of each picture, in order; empty where there is none.
        system_message: As in the checkpoint; may be empty.
        tokens_per_tile: ``<IMG_CONTEXT>`` for one tile.

    >>> print(query("Why? <image>", [1], system_message="Look.", tokens_per_tile=2), end="")
    <|system|>
    Look.<|end|><|user|>
    Why? <img><IMG_CONTEXT><IMG_CONTEXT></img><|end|><|assistant|>
    """
    if tiles and IMAGE not in question:
        question = f"{IMAGE}\n{question}"
    asked = f"{USER}\n{question}{END}" if question else f"{USER}\n"
    whole = f"{SYSTEM}\n{system_message}{END}{asked}{ASSISTANT}\n"
    texts = whole.split(IMAGE, maxsplit=len(tiles))
    woven = [texts[0]]
    for count, text in zip(tiles, texts[1:], strict=False):  # pictures without an `<image>` go
        woven += [IMAGE_START, IMAGE_CONTEXT * (tokens_per_tile * count), IMAGE_END, text]
    return "".join(woven)


def finish(text: str) -> str:
    r"""The reply in the decoded text: what stands before the first ``<|end|>``, stripped.

    >>> finish(" Fair.\n### Score\n4 <|end|> \n")
    'Fair.\n### Score\n4'
    """
    return text.split(END, maxsplit=1)[0].strip()


def typed_marks(texts: Iterable[str], added: Iterable[str]) -> tuple[str, ...]:
    """Which of the judge's own marks occur in a request's text, where they are not only text.

    An ``<image>`` there takes a picture from its place, and an added token is read as that token:
    a judged answer could end its turn and write its own score. The official code has both.

    Args:
        texts: The text parts of a request.
        added: All added tokens of the judge's tokenizer.

    Returns:
        Each mark once; ``<image>`` first, the others in the order of `added`.

    >>> typed_marks(["See <image>.", "<|end|>"], ["<s>", "<|end|>"])
    ('<image>', '<|end|>')
    """
    read = tuple(texts)
    return tuple(
        mark for mark in dict.fromkeys((IMAGE, *added)) if any(mark in text for text in read)
    )


def ids_of(
    text: str, tiles: Sequence[int], tokenizer: SlowLlamaTokenizer, facts: Facts
) -> list[int]:
    """The tokens of a query, of which as many are ``<IMG_CONTEXT>`` as its pictures need.

    Without pictures a typed ``<IMG_CONTEXT>`` is a token like any other, as in the official code.
    Beside pictures that code raises an error and ends the run; here the one request fails.

    Args:
        text: What `query` gave.
        tiles: Of each picture, as `query` was given them.
        tokenizer: The judge's.
        facts: The checkpoint's.

    Raises:
        RequestUnfit: The pictures do not fit the places for them, the prompt is longer than the
            model's positions, or the text is not Unicode.
    """
    try:
        ids = tokenizer.encode(text)
    except ValueError as error:
        raise RequestUnfit(f"the judge cannot read the text: {error}") from error
    places, needed = ids.count(facts.image_token_id), sum(tiles) * facts.tokens_per_tile
    if tiles and places != needed:
        raise RequestUnfit(
            f"the prompt has {places:,} `{IMAGE_CONTEXT}` and its {len(tiles)} images need "
            f"{needed:,}: fewer `{IMAGE}` than images, or a text with marks of its own"
        )
    if len(ids) > facts.max_positions:
        limit = f"the model reads {facts.max_positions:,} at most"
        raise RequestUnfit(f"the prompt has {len(ids):,} tokens, and {limit}")
    return ids
