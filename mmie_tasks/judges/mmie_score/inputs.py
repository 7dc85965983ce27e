"""The judge model's inputs for a request: token ids of the prompt, and tiles of its images.

The prompt is that of ``InternVLChatModel.chat`` (OpenGVLab/InternVL at 22839ce), called as in
``main.py`` of Lillianwei-h/MMIE at eb0fd6e.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import size_px
from mmie_tasks.judges.base import JudgeError, JudgeRequest, RequestUnfit
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    ASSISTANT,
    END,
    IMAGE,
    IMAGE_CONTEXT,
    IMAGE_END,
    IMAGE_START,
    SYSTEM,
    USER,
)
from mmie_tasks.judges.mmie_score.tiles import read_tiles, tiles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint

UNFIT_FIELDS = "MMIE-Score takes no system message and no reply schema"
_MAX_AHEAD = 24  # prompts prepared in advance: at most about 0.75 GB of tiles
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A request as the model reads it.

    Attributes:
        key: Identifies the request; its result has the same key.
        ids: Token ids, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Tiles of all images, uint8 of shape (tiles, side, side, 3); None without images.
        tile_counts: Number of tiles of each image; empty without images.
        max_new_tokens: At least 1.
    """

    key: int = 0
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    tile_counts: tuple[int, ...] = ()
    max_new_tokens: int = 1024


def prompt_of(
    parts: Sequence[str | Path | bytes],
    checkpoint: Checkpoint,
    *,
    key: int = 0,
    max_new_tokens: int = 1024,
) -> JudgePrompt:
    """The prompt of texts and images (paths, or the bytes of files), in reading order.

    Raises:
        RequestBroken: An image cannot be read; see `read_tiles`.
        RequestUnfit: See `ids_of`.
    """
    side_px = checkpoint.config.vision_config.image_size
    images = [part for part in parts if not isinstance(part, str)]
    image_tiles = [
        read_tiles(image, side_px)
        if isinstance(image, Path)
        else read_tiles(Path(f"image {number}"), side_px, image)
        for number, image in enumerate(images, 1)
    ]
    counts = [len(cut) for cut in image_tiles]
    return JudgePrompt(
        key=key,
        ids=ids_of(text_of(parts, counts, checkpoint), counts, checkpoint),
        tiles=np.concatenate(image_tiles) if image_tiles else None,
        tile_counts=tuple(counts),
        max_new_tokens=max_new_tokens,
    )


def prompt_length(request: JudgeRequest, checkpoint: Checkpoint) -> int:
    """Number of tokens, by the headers of the images; 0 if the prompt cannot be prepared."""
    side_px, per_tile = (
        checkpoint.config.vision_config.image_size,
        checkpoint.config.tokens_per_tile,
    )
    images = [part for part in request.parts if isinstance(part, Path)]
    try:
        counts = [tiles(*size_px(path), tile_px=side_px) for path in images]
        text = text_of(request.parts, [0] * len(counts), checkpoint)
        return len(checkpoint.tokenizer.encode(text)) + sum(counts) * per_tile
    except (DataMissing, DataBroken, ValueError):
        return 0


def prepare(
    requests: Sequence[JudgeRequest], checkpoint: Checkpoint
) -> Iterator[JudgePrompt | tuple[int, JudgeError]]:
    """The prompts of requests, or the key and error of each that is unusable; the longest come
    first. A key is a request's index.

    Threads prepare some prompts in advance, while the device computes.
    """

    def prompt(index: int) -> JudgePrompt | tuple[int, JudgeError]:
        request = requests[index]
        try:
            if request.system or request.schema:
                raise RequestUnfit(UNFIT_FIELDS)
            return prompt_of(
                request.parts, checkpoint, key=index, max_new_tokens=request.max_tokens
            )
        except JudgeError as error:
            return index, error

    threads = ThreadPoolExecutor(_thread_count(), thread_name_prefix="judge-inputs")
    try:
        lengths = [*threads.map(lambda request: prompt_length(request, checkpoint), requests)]
        tokens = [
            length + request.max_tokens for length, request in zip(lengths, requests, strict=True)
        ]
        ahead: deque[Future[JudgePrompt | tuple[int, JudgeError]]] = deque()
        for index in sorted(range(len(requests)), key=lambda index: -tokens[index]):
            ahead.append(threads.submit(prompt, index))
            if len(ahead) == _MAX_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        threads.shutdown(wait=True, cancel_futures=True)


def _thread_count() -> int:
    cores = (  # a scheduler such as Slurm may give a process only some of the cores
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    )
    return max(2, min(_MAX_THREADS, cores - 1))


def text_of(
    parts: Sequence[str | Path | bytes], counts: Sequence[int], checkpoint: Checkpoint
) -> str:
    """The whole text that the model reads, for images cut into so many tiles."""
    return query(
        "".join(part if isinstance(part, str) else IMAGE for part in parts),
        counts,
        system_message=checkpoint.system_message,
        tokens_per_tile=checkpoint.config.tokens_per_tile,
    )


def query(question: str, tiles: Sequence[int], *, system_message: str, tokens_per_tile: int) -> str:
    """The whole text that the model reads, for a question with ``<image>`` for every image.

    Each image replaces the first ``<image>`` that is left in the text, including the system
    message. If the judged text contains one, later images therefore move forward and the last
    ``<image>`` stays text, as in the official code. If there are images and no ``<image>``, one is
    put in front.

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


def ids_of(text: str, tiles: Sequence[int], checkpoint: Checkpoint) -> list[int]:
    """The tokens of a text that `query` made for the same tiles, with as many ``<IMG_CONTEXT>`` as
    its images need.

    Without images, an ``<IMG_CONTEXT>`` in the text is a token like any other, as in the official
    code. With images, that code raises an error and ends the run; here the request fails.

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
        raise RequestUnfit(
            f"the prompt has {len(ids):,} tokens, and the model reads {limit:,} at most"
        )
    return ids


def reply_text(text: str) -> str:
    r"""The reply in the decoded text: everything before the first ``<|end|>``, stripped.

    >>> reply_text(" Fair.\n### Score\n4 <|end|> \n")
    'Fair.\n### Score\n4'
    """
    return text.split(END, maxsplit=1)[0].strip()


def control_strings(parts: Iterable[str | Path], added: Iterable[str]) -> tuple[str, ...]:
    """The judge's control strings that occur in a request's text, each once.

    An ``<image>`` in the text takes the position of an image, and an added token is read as that
    token, as in the official code: a judged answer could end its turn and write its own score.

    ``<image>`` comes first, the others in the order of `added`, the judge's added tokens.

    >>> control_strings(["See <image>.", "<|end|>"], ["<s>", "<|end|>"])
    ('<image>', '<|end|>')
    """
    texts = [part for part in parts if isinstance(part, str)]
    return tuple(
        mark for mark in dict.fromkeys((IMAGE, *added)) if any(mark in text for text in texts)
    )
