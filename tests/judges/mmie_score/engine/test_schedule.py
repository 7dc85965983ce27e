"""Pages and the schedule, without a model: the cache is simulated slot by slot."""

from __future__ import annotations

import sys
from collections.abc import Hashable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import check_page_counts, text_prompt

from mmie_tasks.judges.mmie_score.engine.schedule import LiveRow, Schedule
from mmie_tasks.judges.mmie_score.generation import JudgePrompt


class SimulatedEngine:
    """Random steps like those of the engine, with a check of the whole cache after each."""

    def __init__(self, random: Random, *, pages: int, page_tokens: int, rows: int) -> None:
        self.random, self.page_tokens = random, page_tokens
        self.schedule = Schedule(pages=pages, page_tokens=page_tokens, max_rows=rows)
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
            chunk.row.stored = chunk.stop
            if chunk.ends_row:
                self._generate(chunk.row)

    def decode(self) -> None:
        for chunk in self.schedule.last_tokens():
            self._write(chunk.row, chunk.start, chunk.stop)
            self._generate(chunk.row)

    def restart(self) -> None:
        if self.schedule.live:
            self.schedule.restart(self.schedule.live[-1])

    def _generate(self, row: LiveRow) -> None:
        row.output.append(self.random.randrange(3))
        if len(row.output) == row.prompt.max_new_tokens or self.random.random() < 0.1:
            self.schedule.end(row)
            self.ended.append(row.prompt.key)

    def _write(self, row: LiveRow, start: int, stop: int) -> None:
        for position in range(start, stop):
            self.cache[slot(row, position, self.page_tokens)] = content(row, position)

    def check(self) -> None:
        live = self.schedule.live
        check_page_counts(self.schedule)
        assert len(live) <= self.schedule.max_rows
        assert self.admitted == sorted(self.admitted), (
            "prompts are admitted in the order of arrival"
        )
        for row in live:
            for position in range(row.stored + max(0, len(row.output) - 1)):
                assert self.cache[slot(row, position, self.page_tokens)] == content(row, position)


def slot(row: LiveRow, position: int, page_tokens: int) -> int:
    return row.pages[position // page_tokens] * page_tokens + position % page_tokens


def content(row: LiveRow, position: int) -> Hashable:
    """What the key of a token depends on: its row, and the tokens up to it."""
    return row.prompt.key, (*row.prompt.ids, *row.output)[: position + 1]


def random_prompt(random: Random, key: int, max_tokens: int) -> JudgePrompt:
    """A prompt of any length."""
    ids = [random.randrange(2)] * random.randint(1, max_tokens)
    return text_prompt(key, ids, random.randint(1, 9))


@settings(max_examples=60)
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
    simulated = SimulatedEngine(
        random, pages=longest + spare_pages, page_tokens=page_tokens, rows=rows
    )
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
    assert len(schedule.free_pages) == schedule.pages


def scheduled(*, pages: int, rows: int = 8, limit: int = sys.maxsize) -> Schedule:
    return Schedule(pages=pages, page_tokens=4, max_rows=rows, max_tokens=limit)


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


def test_chunks_go_to_the_oldest_rows_first() -> None:
    schedule = scheduled(pages=100)
    schedule.waiting.extend(text_prompt(key, [key] * 10) for key in range(3))
    schedule.admit()
    spans = [(chunk.row.prompt.key, chunk.start, chunk.stop) for chunk in schedule.chunks(15)]
    assert spans == [(0, 0, 10), (1, 0, 5)]
    for chunk in schedule.chunks(15):
        chunk.row.stored = chunk.stop
    spans = [(chunk.row.prompt.key, chunk.start, chunk.stop) for chunk in schedule.chunks(15)]
    assert spans == [(1, 5, 10), (2, 0, 10)]


def test_a_restarted_row_is_the_next_one() -> None:
    schedule = scheduled(pages=4)
    schedule.waiting.extend(text_prompt(key, [key] * 8, 1) for key in range(3))
    schedule.admit()
    for chunk in schedule.chunks(1000):
        chunk.row.stored = chunk.stop
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
