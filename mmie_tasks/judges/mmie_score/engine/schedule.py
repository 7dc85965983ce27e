"""Prompts, rows and pages of the engine: what is computed when, and where its keys are stored."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mmie_tasks.judges.mmie_score.generation import JudgePrompt

if TYPE_CHECKING:
    import torch


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
