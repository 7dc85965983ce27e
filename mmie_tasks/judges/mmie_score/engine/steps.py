"""Computing parts of prompts, those of several rows in one step."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.mmie_score.engine.attention import (
    Attend,
    Attention,
    Rows,
    generated_is_long,
    prompt_is_long,
)
from mmie_tasks.judges.mmie_score.engine.model import Part, Row, TextModel, Work
from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes


class Prefill:
    """Stores the keys of parts of prompts.

    Args:
        text: The language model.
        attention: Over its pages.
        image_token_id: Marks a place of an image feature.
        fixed_rows: As many rows as go through the head in every step; None: as many as there are.
    """

    def __init__(
        self,
        text: TextModel,
        attention: Attention,
        image_token_id: int,
        fixed_rows: int | None = None,
    ) -> None:
        self._text = text
        self._attention = attention
        self._image_token_id = image_token_id
        self._fixed_rows = fixed_rows

    @torch.inference_mode()
    def step(self, parts: Sequence[Part], fixed_tokens: int | None = None) -> torch.Tensor:
        """Compute parts, and what comes after those that end a prompt.

        Args:
            parts: At least one, of different rows.
            fixed_tokens: As many as go through every layer, filled up behind the parts; None: as
                many as there are.

        Returns:
            Logits (parts that end a prompt, vocabulary).
        """
        text, device = self._text, self._text.device
        tokens = sum(part.stop - part.start for part in parts)
        padding = max(0, (fixed_tokens or 0) - tokens)
        hidden = text.forward(
            _padded(torch.cat([self._embedded(part) for part in parts]), padding),
            _filled(_positions(parts), padding, 0).to(device),
            _filled(self._are_long(parts), padding, 0).to(device),
            _filled(self._slots(parts), padding, self._scratch()).to(device),
            _within(tokens, self._attention.plan(_rows(parts), device), padding),
        )
        last = np.cumsum([part.stop - part.start for part in parts]) - 1
        ends = [int(place) for place, part in zip(last, parts, strict=True) if part.ends_prompt]
        ending = hidden[torch.tensor(ends, dtype=torch.long, device=device)]
        return text.logits(_padded(ending, max(0, (self._fixed_rows or 0) - len(ends))))[
            : len(ends)
        ]

    def _embedded(self, part: Part) -> torch.Tensor:
        """(tokens, hidden): image features at their places, words elsewhere."""
        ids = np.asarray(part.row.work.ids[: part.stop])
        is_image = ids == self._image_token_id
        embedded = self._text.embed(torch.from_numpy(ids[part.start :]).to(self._text.device))
        features = part.row.features
        if features is None:
            return embedded
        before, after = int(is_image[: part.start].sum()), int(is_image.sum())
        places = torch.from_numpy(np.flatnonzero(is_image[part.start :])).to(embedded.device)
        own = features[before:after].to(embedded.dtype)
        return embedded.index_copy(0, places, own)

    def _are_long(self, parts: Sequence[Part]) -> NDArray[np.bool_]:
        long_after = self._text.rotary.long_after
        return np.concatenate(
            [
                np.full(part.stop - part.start, prompt_is_long(part.row.work.ids, long_after))
                for part in parts
            ]
        )

    def _slots(self, parts: Sequence[Part]) -> NDArray[np.int64]:
        """As `decoding.slot` says it, of all at once."""
        page_tokens = self._attention.page_tokens
        slots = []
        for part in parts:
            places = np.arange(part.start, part.stop, dtype=np.int64)
            pages = np.asarray(part.row.pages)[places // page_tokens]
            slots.append(pages * page_tokens + places % page_tokens)
        return np.concatenate(slots)

    def _scratch(self) -> int:
        """A slot of the last page, which belongs to no row."""
        pages, page_tokens = self._text.keys.shape[1:3]
        return (pages - 1) * page_tokens


def _positions(parts: Sequence[Part]) -> NDArray[np.int64]:
    return np.concatenate([np.arange(part.start, part.stop, dtype=np.int64) for part in parts])


def _filled(values: NDArray[Any], count: int, value: int) -> torch.Tensor:
    """So many values behind."""
    return torch.from_numpy(np.pad(values, (0, count), constant_values=value))


def _rows(parts: Sequence[Part]) -> Rows:
    starts = np.cumsum([0, *(part.stop - part.start for part in parts)])
    return Rows(
        starts=[int(start) for start in starts],
        lengths=[part.stop for part in parts],
        tables=[part.row.pages for part in parts],
    )


def _padded(rows: torch.Tensor, count: int) -> torch.Tensor:
    """So many rows of zeros behind."""
    return torch.cat([rows, rows.new_zeros(count, *rows.shape[1:])]) if count else rows


def _within(tokens: int, attend: Attend, padding: int) -> Attend:
    """Attention for the first tokens; what fills up behind them sees nothing."""
    if not padding:
        return attend

    def attend_first(
        queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        return _padded(attend(queries[:tokens], keys, values), padding)

    return attend_first


# One step of decoding: the next token of every row that has one already.


class Decoder(Protocol):
    """A way to compute a step."""

    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """Logits (rows, vocabulary) of the tokens after the last ones of these rows."""
        ...


def position(row: Row) -> int:
    """Of the row's last token, which is the one to be computed."""
    return len(row.work.ids) + len(row.output) - 1


def slot(row: Row, place: int, page_tokens: int) -> int:
    """Where the keys of the row's token at a position go."""
    return row.pages[place // page_tokens] * page_tokens + place % page_tokens


class PlainDecoder:
    """As many tokens as there are rows.

    Args:
        text: The language model.
        attention: Over its pages.
    """

    def __init__(self, text: TextModel, attention: Attention) -> None:
        self._text = text
        self._attention = attention

    @torch.inference_mode()
    def step(self, rows: Sequence[Row]) -> torch.Tensor:
        """As `Decoder.step`."""
        text, device = self._text, self._text.device
        places = [position(row) for row in rows]
        page_tokens = self._attention.page_tokens
        long = [generated_is_long(place, text.rotary.long_after) for place in places]
        seen = Rows(
            starts=list(range(len(rows) + 1)),
            lengths=[place + 1 for place in places],
            tables=[row.pages for row in rows],
        )
        hidden = text.forward(
            text.embed(torch.tensor([row.output[-1] for row in rows], device=device)),
            torch.tensor(places, device=device),
            torch.tensor(long, device=device),
            torch.tensor(
                [slot(row, place, page_tokens) for row, place in zip(rows, places, strict=True)],
                device=device,
            ),
            self._attention.plan(seen, device),
        )
        return text.logits(hidden)


# Who is computed when: admission by memory, parts of prompts, and the end of a sequence.


class Schedule:
    """Works that wait, and rows that are alive.

    A row is admitted with pages for all it may become, so that it never runs out of them; works
    are admitted in the order in which they came.

    Args:
        pool: The pages.
        prefixes: Starts of prompts that are kept; None keeps none.
        page_tokens: Tokens of a page.
        long_after: Tokens above which a prompt has the long rotary factors.
        most_rows: Rows that may be alive at once; may be lowered later.
        longest_tokens: That a row may come to have; None is what all pages hold together.
    """

    def __init__(
        self,
        *,
        pool: PagePool,
        prefixes: SharedPrefixes | None,
        page_tokens: int,
        long_after: int,
        most_rows: int,
        longest_tokens: int | None = None,
    ) -> None:
        self.waiting: deque[Work] = deque()
        self.live: list[Row] = []
        self.most_rows = most_rows
        self._pool = pool
        self._prefixes = prefixes
        self._page_tokens = page_tokens
        self._long_after = long_after
        held = pool.size * page_tokens
        self.longest_tokens = held if longest_tokens is None else min(held, longest_tokens)

    def admit(self) -> None:
        """Make rows of the works that wait, as many as there is room for."""
        while self.waiting and len(self.live) < self.most_rows:
            work = self.waiting[0]
            needed = self.pages_for(work)
            if not self._find_room(needed):
                return
            self.waiting.popleft()
            self.live.append(Row(work=work, pages=self._pool.take(needed)))

    def _find_room(self, needed: int) -> bool:
        """Whether so many pages are free, after kept prefixes have gone if that helps."""
        lacking = needed - self._pool.free
        if lacking > 0 and self._prefixes is not None and lacking <= self._prefixes.idle():
            self._prefixes.give_back(lacking)
        return needed <= self._pool.free

    def pages_for(self, work: Work) -> int:
        """Pages that a work may come to need."""
        return -(-work.most_tokens // self._page_tokens)

    def holds(self, work: Work) -> bool:
        """Whether a work can be admitted, if need be once nobody else is alive."""
        return work.most_tokens <= self.longest_tokens

    def parts(self, most_tokens: int) -> list[Part]:
        """The next stretches of prompts, those of the oldest rows first, so many tokens in all."""
        return list(self._parts(most_tokens))

    def _parts(self, room: int) -> Iterator[Part]:
        for row in self.live:
            if room <= 0:
                return
            if row.stored == 0:
                self._share(row)
            if row.left:
                stop = row.stored + min(room, row.left)
                yield Part(row=row, start=row.stored, stop=stop)
                room -= stop - row.stored

    def _share(self, row: Row) -> None:
        """Take what others have stored already in place of the row's own pages."""
        if self._prefixes is None:
            return
        found = self._prefixes.find(row.work.ids, is_long=self.is_long(row))
        self._pool.release(row.pages[: len(found)])
        row.pages[: len(found)] = found
        row.stored = len(found) * self._page_tokens

    def is_long(self, row: Row) -> bool:
        """Whether the tokens of the row's prompt have the long rotary factors."""
        return prompt_is_long(row.work.ids, self._long_after)

    def stored(self, part: Part) -> None:
        """Note that a part has been computed."""
        row = part.row
        row.stored = part.stop
        if self._prefixes is not None:
            long = self.is_long(row)
            self._prefixes.keep(row.work.ids, row.pages, row.stored, is_long=long)

    def decoding(self) -> list[Row]:
        """The rows whose prompt is stored: they have generated at least one token."""
        return [row for row in self.live if row.output]

    def end(self, row: Row) -> None:
        """Let a row go, and its pages."""
        self.live = [each for each in self.live if each is not row]
        self._pool.release(row.pages)
        row.pages = []

    def start_again(self, row: Row) -> None:
        """Let a row wait again, as if it had never been admitted: the first in the queue.

        It will be computed from its prompt, so its keys get the rotary factors they had.
        """
        self.end(row)
        self.waiting.appendleft(row.work)
