"""The engine when memory runs out, when something breaks, and when nobody listens any more."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from support import internvl_golden as golden
from support.mmie_engine import (
    ListFeed,
    Made,
    Plan,
    drawn_ids,
    failed,
    finished,
    golden_works,
    made,
    one_thread,
    stock_output,
    text_work,
)

from mmie_tasks.judges.base import JudgeUnavailable, RequestBroken
from mmie_tasks.judges.mmie_score.engine.model import Failed, Work
from mmie_tasks.judges.mmie_score.memory import Budget, shrink

CASES = golden.cases()
NEW_TOKENS = 8  # enough to see what was lost
PLAN = Plan(page_tokens=16, pages=150, rows=8, chunk_tokens=1024, vision_tiles=8)
PARTS = ["vision", "prefill", "decoder"]
NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand so on")


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    """The engine collects garbage when memory runs out; what was there before need not be seen."""
    gc.freeze()
    yield
    gc.unfreeze()


Trouble = Callable[[str, Sequence[Any]], BaseException | None]
"""By the name of a part and what it is called with: what it raises, if anything."""


class Troubled:
    """A part of the engine that sometimes raises before it does its work."""

    def __init__(self, name: str, part: Any, trouble: Trouble) -> None:
        self._name, self._part, self._trouble = name, part, trouble

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._part, name)
        if name not in ("features", "step"):
            return found

        def called(*args: Any) -> Any:
            if (error := self._trouble(self._name, args)) is not None:
                raise error
            return found(*args)

        return called


def troubled(trouble: Trouble, plan: Plan = PLAN) -> Made:
    return made(plan, wrap=lambda name, part: Troubled(name, part, trouble))


def at_first(where: str, times: int, error: BaseException = NO_MEMORY, after: int = 0) -> Trouble:
    """So many times in one part, after so many times that went well."""
    calls = 0

    def trouble(name: str, _: Sequence[Any]) -> BaseException | None:
        nonlocal calls
        calls += name == where
        return error if name == where and after < calls <= after + times else None

    return trouble


@cache
def asked() -> tuple[Work, ...]:
    return tuple(replace(work, max_new_tokens=NEW_TOKENS) for work in golden_works())


def check_golden(engine: Made, works: Sequence[Work] = ()) -> None:
    for key, output in engine.outputs(works or asked()).items():
        assert output == expected(key)


def expected(key: int) -> list[int]:
    return list(CASES[key].output_ids[:NEW_TOKENS])


def shrunk(budget: Budget, times: int) -> Budget:
    for _ in range(times):
        budget = shrink(budget) or budget
    return budget


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("times", [1, 4, 6])
@pytest.mark.parametrize("where", PARTS)
def test_a_step_without_memory_is_done_again_with_less(where: str, times: int, after: int) -> None:
    engine = troubled(at_first(where, times, after=after))
    start = engine.engine.budget
    check_golden(engine)
    assert engine.engine.budget == shrunk(start, times)
    assert engine.engine.schedule.most_rows == engine.engine.budget.rows


@pytest.mark.parametrize(
    "trouble",
    [
        pytest.param(
            lambda name, args: NO_MEMORY if name == "vision" and args[1] > 1 else None, id="tiles"
        ),
        pytest.param(
            lambda name, args: NO_MEMORY if name == "decoder" and len(args[0]) > 1 else None,
            id="rows",
        ),
        pytest.param(
            lambda name, args: (
                NO_MEMORY
                if name == "prefill" and sum(part.stop - part.start for part in args[0]) > 256
                else None
            ),
            id="tokens",
        ),
    ],
)
@pytest.mark.parametrize("fixed", [False, True])
def test_in_the_end_the_smallest_steps_do(trouble: Trouble, fixed: bool) -> None:
    check_golden(troubled(trouble, Plan(**{**vars(PLAN), "fixed": fixed})))


def touches(key: int, name: str, args: Sequence[Any]) -> bool:
    match name:
        case "vision":
            return bool(args[0].key == key)
        case "prefill":
            return any(part.row.work.key == key for part in args[0])
        case _:
            return any(row.work.key == key for row in args[0])


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize("key", [2, 5, 9])
def test_only_the_request_that_never_fits_fails(where: str, key: int) -> None:
    engine = troubled(
        lambda name, args: NO_MEMORY if name == where and touches(key, name, args) else None
    )
    results = engine.results(asked())
    error = failed(results.pop(key)).error
    assert isinstance(error, JudgeUnavailable)
    assert "on this request alone: CUDA out of memory. Tried to allocate 2 GiB" in str(error)
    assert "and so on" not in str(error)
    assert len(results) == len(CASES) - 1
    for number, result in results.items():
        assert finished(result).output == expected(number)
    assert engine.engine.budget == engine.engine.planned  # what was taken from the others for it


@pytest.mark.parametrize("where", PARTS)
def test_a_request_alone_is_tried_with_smaller_steps_before_it_fails(where: str) -> None:
    engine = troubled(at_first(where, 3))
    check_golden(engine, asked()[5:6])
    assert (engine.engine.budget.chunk_tokens, engine.engine.budget.vision_tiles) == (256, 1)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes", id="Linux"),
        pytest.param("DefaultCPUAllocator: not enough memory: you tried 8 bytes", id="Windows"),
    ],
)
def test_a_cpu_without_memory_is_no_other_than_a_gpu(words: str) -> None:
    check_golden(troubled(at_first("decoder", 2, RuntimeError(words), after=5)))


class Broken(Exception):
    """What nobody expects."""


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            RuntimeError("CUDA error: an illegal memory access was encountered"), id="CUDA"
        ),
        pytest.param(Broken(), id="other"),
        pytest.param(KeyboardInterrupt(), id="interrupt"),
    ],
)
def test_what_else_is_raised_gets_out_and_holds_no_page(where: str, error: BaseException) -> None:
    engine = troubled(at_first(where, 1, error, after=1))
    with pytest.raises(type(error)):
        engine.results(asked())
    engine.check_empty()
    check_golden(engine)


@pytest.mark.parametrize("heard", [0, 1, 5, 11])
def test_who_stops_listening_leaves_no_page_held(heard: int) -> None:
    engine = made(Plan(page_tokens=16, rows=4))
    with one_thread():
        running = engine.engine.run(ListFeed(asked()))
        for _ in range(heard):
            next(running)
        running.close()
    engine.check_empty()
    check_golden(engine, asked()[::-1])


def test_a_work_larger_than_the_whole_cache_fails_and_the_others_go_on() -> None:
    small = [text_work(key, drawn_ids(key, 20), 5) for key in range(3)]
    fits, large = text_work(7, drawn_ids(7, 60), 5), text_work(8, drawn_ids(8, 60), 6)
    results = made(Plan(page_tokens=16, pages=4)).results([small[0], large, fits, *small[1:]])
    error = failed(results.pop(8)).error
    assert isinstance(error, JudgeUnavailable)
    assert "65 tokens" in str(error)
    assert "64 at once" in str(error)
    for work in (*small, fits):
        assert finished(results.pop(work.key)).output == stock_output(work)[0]
    assert not results


def test_a_large_work_with_pictures_leaves_nothing_behind() -> None:
    works = asked()
    engine = made(Plan(page_tokens=16, pages=13, rows=4))  # not for all
    for key, result in engine.results(works).items():
        if works[key].most_tokens > 13 * 16:
            assert "at once" in str(failed(result).error)
        else:
            assert finished(result).output == expected(key)


def test_kept_starts_make_room_for_new_prompts() -> None:
    works = [text_work(key, drawn_ids(key, 60), 5) for key in range(6)]
    engine = made(Plan(page_tokens=16, pages=5, rows=3))
    for work, output in zip(works, engine.outputs(works).values(), strict=True):
        assert output == stock_output(work)[0]
    assert 0 < len(engine.prefixes or ()) <= 5


def test_a_work_that_could_not_be_prepared_comes_back_as_it_is() -> None:
    broken = [Failed(key=key, error=RequestBroken(f"image {key}")) for key in (20, 21, 22)]
    works = asked()
    results = made(PLAN).results([broken[0], *works[:6], broken[1], *works[6:], broken[2]])
    assert [failed(results.pop(each.key)) for each in broken] == broken
    assert results.keys() == set(range(len(CASES)))


def test_no_work_at_all_is_no_result() -> None:
    assert made(PLAN).results([]) == {}
