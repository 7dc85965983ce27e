"""From requests to prompts and tiles: in threads, while the device computes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.hub.images import size_px
from mmie_tasks.judges.base import JudgeError, JudgeRequest, RequestUnfit
from mmie_tasks.judges.mmie_score import prompt
from mmie_tasks.judges.mmie_score.checkpoint import Facts
from mmie_tasks.judges.mmie_score.engine.model import Failed, Work
from mmie_tasks.judges.mmie_score.pixels import read_tiles
from mmie_tasks.judges.mmie_score.tiles import tiles
from mmie_tasks.judges.mmie_score.tokenizer import SlowLlamaTokenizer

_AHEAD = 24  # works that are prepared before they are asked for: at most about 0.75 GB of tiles
_MOST_THREADS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """Makes the judge's inputs of requests, as MMIE's script and ``model.chat()`` make them.

    Attributes:
        facts: Of the checkpoint.
        tokenizer: Its own.
        refuse_marks: Whether a request whose text has one of the judge's control strings in it is
            refused; by default it is read as the official code reads it.
    """

    facts: Facts
    tokenizer: SlowLlamaTokenizer
    refuse_marks: bool = False

    def work(self, key: int, request: JudgeRequest) -> Work:
        """Prompt and tiles of a request.

        Raises:
            RequestBroken: An image cannot be used.
            RequestUnfit: Too long, the judge's own marks do not match the images, or there are
                marks and none are wanted.
        """
        if self.refuse_marks and (typed := self.marks(request)):
            listed = ", ".join(f"`{mark}`" for mark in typed)
            raise RequestUnfit(f"the text holds control strings of the judge: {listed}")
        shown = [read_tiles(path, self.facts.image_px) for path in _images(request)]
        counts = [len(each) for each in shown]
        return Work(
            key=key,
            ids=prompt.ids_of(self._query(request, counts), counts, self.tokenizer, self.facts),
            tiles=np.concatenate(shown) if shown else None,
            max_new_tokens=request.max_tokens,
        )

    def length(self, request: JudgeRequest) -> int:
        """Tokens of the prompt, by the headers of its images; 0 where it cannot be prepared."""
        try:
            sizes = [size_px(path) for path in _images(request)]
            counts = [tiles(*size, tile_px=self.facts.image_px) for size in sizes]
            words = len(self.tokenizer.encode(self._query(request, [0] * len(counts))))
        except (DataMissing, DataBroken, ValueError):
            return 0
        return words + sum(counts) * self.facts.tokens_per_tile

    def marks(self, request: JudgeRequest) -> tuple[str, ...]:
        """Control strings of the judge that stand in the request's text."""
        texts = [part for part in request.parts if isinstance(part, str)]
        return prompt.typed_marks(texts, self.tokenizer.added)

    def _query(self, request: JudgeRequest, counts: Sequence[int]) -> str:
        return prompt.query(
            prompt.question_of(request.parts),
            counts,
            system_message=self.facts.system_message,
            tokens_per_tile=self.facts.tokens_per_tile,
        )


def _images(request: JudgeRequest) -> list[Path]:
    return [part for part in request.parts if isinstance(part, Path)]


class Preparing:
    """Hands over the works of requests, the longest first, some prepared ahead of time.

    To be used with ``with``: threads are at work inside.

    Args:
        inputs: Makes a work of a request.
        requests: All of them; a work's key is the index of its request.
        lengths: Tokens of each prompt, about.
    """

    def __init__(
        self, inputs: Inputs, requests: Sequence[JudgeRequest], lengths: Sequence[int]
    ) -> None:
        order = sorted(range(len(requests)), key=lambda index: -lengths[index])
        self._left: Iterator[int] = iter(order)
        self._inputs = inputs
        self._requests = requests
        self._ahead: deque[Future[Work | Failed]] = deque()
        self._threads = ThreadPoolExecutor(_threads(), thread_name_prefix="judge-inputs")

    def __enter__(self) -> Preparing:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def get(self, *, wait: bool) -> Work | Failed | None:
        """As `Feed.get`."""
        while len(self._ahead) < _AHEAD and (index := next(self._left, None)) is not None:
            self._ahead.append(self._threads.submit(self._prepare, index))
        if not self._ahead or not (wait or self._ahead[0].done()):
            return None
        return self._ahead.popleft().result()

    def _prepare(self, key: int) -> Work | Failed:
        try:
            return self._inputs.work(key, self._requests[key])
        except JudgeError as error:
            return Failed(key=key, error=error)


def _threads() -> int:
    return max(2, min(_MOST_THREADS, (os.cpu_count() or 2) - 1))
