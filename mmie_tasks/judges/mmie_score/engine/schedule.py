"""Who is computed when: admission by memory, parts of prompts, and the end of a sequence."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes
from mmie_tasks.judges.mmie_score.engine.rotary import prompt_is_long
from mmie_tasks.judges.mmie_score.engine.work import Part, Row, Work


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
