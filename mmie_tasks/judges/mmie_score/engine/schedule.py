"""Prompts, rows and pages of the engine: what is computed when, and where its keys are stored."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A request as the model reads it.

    Attributes:
        key: Identifies the request; its result has the same key.
        ids: Token ids, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Of its images, uint8 of shape (tiles, side, side, 3); None without images.
        max_new_tokens: At least 1.
    """

    key: int
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    max_new_tokens: int = 1024

    @property
    def max_stored_tokens(self) -> int:
        """The most keys that are stored for it: the last generated token needs none."""
        return len(self.ids) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The tokens generated for a prompt, up to and with the end token if there is one.

    Attributes:
        output: Token ids.
        digits: For each token that is a digit, by its index in the output: log-probabilities of the
            digits 0 to 9.
        finish: ``length`` if generation ran into its limit.
        prompt_tokens: Length of the prompt, image tokens included.
    """

    key: int
    output: list[int]
    digits: Mapping[int, tuple[float | None, ...]]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrompt:
    """Why a request has no completion."""

    key: int
    error: JudgeError


Result: TypeAlias = Completion | FailedPrompt


class PromptSource(Protocol):
    """Supplies prompts to the engine."""

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        """The next prompt. None: none is ready yet, or, with `wait`, none is left."""
        ...


@dataclass(slots=True, kw_only=True)
class LiveRow:
    """A sequence in computation.

    Attributes:
        pages: Of its keys and values, in order; enough for its full length.
        features: Image features, (image tokens, hidden); None without images and after prefill.
        stored: Prompt tokens whose keys are stored.
        output: Tokens generated so far.
        digits: See `Completion`.
    """

    prompt: JudgePrompt
    pages: list[int]
    features: torch.Tensor | None = None
    stored: int = 0
    output: list[int] = field(default_factory=list)
    digits: dict[int, tuple[float | None, ...]] = field(default_factory=dict)

    def last_token(self) -> Chunk:
        """Its last token, prompt included."""
        length = len(self.prompt.ids) + len(self.output)
        return Chunk(row=self, start=length - 1, stop=length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A stretch of a row that is computed in one step, from `start` to before `stop`: tokens of the
    prompt, or the last generated one.
    """

    row: LiveRow
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self.stop - self.start

    @property
    def ids(self) -> list[int]:
        """The tokens."""
        prompt = self.row.prompt.ids
        return prompt[self.start : self.stop] if self.start < len(prompt) else self.row.output[-1:]

    @property
    def ends_row(self) -> bool:
        """Whether the next token can be generated after it."""
        return self.stop >= len(self.row.prompt.ids)

    def takes_long_factors(self, long_after: int) -> bool:
        """Whether it has the long rotary factors: a part of a prompt by the prompt's length, a
        generated token by its own position.
        """
        return max(len(self.row.prompt.ids), self.stop) > long_after


@dataclass(kw_only=True)
class Schedule:
    """Waiting prompts and live rows.

    A row is admitted with pages for its full length, so it never runs out of them. Prompts are
    admitted in the order in which they arrived.

    Attributes:
        pages: Of the key/value cache, numbered from 0.
        max_rows: The most live rows; may be lowered later.
        max_tokens: The longest row; at most what all pages hold together.
        free_pages: Pages that belong to no row.
    """

    pages: int
    page_tokens: int
    max_rows: int
    max_tokens: int = sys.maxsize
    free_pages: deque[int] = field(init=False)
    waiting: deque[JudgePrompt] = field(default_factory=deque, init=False)
    live: list[LiveRow] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.free_pages = deque(range(self.pages))
        self.max_tokens = min(self.max_tokens, self.pages * self.page_tokens)

    def admit(self) -> None:
        """Turn waiting prompts into rows while pages and rows allow it."""
        while self.waiting and len(self.live) < self.max_rows:
            prompt = self.waiting[0]
            needed = -(-prompt.max_stored_tokens // self.page_tokens)
            if needed > len(self.free_pages):
                return
            self.waiting.popleft()
            pages = [self.free_pages.popleft() for _ in range(needed)]
            self.live.append(LiveRow(prompt=prompt, pages=pages))

    def fits(self, prompt: JudgePrompt) -> bool:
        """Whether a prompt can be admitted, if need be as the only row."""
        return prompt.max_stored_tokens <= self.max_tokens

    def chunks(self, max_tokens: int) -> list[Chunk]:
        """The next chunks of prompts, the oldest rows first, of `max_tokens` tokens in all."""
        chunks: list[Chunk] = []
        for row in self.live:
            if max_tokens <= 0:
                break
            if row.stored < len(row.prompt.ids):
                stop = min(row.stored + max_tokens, len(row.prompt.ids))
                chunks.append(Chunk(row=row, start=row.stored, stop=stop))
                max_tokens -= chunks[-1].size
        return chunks

    def unread_prompts(self, after: LiveRow) -> Iterator[JudgePrompt]:
        """Prompts of which nothing is stored yet, without that of a row, in their order."""
        for row in self.live:
            if not row.stored and row is not after and row.features is None:
                yield row.prompt
        yield from self.waiting

    def last_tokens(self) -> list[Chunk]:
        """The last token of each row with a complete prompt: it has generated at least one."""
        return [row.last_token() for row in self.live if row.output]

    def end(self, row: LiveRow) -> None:
        """Remove a row and release its pages."""
        self.live = [live_row for live_row in self.live if live_row is not row]
        self.free_pages.extend(row.pages)
        row.pages = []

    def restart(self, row: LiveRow) -> None:
        """Put a row back as the first waiting prompt; computed again, its keys get the same rotary
        factors.
        """
        self.end(row)
        self.waiting.appendleft(row.prompt)
