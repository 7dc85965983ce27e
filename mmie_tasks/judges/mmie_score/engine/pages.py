"""Pages of the key/value cache: which are free, and who holds the others."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np


class PagePool:
    """A number of pages, each free or held, by one sequence or by several.

    Args:
        pages: How many there are; they are numbered from 0.
    """

    def __init__(self, pages: int) -> None:
        self._free = deque(range(pages))
        self._holders = [0] * pages

    @property
    def free(self) -> int:
        """How many pages nobody holds."""
        return len(self._free)

    @property
    def size(self) -> int:
        """How many pages there are."""
        return len(self._holders)

    def take(self, count: int) -> list[int]:
        """Free pages, held from now on.

        Raises:
            IndexError: There are not so many.
        """
        if count > len(self._free):
            raise IndexError(f"{count} pages were asked for, and {len(self._free)} are free")
        taken = [self._free.popleft() for _ in range(count)]
        for page in taken:
            self._holders[page] = 1
        return taken

    def share(self, page: int) -> None:
        """Count one holder more.

        Raises:
            ValueError: The page is free: what it holds is nobody's.
        """
        if not self._holders[page]:
            raise ValueError(f"page {page} is free and cannot be shared")
        self._holders[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """Count one holder less for each; a page without holders is free.

        Raises:
            ValueError: A page is free already.
        """
        for page in pages:
            if not self._holders[page]:
                raise ValueError(f"page {page} is free and cannot be released")
            self._holders[page] -= 1
            if not self._holders[page]:
                self._free.append(page)

    def holders(self, page: int) -> int:
        """How many hold a page."""
        return self._holders[page]


class SharedPrefixes:
    """Full pages of text at the start of prompts, kept for prompts that start alike.

    What is stored for a page depends on all tokens up to its end and on the rotary factors, which
    follow the length of the whole prompt; so both are in the key. Ids do not tell one picture from
    another: a page is shared only up to the first image.

    Args:
        pool: Where the pages are; this holds each page it keeps once.
        page_tokens: Tokens of a page.
        image_token_id: Marks a place of an image feature.
    """

    def __init__(self, pool: PagePool, page_tokens: int, image_token_id: int) -> None:
        self._pool = pool
        self._page_tokens = page_tokens
        self._image_token_id = image_token_id
        self._kept: OrderedDict[bytes, int] = OrderedDict()  # the least recently used first

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, ids: Sequence[int], *, is_long: bool) -> list[int]:
        """The pages that are there for the start of a prompt, one holder more for each.

        The prompt's last token is never among them: it has to be computed.
        """
        found: list[int] = []
        for key in self._keys(ids, len(ids) - 1, is_long=is_long):
            if (page := self._kept.get(key)) is None:
                break
            self._kept.move_to_end(key)
            self._pool.share(page)
            found.append(page)
        return found

    def keep(self, ids: Sequence[int], pages: Sequence[int], stored: int, *, is_long: bool) -> None:
        """Keep what can be shared of a prompt.

        Args:
            ids: The prompt.
            pages: Where its keys lie.
            stored: How many of its tokens are stored.
            is_long: Whether it has the long rotary factors.
        """
        for key, page in zip(self._keys(ids, stored, is_long=is_long), pages, strict=False):
            if key not in self._kept:
                self._kept[key] = page
                self._pool.share(page)

    def give_back(self, count: int) -> None:
        """Free up to so many pages that no sequence holds, those first that were not used lately.

        The pages behind a page that goes can not be found any more, and age like others.
        """
        for key, page in list(self._kept.items()):
            if count <= 0:
                return
            if self._pool.holders(page) == 1:
                del self._kept[key]
                self._pool.release([page])
                count -= 1

    def idle(self) -> int:
        """How many pages are held by nobody else."""
        return sum(self._pool.holders(page) == 1 for page in self._kept.values())

    def _keys(self, ids: Sequence[int], tokens: int, *, is_long: bool) -> Iterator[bytes]:
        """A key for each full page of text within the first tokens: a digest of all before."""
        digest = blake2b(b"long" if is_long else b"short", digest_size=16)
        for start in range(0, tokens - self._page_tokens + 1, self._page_tokens):
            page = ids[start : start + self._page_tokens]
            if self._image_token_id in page:
                return
            digest.update(np.asarray(page, dtype=np.int64).tobytes())
            yield digest.digest()
