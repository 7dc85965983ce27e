"""Prompts and tiles of judge requests, prepared in threads while the device computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import size_px
from mmie_tasks.judges.base import JudgeError, JudgeRequest
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.engine.schedule import Failure, Prompt
from mmie_tasks.judges.mmie_score.images import read_tiles, tiles

_MAX_AHEAD = 24  # prompts prepared in advance: at most about 0.75 GB of tiles
_MAX_THREADS = 8


@dataclass(frozen=True, slots=True)
class InputBuilder:
    """Builds the model's inputs of a request, as MMIE's script and ``model.chat()`` build them.

    Attributes:
        checkpoint: With tokenizer, system message and sizes.
    """

    checkpoint: Checkpoint

    def prompt(self, key: int, request: JudgeRequest) -> Prompt:
        """Token ids and tiles of a request.

        Raises:
            RequestBroken: An image cannot be used.
            RequestUnfit: The prompt is too long, or control strings in the text do not match the images.
        """
        image_tiles = [read_tiles(path, self._tile_px) for path in _images(request)]
        counts = [len(image) for image in image_tiles]
        return Prompt(
            key=key,
            ids=prompt.ids_of(self._query(request, counts), counts, self.checkpoint),
            tiles=np.concatenate(image_tiles) if image_tiles else None,
            max_new_tokens=request.max_tokens,
        )

    def length(self, request: JudgeRequest) -> int:
        """Tokens of the prompt, by the headers of its images; 0 if it cannot be prepared."""
        try:
            counts = [tiles(*size_px(path), tile_px=self._tile_px) for path in _images(request)]
            text_tokens = len(self.checkpoint.tokenizer.encode(self._query(request, [0] * len(counts))))
        except (DataMissing, DataBroken, ValueError):
            return 0
        return text_tokens + sum(counts) * self.checkpoint.config.tokens_per_tile

    @property
    def _tile_px(self) -> int:
        return self.checkpoint.config.vision_config.image_size

    def _query(self, request: JudgeRequest, counts: Sequence[int]) -> str:
        return prompt.query(
            prompt.question_of(request.parts),
            counts,
            system_message=self.checkpoint.system_message,
            tokens_per_tile=self.checkpoint.config.tokens_per_tile,
        )


def _images(request: JudgeRequest) -> list[Path]:
    return [part for part in request.parts if isinstance(part, Path)]


class PromptPreparer:
    """Supplies the prompts of requests, the longest first, some of them prepared in advance.

    Its threads run until `close`. A prompt's key is the index of its request.

    Args:
        builder: Builds the prompt of a request.
        requests: All requests.
        lengths: Tokens of each prompt, about.
    """

    def __init__(self, builder: InputBuilder, requests: Sequence[JudgeRequest], lengths: Sequence[int]) -> None:
        self._remaining = iter(sorted(range(len(requests)), key=lambda index: -lengths[index]))
        self._builder = builder
        self._requests = requests
        self._ahead: deque[Future[Prompt | Failure]] = deque()
        threads = max(2, min(_MAX_THREADS, (os.cpu_count() or 2) - 1))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="judge-inputs")

    def close(self) -> None:
        """End the threads; prompts that were not begun are dropped."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def get(self, *, wait: bool) -> Prompt | Failure | None:
        """See `PromptSource.get`."""
        while len(self._ahead) < _MAX_AHEAD and (index := next(self._remaining, None)) is not None:
            self._ahead.append(self._threads.submit(self._prepare, index))
        if not self._ahead or not (wait or self._ahead[0].done()):
            return None
        return self._ahead.popleft().result()

    def _prepare(self, key: int) -> Prompt | Failure:
        try:
            return self._builder.prompt(key, self._requests[key])
        except JudgeError as error:
            return Failure(key=key, error=error)
