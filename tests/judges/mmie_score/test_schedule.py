"""The schedule without a model: what would lie in the cache is written down, slot by slot."""

from __future__ import annotations

from collections.abc import Hashable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import check_books, text_work

from mmie_tasks.judges.mmie_score.engine.model import Row, Work
from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes
from mmie_tasks.judges.mmie_score.engine.steps import Schedule, slot

PICTURE = 99
LONG_AFTER = 20


class Simulated:
    """Moves by chance, as the engine makes them, and looks at the whole cache after each."""

    def __init__(self, random: Random, *, pages: int, page_tokens: int, rows: int) -> None:
        self.random, self.page_tokens = random, page_tokens
        self.pool = PagePool(pages)
        self.prefixes = SharedPrefixes(self.pool, page_tokens, PICTURE)
        self.schedule = Schedule(
            pool=self.pool,
            prefixes=self.prefixes,
            page_tokens=page_tokens,
            long_after=LONG_AFTER,
            most_rows=rows,
        )
        self.cache: dict[int, Hashable] = {}
        self.admitted: list[int] = []
        self.ended: list[int] = []

    def admit(self) -> None:
        self.schedule.admit()
        keys = [row.work.key for row in self.schedule.live]
        self.admitted += [key for key in keys if key not in self.admitted]

    def prefill(self, most_tokens: int) -> None:
        parts = self.schedule.parts(most_tokens)
        assert sum(part.stop - part.start for part in parts) <= most_tokens
        for part in parts:
            assert part.start == part.row.stored < part.stop
            self._write(part.row, part.start, part.stop)
        for part in parts:
            self.schedule.stored(part)
            if part.ends_prompt:
                self._generate(part.row)

    def decode(self) -> None:
        for row in self.schedule.decoding():
            place = len(row.work.ids) + len(row.output) - 1
            self._write(row, place, place + 1)
            self._generate(row)

    def start_again(self) -> None:
        if self.schedule.live:
            self.schedule.start_again(self.schedule.live[-1])

    def _generate(self, row: Row) -> None:
        row.output.append(self.random.randrange(3))
        if len(row.output) == row.work.max_new_tokens or self.random.random() < 0.1:
            self.schedule.end(row)
            self.ended.append(row.work.key)

    def _write(self, row: Row, start: int, stop: int) -> None:
        for place in range(start, stop):
            self.cache[slot(row, place, self.page_tokens)] = content(row, place)

    def check(self) -> None:
        live = self.schedule.live
        check_books(self.pool, self.prefixes, live, self.page_tokens)
        assert len(live) <= self.schedule.most_rows
        assert self.admitted == sorted(self.admitted), "who came first is served first"
        for row in live:
            for place in range(row.stored + max(0, len(row.output) - 1)):
                assert self.cache[slot(row, place, self.page_tokens)] == content(row, place)


def content(row: Row, place: int) -> Hashable:
    """What the key of a token depends on: all tokens so far, pictures, and rotary factors."""
    tokens = (*row.work.ids, *row.output)[: place + 1]
    prompt_is_long = len(row.work.ids) > LONG_AFTER
    is_long = prompt_is_long if place < len(row.work.ids) else place + 1 > LONG_AFTER
    return tokens, prompt_is_long, is_long, row.work.key if PICTURE in tokens else None


def drawn(random: Random, key: int, most: int) -> Work:
    """Starts that are often alike, of any length, some with a picture."""
    count = random.randint(1, most)
    ids = [random.choice([0, 0, 0, 0, 0, 0, 1])] * count
    if random.random() < 0.3:
        ids[random.randrange(count)] = PICTURE
    return text_work(key, ids, random.randint(1, 9))


@settings(max_examples=150)
@given(
    random=st.randoms(use_true_random=True),
    page_tokens=st.sampled_from([1, 2, 4, 7]),
    rows=st.integers(1, 6),
    spare_pages=st.integers(0, 12),
)
def test_every_row_finds_its_own_tokens_in_its_pages(
    random: Random, page_tokens: int, rows: int, spare_pages: int
) -> None:
    works = [drawn(random, key, most=30) for key in range(12)]
    longest = max(-(-work.most_tokens // page_tokens) for work in works)
    simulated = Simulated(random, pages=longest + spare_pages, page_tokens=page_tokens, rows=rows)
    schedule = simulated.schedule
    schedule.waiting.extend(works)
    while schedule.waiting or schedule.live:
        simulated.admit()
        assert schedule.live, "one row always has room"
        simulated.check()
        simulated.prefill(random.randint(1, 20))
        simulated.check()
        if random.random() < 0.8:
            simulated.decode()
            simulated.check()
        if random.random() < 0.05:
            simulated.start_again()
            simulated.check()
    assert sorted(simulated.ended) == list(range(12))
    assert simulated.pool.free + len(simulated.prefixes) == simulated.pool.size


def scheduled(
    *, pages: int, rows: int = 8, sharing: bool = True, limit: int | None = None
) -> Schedule:
    pool = PagePool(pages)
    return Schedule(
        pool=pool,
        prefixes=SharedPrefixes(pool, 4, PICTURE) if sharing else None,
        page_tokens=4,
        long_after=LONG_AFTER,
        most_rows=rows,
        longest_tokens=limit,
    )


def stored(schedule: Schedule, work: Work) -> None:
    """A work whose prompt is computed, and which ends."""
    schedule.waiting.append(work)
    schedule.admit()
    for part in schedule.parts(1000):
        schedule.stored(part)
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
def test_a_work_gets_pages_for_all_it_may_become(prompt: int, new: int, pages: int) -> None:
    assert scheduled(pages=1).pages_for(text_work(0, [1] * prompt, new)) == pages


def test_a_work_that_has_no_room_is_not_overtaken() -> None:
    schedule = scheduled(pages=4)
    schedule.waiting.extend([text_work(0, [1] * 12, 1), text_work(1, [1] * 8, 1)])
    schedule.waiting.append(text_work(2, [1] * 4, 1))
    schedule.admit()
    assert [row.work.key for row in schedule.live] == [0]
    schedule.end(schedule.live[0])
    schedule.admit()
    assert [row.work.key for row in schedule.live] == [1, 2]


def test_no_more_rows_are_alive_than_may_be() -> None:
    schedule = scheduled(pages=100, rows=2)
    schedule.waiting.extend(text_work(key, [1]) for key in range(5))
    schedule.admit()
    assert (len(schedule.live), len(schedule.waiting)) == (2, 3)
    schedule.most_rows = 1
    schedule.end(schedule.live[0])
    schedule.admit()
    assert (len(schedule.live), len(schedule.waiting)) == (1, 3)


def test_kept_pages_make_room_those_first_that_were_not_used_lately() -> None:
    schedule = scheduled(pages=4)
    first, second = ([start, *[0] * 4] for start in (1, 2))
    stored(schedule, text_work(0, first, 4))
    stored(schedule, text_work(1, second, 4))
    stored(schedule, text_work(2, first, 4))
    stored(schedule, text_work(3, [PICTURE] * 12, 1))  # needs three pages, and two are free
    assert taken_over(schedule, text_work(4, second, 4)) == 0
    assert taken_over(schedule, text_work(5, first, 4)) == 4


def taken_over(schedule: Schedule, work: Work) -> int:
    """Tokens that a work finds stored; it is not computed."""
    schedule.waiting.append(work)
    schedule.admit()
    row = schedule.live[-1]
    schedule.parts(1)
    schedule.end(row)
    return row.stored


def test_without_sharing_nothing_is_kept() -> None:
    schedule = scheduled(pages=4, sharing=False)
    for key in range(3):
        stored(schedule, text_work(key, [1] * 8, 1))
    schedule.waiting.append(text_work(9, [1] * 16, 1))
    schedule.admit()
    assert len(schedule.parts(1000)) == 1


def test_parts_go_to_the_oldest_rows_first() -> None:
    schedule = scheduled(pages=100, sharing=False)
    schedule.waiting.extend(text_work(key, [key] * 10) for key in range(3))
    schedule.admit()
    spans = [(part.row.work.key, part.start, part.stop) for part in schedule.parts(15)]
    assert spans == [(0, 0, 10), (1, 0, 5)]
    for part in schedule.parts(15):
        schedule.stored(part)
    spans = [(part.row.work.key, part.start, part.stop) for part in schedule.parts(15)]
    assert spans == [(1, 5, 10), (2, 0, 10)]


def test_a_part_that_was_not_computed_is_planned_again() -> None:
    schedule = scheduled(pages=100)
    stored(schedule, text_work(0, [1] * 10))
    schedule.waiting.append(text_work(1, [1] * 20))
    schedule.admit()
    first, again = schedule.parts(5), schedule.parts(5)
    assert [(part.start, part.stop) for part in first] == [(8, 13)]
    assert [(part.start, part.stop) for part in again] == [(8, 13)]


def test_a_row_that_starts_again_is_the_next_one() -> None:
    schedule = scheduled(pages=4)
    schedule.waiting.extend(text_work(key, [key] * 8, 1) for key in range(3))
    schedule.admit()
    for part in schedule.parts(1000):
        schedule.stored(part)
    row = schedule.live[1]
    row.output.append(5)
    schedule.start_again(row)
    schedule.admit()
    assert [each.work.key for each in schedule.live] == [0, 1]
    assert (schedule.live[1].stored, schedule.live[1].output) == (0, [])


@pytest.mark.parametrize(
    ("pages", "limit", "longest"),
    [
        pytest.param(4, None, 16, id="what all pages hold"),
        pytest.param(4, 9, 9, id="what the device computes"),
        pytest.param(4, 99, 16, id="no more than all pages hold"),
    ],
)
def test_a_work_must_have_room_at_least_alone(pages: int, limit: int | None, longest: int) -> None:
    schedule = scheduled(pages=pages, limit=limit)
    assert schedule.holds(text_work(0, [1] * longest, 1))
    assert not schedule.holds(text_work(0, [1] * longest, 2))
