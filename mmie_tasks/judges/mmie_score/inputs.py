"""What the judge model reads: prompts and tiles of requests, prepared in threads while the device
computes.

Source of grids and tiles: ``find_closest_aspect_ratio``, ``dynamic_preprocess`` and ``load_image``
in ``main.py`` of Lillianwei-h/MMIE at eb0fd6e, which are InternVL's, run with Pillow 10.4. The
pixels are equal bit for bit, whatever version of Pillow is installed.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import open_bounded, size_px
from mmie_tasks.judges.base import JudgeError, JudgeRequest, RequestBroken, RequestUnfit
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.config import (
    END,
    IMAGE,
    IMAGE_CONTEXT,
    MAX_TILES,
    query,
    question_of,
)
from mmie_tasks.judges.mmie_score.engine.schedule import FailedPrompt, JudgePrompt

TILE_PX = 448
_MAX_SIDE_PX = 500_000  # a longer strip would take gigabytes on its way to a tile
MAX_AHEAD = 24  # prompts prepared in advance: at most about 0.75 GB of tiles
_MAX_THREADS = 8


def reply_text(text: str) -> str:
    r"""The reply in the decoded text: everything before the first ``<|end|>``, stripped.

    >>> reply_text(" Fair.\n### Score\n4 <|end|> \n")
    'Fair.\n### Score\n4'
    """
    return text.split(END, maxsplit=1)[0].strip()


def control_strings(parts: Iterable[str | Path], added: Iterable[str]) -> tuple[str, ...]:
    """The control strings of the judge that occur in a request's text.

    An ``<image>`` in the text takes the position of an image, and an added token is read as that
    token: a judged answer could end its turn and write its own score. The official code reads both
    so.

    Each is listed once: ``<image>`` first, the others in the order of `added`, the judge's added
    tokens.

    >>> control_strings(["See <image>.", "<|end|>"], ["<s>", "<|end|>"])
    ('<image>', '<|end|>')
    """
    texts = [part for part in parts if isinstance(part, str)]
    return tuple(
        mark for mark in dict.fromkeys((IMAGE, *added)) if any(mark in text for text in texts)
    )


def ids_of(text: str, tiles: Sequence[int], checkpoint: Checkpoint) -> list[int]:
    """The tokens of a text made by `query` for the same tiles, with as many ``<IMG_CONTEXT>`` as
    its images need.

    Without images an ``<IMG_CONTEXT>`` in the text is a token like any other, as in the official
    code. Beside images that code raises an error and ends the run; here the request fails.

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


def grid(width_px: int, height_px: int, tile_px: int = TILE_PX) -> tuple[int, int]:
    """Columns and rows of the grid whose aspect ratio is closest to the image's; no thumbnail.

    Of equally close grids the one with more tiles wins, if the image has more than half as many
    pixels as that grid.

    Raises:
        ValueError: A size is below 1.

    >>> grid(512, 512), grid(640, 480)
    ((1, 1), (4, 3))
    """
    if min(width_px, height_px, tile_px) < 1:
        raise ValueError(f"no tiles of {tile_px} px: {width_px} x {height_px}")
    aspect = width_px / height_px
    best, closest = (1, 1), float("inf")
    for columns, rows in _grids():
        distance = abs(aspect - columns / rows)
        filled = width_px * height_px > 0.5 * tile_px * tile_px * columns * rows
        if distance < closest or (distance == closest and filled):
            best, closest = (columns, rows), distance
    return best


def tiles(width_px: int, height_px: int, tile_px: int = TILE_PX) -> int:
    """Number of tiles of an image, with the thumbnail that is added to more than one.

    Raises:
        ValueError: A size is below 1.

    >>> tiles(633, 633), tiles(634, 634), tiles(640, 480)
    (1, 5, 13)
    """
    columns, rows = grid(width_px, height_px, tile_px)
    return columns * rows + (columns * rows > 1)


@cache
def _grids() -> list[tuple[int, int]]:
    """Every grid of at most `MAX_TILES` tiles, the smaller ones first.

    The official order of grids of one size is that of a Python set. It never matters: two of them
    are equally close only to an image that a third is closer to.
    """
    sides = range(1, MAX_TILES + 1)
    grids = ((i, j) for i in sides for j in sides if i * j <= MAX_TILES)
    return sorted(grids, key=lambda size: (size[0] * size[1], size))


def read_tiles(path: Path, tile_px: int, content: bytes | None = None) -> NDArray[np.uint8]:
    """Cut an image into tiles, row by row, then a thumbnail of the whole if there is more than one.

    The colours are those of Pillow's ``convert("RGB")``: alpha is dropped, and grey values of more
    than 8 bits are clipped. No rotation from EXIF, no colour profile; of an animation, the first
    frame.

    `content` is the file's bytes, if it is on another machine.

    Returns:
        (tiles, tile_px, tile_px, 3), in memory of its own.

    Raises:
        RequestBroken: The file is not an image that can be read, is too large, or has colours that
            cannot become RGB.
    """
    image = _rgb(path, content)
    if max(image.size) > _MAX_SIDE_PX:
        size = f"{image.width} x {image.height} pixels, and no side may exceed {_MAX_SIDE_PX:,}"
        raise RequestBroken(f"the image `{path}` cannot be cut into tiles: it has {size}")
    columns, rows = grid(*image.size, tile_px=tile_px)
    count = columns * rows
    cut = np.empty((count + (count > 1), tile_px, tile_px, 3), dtype=np.uint8)
    whole = _resized(image, columns * tile_px, rows * tile_px)
    by_tile = whole.reshape(rows, tile_px, columns, tile_px, 3).swapaxes(1, 2)
    cut[:count] = by_tile.reshape(count, tile_px, tile_px, 3)
    if count > 1:
        cut[count] = _resized(image, tile_px, tile_px)
    return cut


def _rgb(path: Path, content: bytes | None) -> Image.Image:
    try:
        image = open_bounded(path, content=content)
    except (DataMissing, DataBroken) as error:
        raise RequestBroken(first_line(error)) from error
    if image.mode == "RGB":
        return image
    image.info.pop("transparency", None)  # Pillow warns that it is dropped
    try:
        return image.convert("RGB")
    except ValueError as error:  # Pillow reads grey TIFF files with premultiplied alpha as `La`
        raise RequestBroken(
            f"the image `{path}` cannot be used: its colour mode {image.mode} has no way to RGB"
        ) from error


def _resized(image: Image.Image, width_px: int, height_px: int) -> NDArray[np.uint8]:
    """Resize one axis at a time, the width first.

    Pillow 13 may resize the height first where 10.4 did not, and the 8-bit rounding between the
    two then gives other pixels.
    """
    wide = image.resize((width_px, image.height), Image.Resampling.BICUBIC)
    return np.asarray(wide.resize((width_px, height_px), Image.Resampling.BICUBIC))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequest:
    """A request on its way to the engine.

    Attributes:
        key: Identifies it; its outcome has the same key.
        images: The bytes of its image files, if they are on another machine.
    """

    key: int
    request: JudgeRequest
    images: Mapping[Path, bytes] = field(default_factory=dict)


RequestQueue: TypeAlias = "SimpleQueue[QueuedRequest | None]"
"""Requests on their way to the engine, from other threads or all at once; None is the end."""


def queue_of(requests: Sequence[JudgeRequest], order: Iterable[int]) -> RequestQueue:
    """All of some requests in this order; a key is the number of the request."""
    queue: RequestQueue = SimpleQueue()
    for index in order:
        queue.put(QueuedRequest(key=index, request=requests[index]))
    queue.put(None)
    return queue


@dataclass(frozen=True, slots=True)
class InputBuilder:
    """Builds the model's inputs of a request, as MMIE's script and ``model.chat()`` build them."""

    checkpoint: Checkpoint

    def prompt(
        self, key: int, request: JudgeRequest, images: Mapping[Path, bytes] = MappingProxyType({})
    ) -> JudgePrompt:
        """Token ids and tiles of a request; raises like `read_tiles` and `ids_of`, and
        `RequestUnfit` for what MMIE-Score was never trained on.
        """
        if request.system or request.schema:
            raise RequestUnfit("MMIE-Score takes no system message and no reply schema")
        image_tiles = [
            read_tiles(path, self._tile_px, images.get(path)) for path in _images(request)
        ]
        counts = [len(image) for image in image_tiles]
        return JudgePrompt(
            key=key,
            ids=ids_of(self._query(request, counts), counts, self.checkpoint),
            tiles=np.concatenate(image_tiles) if image_tiles else None,
            max_new_tokens=request.max_tokens,
        )

    def tile_counts(self, request: JudgeRequest) -> list[int]:
        """Tiles of each of its images, by their headers; raises like `size_px`."""
        return [tiles(*size_px(path), tile_px=self._tile_px) for path in _images(request)]

    def length(self, request: JudgeRequest) -> int:
        """Tokens of the prompt, by the headers of its images; 0 if it cannot be prepared."""
        try:
            counts = self.tile_counts(request)
            text_tokens = len(
                self.checkpoint.tokenizer.encode(self._query(request, [0] * len(counts)))
            )
        except (DataMissing, DataBroken, ValueError):
            return 0
        return text_tokens + sum(counts) * self.checkpoint.config.tokens_per_tile

    @property
    def _tile_px(self) -> int:
        return self.checkpoint.config.vision_config.image_size

    def _query(self, request: JudgeRequest, counts: Sequence[int]) -> str:
        return query(
            question_of(request.parts),
            counts,
            system_message=self.checkpoint.system_message,
            tokens_per_tile=self.checkpoint.config.tokens_per_tile,
        )


def _images(request: JudgeRequest) -> list[Path]:
    return [part for part in request.parts if isinstance(part, Path)]


def longest_first(builder: InputBuilder, requests: Sequence[JudgeRequest]) -> list[int]:
    """The numbers of the requests, by the length of prompt and longest reply."""
    with ThreadPoolExecutor(thread_count()) as threads:
        prompts = list(threads.map(builder.length, requests))
    lengths = [
        tokens + request.max_tokens for tokens, request in zip(prompts, requests, strict=True)
    ]
    return sorted(range(len(requests)), key=lambda index: -lengths[index])


class PromptPreparer:
    """Prepares the prompts of requests in advance, in their order.

    Its threads run until `close`.
    """

    def __init__(self, builder: InputBuilder, requests: RequestQueue) -> None:
        self._builder = builder
        self._requests = requests
        self._has_more = True
        self._ahead: deque[Future[JudgePrompt | FailedPrompt]] = deque()
        self._threads = ThreadPoolExecutor(thread_count(), thread_name_prefix="judge-inputs")

    def close(self) -> None:
        """End the threads; prompts that were not begun are dropped."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        """See `PromptSource.get`."""
        while self._has_more and len(self._ahead) < MAX_AHEAD:
            try:
                queued = self._requests.get(block=wait and not self._ahead)
            except Empty:
                break
            if queued is None:
                self._has_more = False
            else:
                self._ahead.append(self._threads.submit(self._prepare, queued))
        if not self._ahead or not (wait or self._ahead[0].done()):
            return None
        return self._ahead.popleft().result()

    def _prepare(self, queued: QueuedRequest) -> JudgePrompt | FailedPrompt:
        try:
            return self._builder.prompt(queued.key, queued.request, queued.images)
        except JudgeError as error:
            return FailedPrompt(key=queued.key, error=error)


def thread_count() -> int:
    """Threads that prepare inputs: a scheduler such as Slurm gives a process some of the cores."""
    cores = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    )
    return max(2, min(_MAX_THREADS, cores - 1))
