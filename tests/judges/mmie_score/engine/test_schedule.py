"""Pages, shared prefixes and the schedule, without a model: the cache is simulated slot by slot."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import check_page_counts, text_prompt

from mmie_tasks.judges.mmie_score.engine.decoding import slot
from mmie_tasks.judges.mmie_score.engine.schedule import PagePool, PrefixCache, Prompt, Row, Schedule

IMAGE_TOKEN = 99
LONG_AFTER = 20
PAGE_TOKENS = 4
START = [1, 2, 3, 4, 5, 6, 7, 8]


def prefixes_of(ids: list[int], *, pool: PagePool, is_long: bool = False) -> PrefixCache:
    """A cache of all pages of a prompt whose row has ended."""
    prefixes = PrefixCache(pool, PAGE_TOKENS, IMAGE_TOKEN)
    pages = pool.take(-(-len(ids) // PAGE_TOKENS))
    prefixes.add(ids, pages, len(ids), is_long=is_long)
    pool.release(pages)
    return prefixes


def shared_pages(prefixes: PrefixCache, ids: list[int], *, is_long: bool = False) -> int:
    return len(prefixes.find(ids, is_long=is_long))


@given(st.lists(st.integers(-3, 3)))
def test_every_page_is_either_free_or_held(moves: list[int]) -> None:
    pool, held = PagePool(5), list[int]()
    for move in moves:
        if move > len(pool.free):
            with pytest.raises(IndexError, match=f"{move} pages .* {len(pool.free)} are free"):
                pool.take(move)
        elif move >= 0:
            held += pool.take(move)
        else:
            pool.release(held[:-move])
            held = held[-move:]
        assert len(set(held)) == len(held)
        assert len(pool.free) + len(held) == len(pool.holders) == 5


def test_a_page_is_free_once_its_last_holder_releases_it() -> None:
    pool = PagePool(1)
    [page] = pool.take(1)
    pool.share(page)
    pool.release([page])
    assert (pool.holders[page], len(pool.free)) == (1, 0)
    pool.release([page])
    assert (pool.holders[page], len(pool.free)) == (0, 1)


def test_a_free_page_is_neither_released_nor_shared() -> None:
    pool = PagePool(2)
    pages = pool.take(1)
    pool.release(pages)
    with pytest.raises(ValueError, match="free and cannot be released"):
        pool.release(pages)
    with pytest.raises(ValueError, match="free and cannot be shared"):
        pool.share(pages[0])
    assert len(pool.free) == 2


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
def test_the_common_full_pages_of_prompts_are_shared(ids: list[int], pages: int) -> None:
    assert shared_pages(prefixes_of([*START, 9], pool=PagePool(8)), ids) == pages


@pytest.mark.parametrize("is_long", [False, True])
def test_prompts_with_other_rotary_factors_share_nothing(is_long: bool) -> None:
    prefixes = prefixes_of(START, pool=PagePool(8), is_long=is_long)
    assert shared_pages(prefixes, [*START, 9], is_long=is_long) == 2
    assert shared_pages(prefixes, [*START, 9], is_long=not is_long) == 0


def test_nothing_is_shared_from_the_first_image_on() -> None:
    ids = [1, 2, 3, 4, 5, IMAGE_TOKEN, 7, 8, 9, 10, 11, 12, 13]
    prefixes = prefixes_of(ids, pool=PagePool(8))
    assert (len(prefixes), shared_pages(prefixes, ids)) == (1, 1)


def test_only_stored_pages_are_added() -> None:
    pool = PagePool(8)
    prefixes = PrefixCache(pool, PAGE_TOKENS, IMAGE_TOKEN)
    prefixes.add(START, pool.take(2), 7, is_long=False)
    assert (len(prefixes), shared_pages(prefixes, [*START, 9])) == (1, 1)


def test_a_shared_page_stays_as_long_as_a_row_holds_it() -> None:
    pool = PagePool(2)
    prefixes = prefixes_of(START, pool=pool)
    pages = prefixes.find([*START, 9], is_long=False)
    assert prefixes.evictable() == 0
    prefixes.evict(2)
    assert (len(pool.free), len(prefixes)) == (0, 2)
    pool.release(pages)
    assert prefixes.evictable() == 2
    prefixes.evict(2)
    assert (len(pool.free), len(prefixes)) == (2, 0)


def test_the_least_recently_used_pages_are_evicted_first() -> None:
    pool = PagePool(3)
    prefixes = PrefixCache(pool, PAGE_TOKENS, IMAGE_TOKEN)
    prompts = [[start, 0, 0, 0, 0] for start in (1, 2, 3)]
    for ids in prompts:
        pages = pool.take(1)
        prefixes.add(ids, pages, 4, is_long=False)
        pool.release(pages)
    pool.release(prefixes.find(prompts[0], is_long=False))
    prefixes.evict(1)
    remaining = [len(prefixes.find(ids, is_long=False)) for ids in prompts]
    assert remaining == [1, 0, 1]
    assert len(pool.free) == 1


def test_no_more_pages_are_evicted_than_requested() -> None:
    pool = PagePool(4)
    prefixes = prefixes_of([*range(16)], pool=pool)
    prefixes.evict(0)
    assert len(prefixes) == 4
    prefixes.evict(3)
    assert (len(prefixes), len(pool.free)) == (1, 3)


def test_the_same_prefix_is_added_once() -> None:
    pool = PagePool(4)
    prefixes = prefixes_of(START, pool=pool)
    prefixes.add(START, pool.take(2), 8, is_long=False)
    assert (len(prefixes), len(pool.free)) == (2, 0)
    assert shared_pages(prefixes, [*START, 9]) == 2


class SimulatedEngine:
    """Random steps like those of the engine, with a check of the whole cache after each."""

    def __init__(self, random: Random, *, pages: int, page_tokens: int, rows: int) -> None:
        self.random, self.page_tokens = random, page_tokens
        self.pool = PagePool(pages)
        self.prefixes = PrefixCache(self.pool, page_tokens, IMAGE_TOKEN)
        self.schedule = Schedule(
            pool=self.pool, prefixes=self.prefixes, page_tokens=page_tokens, long_after=LONG_AFTER, max_rows=rows
        )
        self.cache: dict[int, Hashable] = {}
        self.admitted: list[int] = []
        self.ended: list[int] = []

    def admit(self) -> None:
        self.schedule.admit()
        keys = [row.prompt.key for row in self.schedule.live]
        self.admitted += [key for key in keys if key not in self.admitted]

    def prefill(self, max_tokens: int) -> None:
        chunks = self.schedule.chunks(max_tokens)
        assert sum(chunk.size for chunk in chunks) <= max_tokens
        for chunk in chunks:
            assert chunk.start == chunk.row.stored < chunk.stop
            self._write(chunk.row, chunk.start, chunk.stop)
        for chunk in chunks:
            self.schedule.mark_stored(chunk)
            if chunk.ends_prompt:
                self._generate(chunk.row)

    def decode(self) -> None:
        for row in self.schedule.decoding():
            position = len(row.prompt.ids) + len(row.output) - 1
            self._write(row, position, position + 1)
            self._generate(row)

    def restart(self) -> None:
        if self.schedule.live:
            self.schedule.restart(self.schedule.live[-1])

    def _generate(self, row: Row) -> None:
        row.output.append(self.random.randrange(3))
        if len(row.output) == row.prompt.max_new_tokens or self.random.random() < 0.1:
            self.schedule.end(row)
            self.ended.append(row.prompt.key)

    def _write(self, row: Row, start: int, stop: int) -> None:
        for position in range(start, stop):
            self.cache[slot(row, position, self.page_tokens)] = content(row, position)

    def check(self) -> None:
        live = self.schedule.live
        check_page_counts(self.pool, self.prefixes, live, self.page_tokens)
        assert len(live) <= self.schedule.max_rows
        assert self.admitted == sorted(self.admitted), "prompts are admitted in the order of arrival"
        for row in live:
            for position in range(row.stored + max(0, len(row.output) - 1)):
                assert self.cache[slot(row, position, self.page_tokens)] == content(row, position)


def content(row: Row, position: int) -> Hashable:
    """What the key of a token depends on: all tokens up to it, images, rotary factors."""
    tokens = (*row.prompt.ids, *row.output)[: position + 1]
    prompt_is_long = len(row.prompt.ids) > LONG_AFTER
    is_long = prompt_is_long if position < len(row.prompt.ids) else position + 1 > LONG_AFTER
    return tokens, prompt_is_long, is_long, row.prompt.key if IMAGE_TOKEN in tokens else None


def random_prompt(random: Random, key: int, max_tokens: int) -> Prompt:
    """A prompt of any length, often with a common start, sometimes with an image."""
    count = random.randint(1, max_tokens)
    ids = [random.choice([0, 0, 0, 0, 0, 0, 1])] * count
    if random.random() < 0.3:
        ids[random.randrange(count)] = IMAGE_TOKEN
    return text_prompt(key, ids, random.randint(1, 9))


@settings(max_examples=150)
@given(
    random=st.randoms(use_true_random=True),
    page_tokens=st.sampled_from([1, 2, 4, 7]),
    rows=st.integers(1, 6),
    spare_pages=st.integers(0, 12),
)
def test_every_row_reads_its_own_tokens_in_its_pages(
    random: Random, page_tokens: int, rows: int, spare_pages: int
) -> None:
    prompts = [random_prompt(random, key, max_tokens=30) for key in range(12)]
    longest = max(-(-prompt.max_stored_tokens // page_tokens) for prompt in prompts)
    simulated = SimulatedEngine(random, pages=longest + spare_pages, page_tokens=page_tokens, rows=rows)
    schedule = simulated.schedule
    schedule.waiting.extend(prompts)
    while schedule.waiting or schedule.live:
        simulated.admit()
        assert schedule.live, "one row always fits"
        simulated.check()
        simulated.prefill(random.randint(1, 20))
        simulated.check()
        if random.random() < 0.8:
            simulated.decode()
            simulated.check()
        if random.random() < 0.05:
            simulated.restart()
            simulated.check()
    assert sorted(simulated.ended) == list(range(12))
    assert len(simulated.pool.free) + len(simulated.prefixes) == len(simulated.pool.holders)


def scheduled(*, pages: int, rows: int = 8, sharing: bool = True, limit: int = sys.maxsize) -> Schedule:
    pool = PagePool(pages)
    return Schedule(
        pool=pool,
        prefixes=PrefixCache(pool, 4, IMAGE_TOKEN) if sharing else None,
        page_tokens=4,
        long_after=LONG_AFTER,
        max_rows=rows,
        max_tokens=limit,
    )


def compute(schedule: Schedule, prompt: Prompt) -> None:
    """Compute a prompt and end its row."""
    schedule.waiting.append(prompt)
    schedule.admit()
    for chunk in schedule.chunks(1000):
        schedule.mark_stored(chunk)
    schedule.end(schedule.live[-1])


@pytest.mark.parametrize(
    ("prompt", "new", "pages"),
    [
        pytest.param(4, 1, 1, id="the last token generated needs no key"),
        pytest.param(4, 2, 2, id="the one before does"),
        pytest.param(1, 4, 1, id="a page of both"),
        pytest.param(9, 1024, 258, id="a long reply"),
    ],
)
def test_a_prompt_gets_pages_for_its_longest_reply(prompt: int, new: int, pages: int) -> None:
    schedule = scheduled(pages=258)
    schedule.waiting.append(text_prompt(0, [1] * prompt, new))
    schedule.admit()
    assert len(schedule.live[0].pages) == pages


def test_a_waiting_prompt_is_not_overtaken() -> None:
    schedule = scheduled(pages=4)
    schedule.waiting.extend([text_prompt(0, [1] * 12, 1), text_prompt(1, [1] * 8, 1)])
    schedule.waiting.append(text_prompt(2, [1] * 4, 1))
    schedule.admit()
    assert [row.prompt.key for row in schedule.live] == [0]
    schedule.end(schedule.live[0])
    schedule.admit()
    assert [row.prompt.key for row in schedule.live] == [1, 2]


def test_no_more_rows_are_alive_than_allowed() -> None:
    schedule = scheduled(pages=100, rows=2)
    schedule.waiting.extend(text_prompt(key, [1]) for key in range(5))
    schedule.admit()
    assert (len(schedule.live), len(schedule.waiting)) == (2, 3)
    schedule.max_rows = 1
    schedule.end(schedule.live[0])
    schedule.admit()
    assert (len(schedule.live), len(schedule.waiting)) == (1, 3)


def test_cached_pages_are_evicted_for_a_new_prompt_the_oldest_first() -> None:
    schedule = scheduled(pages=4)
    first, second = ([start, *[0] * 4] for start in (1, 2))
    compute(schedule, text_prompt(0, first, 4))
    compute(schedule, text_prompt(1, second, 4))
    compute(schedule, text_prompt(2, first, 4))
    compute(schedule, text_prompt(3, [IMAGE_TOKEN] * 12, 1))  # needs three pages, and two are free
    assert reused_tokens(schedule, text_prompt(4, second, 4)) == 0
    assert reused_tokens(schedule, text_prompt(5, first, 4)) == 4


def reused_tokens(schedule: Schedule, prompt: Prompt) -> int:
    """Tokens of a prompt that are in the cache; the prompt is not computed."""
    schedule.waiting.append(prompt)
    schedule.admit()
    row = schedule.live[-1]
    schedule.chunks(1)
    schedule.end(row)
    return row.stored


def test_without_sharing_nothing_is_cached() -> None:
    schedule = scheduled(pages=4, sharing=False)
    for key in range(3):
        compute(schedule, text_prompt(key, [1] * 8, 1))
    schedule.waiting.append(text_prompt(9, [1] * 16, 1))
    schedule.admit()
    assert len(schedule.chunks(1000)) == 1


def test_chunks_go_to_the_oldest_rows_first() -> None:
    schedule = scheduled(pages=100, sharing=False)
    schedule.waiting.extend(text_prompt(key, [key] * 10) for key in range(3))
    schedule.admit()
    spans = [(chunk.row.prompt.key, chunk.start, chunk.stop) for chunk in schedule.chunks(15)]
    assert spans == [(0, 0, 10), (1, 0, 5)]
    for chunk in schedule.chunks(15):
        schedule.mark_stored(chunk)
    spans = [(chunk.row.prompt.key, chunk.start, chunk.stop) for chunk in schedule.chunks(15)]
    assert spans == [(1, 5, 10), (2, 0, 10)]


def test_a_chunk_that_was_not_computed_is_planned_again() -> None:
    schedule = scheduled(pages=100)
    compute(schedule, text_prompt(0, [1] * 10))
    schedule.waiting.append(text_prompt(1, [1] * 20))
    schedule.admit()
    first, second = schedule.chunks(5), schedule.chunks(5)
    assert [(chunk.start, chunk.stop) for chunk in first] == [(8, 13)]
    assert [(chunk.start, chunk.stop) for chunk in second] == [(8, 13)]


def test_a_restarted_row_is_the_next_one() -> None:
    schedule = scheduled(pages=4)
    schedule.waiting.extend(text_prompt(key, [key] * 8, 1) for key in range(3))
    schedule.admit()
    for chunk in schedule.chunks(1000):
        schedule.mark_stored(chunk)
    row = schedule.live[1]
    row.output.append(5)
    schedule.restart(row)
    schedule.admit()
    assert [row.prompt.key for row in schedule.live] == [0, 1]
    assert (schedule.live[1].stored, schedule.live[1].output) == (0, [])


@pytest.mark.parametrize(
    ("pages", "limit", "longest"),
    [
        pytest.param(4, sys.maxsize, 16, id="what all pages hold"),
        pytest.param(4, 9, 9, id="what the device computes"),
        pytest.param(4, 99, 16, id="no more than all pages hold"),
    ],
)
def test_a_prompt_must_fit_at_least_alone(pages: int, limit: int, longest: int) -> None:
    schedule = scheduled(pages=pages, limit=limit)
    assert schedule.fits(text_prompt(0, [1] * longest, 1))
    assert not schedule.fits(text_prompt(0, [1] * longest, 2))
