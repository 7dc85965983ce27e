"""Pages: who holds them, and which starts of prompts are kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes

PAGE_TOKENS = 4
PICTURE = 99
START = [1, 2, 3, 4, 5, 6, 7, 8]


def kept(ids: list[int], *, pool: PagePool, is_long: bool = False) -> SharedPrefixes:
    """All of a prompt, stored by a row that has gone."""
    prefixes = SharedPrefixes(pool, PAGE_TOKENS, PICTURE)
    pages = pool.take(-(-len(ids) // PAGE_TOKENS))
    prefixes.keep(ids, pages, len(ids), is_long=is_long)
    pool.release(pages)
    return prefixes


def found(prefixes: SharedPrefixes, ids: list[int], *, is_long: bool = False) -> int:
    return len(prefixes.find(ids, is_long=is_long))


@given(st.lists(st.integers(-3, 3)))
def test_a_page_is_free_or_held_and_nothing_gets_lost(moves: list[int]) -> None:
    pool, held = PagePool(5), list[int]()
    for move in moves:
        if move > pool.free:
            with pytest.raises(IndexError, match=f"{move} pages .* {pool.free} are free"):
                pool.take(move)
        elif move >= 0:
            held += pool.take(move)
        else:
            pool.release(held[:-move])
            held = held[-move:]
        assert len(set(held)) == len(held)
        assert pool.free + len(held) == pool.size == 5


def test_a_page_is_free_when_its_last_holder_has_gone() -> None:
    pool = PagePool(1)
    [page] = pool.take(1)
    pool.share(page)
    pool.release([page])
    assert (pool.holders(page), pool.free) == (1, 0)
    pool.release([page])
    assert (pool.holders(page), pool.free) == (0, 1)


def test_a_free_page_is_neither_released_nor_shared() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    pool.release(pages)
    with pytest.raises(ValueError, match="free and cannot be released"):
        pool.release(pages)
    with pytest.raises(ValueError, match="free and cannot be shared"):
        pool.share(pages[0])
    assert pool.free == 2


@pytest.mark.parametrize(
    ("ids", "pages"),
    [
        pytest.param([*START, 9], 2, id="what follows is new"),
        pytest.param(START, 1, id="the last token is always computed"),
        pytest.param([*START[:5], 9], 1, id="another token in the second page"),
        pytest.param([9, *START[1:], 9], 0, id="another token in the first page"),
        pytest.param(START[:4], 0, id="one page"),
        pytest.param(START[:5], 1, id="one page and a token"),
        pytest.param([1], 0, id="one token"),
        pytest.param([*START[4:], *START[4:], 9], 0, id="a page that stood behind another"),
    ],
)
def test_the_full_pages_that_prompts_have_in_common_are_found(ids: list[int], pages: int) -> None:
    assert found(kept([*START, 9], pool=PagePool(8)), ids) == pages


@pytest.mark.parametrize("is_long", [False, True])
def test_a_prompt_of_the_other_rotary_factors_finds_nothing(is_long: bool) -> None:
    prefixes = kept(START, pool=PagePool(8), is_long=is_long)
    assert found(prefixes, [*START, 9], is_long=is_long) == 2
    assert found(prefixes, [*START, 9], is_long=not is_long) == 0


def test_nothing_is_shared_from_the_first_picture_on() -> None:
    ids = [1, 2, 3, 4, 5, PICTURE, 7, 8, 9, 10, 11, 12, 13]
    prefixes = kept(ids, pool=PagePool(8))
    assert (len(prefixes), found(prefixes, ids)) == (1, 1)


def test_only_what_is_stored_is_kept() -> None:
    pool = PagePool(8)
    prefixes = SharedPrefixes(pool, PAGE_TOKENS, PICTURE)
    prefixes.keep(START, pool.take(2), 7, is_long=False)
    assert (len(prefixes), found(prefixes, [*START, 9])) == (1, 1)


def test_a_page_that_is_found_stays_as_long_as_somebody_holds_it() -> None:
    pool = PagePool(2)
    prefixes = kept(START, pool=pool)
    pages = prefixes.find([*START, 9], is_long=False)
    assert prefixes.idle() == 0
    prefixes.give_back(2)
    assert (pool.free, len(prefixes)) == (0, 2)
    pool.release(pages)
    assert prefixes.idle() == 2
    prefixes.give_back(2)
    assert (pool.free, len(prefixes)) == (2, 0)


def test_the_pages_that_were_not_used_lately_go_first() -> None:
    pool = PagePool(3)
    prefixes = SharedPrefixes(pool, PAGE_TOKENS, PICTURE)
    prompts = [[start, 0, 0, 0, 0] for start in (1, 2, 3)]
    for ids in prompts:
        pages = pool.take(1)
        prefixes.keep(ids, pages, 4, is_long=False)
        pool.release(pages)
    pool.release(prefixes.find(prompts[0], is_long=False))
    prefixes.give_back(1)
    left = [len(prefixes.find(ids, is_long=False)) for ids in prompts]
    assert left == [1, 0, 1]
    assert pool.free == 1


def test_no_more_is_given_back_than_is_asked_for() -> None:
    pool = PagePool(4)
    prefixes = kept([*range(16)], pool=pool)
    prefixes.give_back(0)
    assert len(prefixes) == 4
    prefixes.give_back(3)
    assert (len(prefixes), pool.free) == (1, 3)


def test_the_same_start_is_kept_once() -> None:
    pool = PagePool(4)
    prefixes = kept(START, pool=pool)
    prefixes.keep(START, pool.take(2), 8, is_long=False)
    assert (len(prefixes), pool.free) == (2, 0)
    assert found(prefixes, [*START, 9]) == 2
