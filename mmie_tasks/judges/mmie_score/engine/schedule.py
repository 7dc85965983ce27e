"""Prompts, rows and pages of the engine: what is computed when, and where its keys are stored."""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
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
        digits: For each token that is a digit, by its index in the output: log-probabilities of the digits 0 to 9.
        finish: ``length`` if generation ran into its limit.
        prompt_tokens: Length of the prompt, image tokens included.
    """

    key: int
    output: list[int]
    digits: Mapping[int, tuple[float | None, ...]]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why a request has no completion."""

    key: int
    error: JudgeError


Result: TypeAlias = Completion | Failure


class PromptSource(Protocol):
    """Supplies prompts to the engine."""

    def get(self, *, wait: bool) -> Prompt | Failure | None:
        """The next prompt. None: none is ready yet, or, with `wait`, none is left."""
        ...


@dataclass(slots=True, kw_only=True)
class Row:
    """A sequence in computation.

    Attributes:
        pages: Of its keys and values, in order; enough for its full length.
        features: Image features, (image tokens, hidden); None without images and after prefill.
        stored: Prompt tokens whose keys are stored.
        output: Tokens generated so far.
        digits: See `Completion`.
    """

    prompt: Prompt
    pages: list[int]
    features: torch.Tensor | None = None
    stored: int = 0
    output: list[int] = field(default_factory=list)
    digits: dict[int, tuple[float | None, ...]] = field(default_factory=dict)

    @property
    def unstored(self) -> int:
        """Prompt tokens whose keys are not stored yet."""
        return len(self.prompt.ids) - self.stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A stretch of a prompt that is computed in one step: the tokens from `start` to before `stop`."""

    row: Row
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of tokens."""
        return self.stop - self.start

    @property
    def ends_prompt(self) -> bool:
        """Whether the first token can be generated after it."""
        return self.stop == len(self.row.prompt.ids)


def takes_long_factors(tokens: int, long_after: int) -> bool:
    """Whether all of a prompt of so many tokens, or the last generated one, has long factors."""
    return tokens > long_after


class PagePool:
    """Pages of the key/value cache, numbered from 0, with the number of holders of each."""

    def __init__(self, pages: int) -> None:
        self.free = deque(range(pages))
        self.holders = [0] * pages

    def take(self, count: int) -> list[int]:
        """Take free pages; each has one holder now. IndexError if fewer are free."""
        if count > len(self.free):
            raise IndexError(f"{count} pages were requested, and {len(self.free)} are free")
        pages = [self.free.popleft() for _ in range(count)]
        for page in pages:
            self.holders[page] = 1
        return pages

    def share(self, page: int) -> None:
        """Add a holder to a page; ValueError if it is free, so that its content belongs to no row."""
        if not self.holders[page]:
            raise ValueError(f"page {page} is free and cannot be shared")
        self.holders[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """Remove a holder from each page; a page without holders is free. ValueError if one is free already."""
        for page in pages:
            if not self.holders[page]:
                raise ValueError(f"page {page} is free and cannot be released")
            self.holders[page] -= 1
            if not self.holders[page]:
                self.free.append(page)


class PrefixCache:
    """Full pages of text at the start of prompts, for prompts that start alike.

    The content of a page depends on all tokens up to its end and on the rotary factors, which
    follow the length of the whole prompt; both are in the key. Token ids do not tell one image from
    another, so pages are shared only up to the first image. The cache is one holder of each page in it.
    """

    def __init__(self, pool: PagePool, page_tokens: int, image_token_id: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._image_token_id = image_token_id
        self._pages: OrderedDict[bytes, int] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._pages)

    def find(self, ids: Sequence[int], *, is_long: bool) -> list[int]:
        """The cached pages of the start of a prompt, never with its last token; each gets a holder more."""
        pages: list[int] = []
        for key in self._keys(ids, len(ids) - 1, is_long=is_long):
            if (page := self._pages.get(key)) is None:
                break
            self._pages.move_to_end(key)
            self._pool.share(page)
            pages.append(page)
        return pages

    def add(self, ids: Sequence[int], pages: Sequence[int], stored: int, *, is_long: bool) -> None:
        """Add the shareable pages of a prompt of which so many tokens are stored."""
        for key, page in zip(self._keys(ids, stored, is_long=is_long), pages, strict=False):
            if key not in self._pages:
                self._pages[key] = page
                self._pool.share(page)

    def evict(self, count: int) -> None:
        """Free up to `count` pages that no row holds, the least recently used first.

        The pages behind an evicted one can no longer be found, and age like others.
        """
        for key, page in list(self._pages.items()):
            if count <= 0:
                return
            if self._pool.holders[page] == 1:
                del self._pages[key]
                self._pool.release([page])
                count -= 1

    def evictable(self) -> int:
        """Number of pages that no row holds."""
        return sum(self._pool.holders[page] == 1 for page in self._pages.values())

    def _keys(self, ids: Sequence[int], tokens: int, *, is_long: bool) -> Iterator[bytes]:
        """Of each full page of text in the first tokens: a digest of all tokens up to its end."""
        digest = blake2b(b"long" if is_long else b"short", digest_size=16)
        for start in range(0, tokens - self._page_tokens + 1, self._page_tokens):
            page = ids[start : start + self._page_tokens]
            if self._image_token_id in page:
                return
            digest.update(np.asarray(page, dtype=np.int64).tobytes())
            yield digest.digest()


@dataclass(kw_only=True)
class Schedule:
    """Waiting prompts and live rows.

    A row is admitted with pages for its full length, so it never runs out of them. Prompts are
    admitted in the order in which they arrived.

    Attributes:
        prefixes: Shared starts of prompts; None shares nothing.
        long_after: Prompts of more tokens have the long rotary factors.
        max_rows: The most live rows; may be lowered later.
        max_tokens: The longest row; at most what all pages hold together.
    """

    pool: PagePool
    prefixes: PrefixCache | None
    page_tokens: int
    long_after: int
    max_rows: int
    max_tokens: int = sys.maxsize
    waiting: deque[Prompt] = field(default_factory=deque, init=False)
    live: list[Row] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.max_tokens = min(self.max_tokens, len(self.pool.holders) * self.page_tokens)

    def admit(self) -> None:
        """Turn waiting prompts into rows while pages and rows allow it."""
        while self.waiting and len(self.live) < self.max_rows:
            prompt = self.waiting[0]
            needed = -(-prompt.max_stored_tokens // self.page_tokens)
            lacking = needed - len(self.pool.free)
            if lacking > 0:
                if self.prefixes is None or lacking > self.prefixes.evictable():
                    return
                self.prefixes.evict(lacking)
            self.waiting.popleft()
            self.live.append(Row(prompt=prompt, pages=self.pool.take(needed)))

    def fits(self, prompt: Prompt) -> bool:
        """Whether a prompt can be admitted, if need be as the only row."""
        return prompt.max_stored_tokens <= self.max_tokens

    def chunks(self, max_tokens: int) -> list[Chunk]:
        """The next chunks of prompts, the oldest rows first, of `max_tokens` tokens in all."""
        chunks: list[Chunk] = []
        for row in self.live:
            if max_tokens <= 0:
                break
            if row.stored == 0 and self.prefixes is not None:
                pages = self.prefixes.find(row.prompt.ids, is_long=self._is_long(row))
                self.pool.release(row.pages[: len(pages)])
                row.pages[: len(pages)] = pages
                row.stored = len(pages) * self.page_tokens
            if row.unstored:
                chunks.append(Chunk(row=row, start=row.stored, stop=row.stored + min(max_tokens, row.unstored)))
                max_tokens -= chunks[-1].size
        return chunks

    def _is_long(self, row: Row) -> bool:
        return takes_long_factors(len(row.prompt.ids), self.long_after)

    def mark_stored(self, chunk: Chunk) -> None:
        """Record that a chunk was computed."""
        row = chunk.row
        row.stored = chunk.stop
        if self.prefixes is not None:
            self.prefixes.add(row.prompt.ids, row.pages, row.stored, is_long=self._is_long(row))

    def decoding(self) -> list[Row]:
        """The rows with a complete prompt: they have generated at least one token."""
        return [row for row in self.live if row.output]

    def end(self, row: Row) -> None:
        """Remove a row and release its pages."""
        self.live = [live_row for live_row in self.live if live_row is not row]
        self.pool.release(row.pages)
        row.pages = []

    def restart(self, row: Row) -> None:
        """Put a row back as the first waiting prompt; computed again, its keys get the same rotary factors."""
        self.end(row)
        self.waiting.appendleft(row.prompt)
