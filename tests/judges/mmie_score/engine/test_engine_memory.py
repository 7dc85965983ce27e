"""The engine when memory runs out, when a part raises, and when the caller stops reading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from support import internvl_golden as golden
from support.mmie_engine import (
    DIGIT_IDS,
    EngineHarness,
    ListSource,
    Plan,
    build_engine,
    check_digits,
    completion,
    failure,
    golden_prompts,
    one_thread,
    random_ids,
    stock_output,
    text_prompt,
)
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeUnavailable, RequestBroken
from mmie_tasks.judges.mmie_score.engine.budget import MemoryPlan
from mmie_tasks.judges.mmie_score.engine.schedule import LiveRow
from mmie_tasks.judges.mmie_score.generation import FailedPrompt, JudgePrompt

pytestmark = needs_transformers_5

CASES = golden.cases()
NEW_TOKENS = 8  # enough to see what was lost
PLAN = Plan(page_tokens=16, pages=150, rows=8, chunk_tokens=1024, vision_tiles=8)
PARTS = ["vision", "prefill", "decoder"]
NO_MEMORY = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand so on")


Fault = Callable[[str, Sequence[Any]], BaseException | None]
"""The error that a part raises, if any, by its name and the arguments of the call."""


class FailingPart:
    """A part of the engine that sometimes raises before it computes."""

    def __init__(self, name: str, part: Any, fault: Fault) -> None:
        self._name, self._part, self._fault = name, part, fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)

    def features(self, *args: Any) -> Any:
        return self._unless_faulty(self._part.features, args)

    def __call__(self, *args: Any) -> Any:
        return self._unless_faulty(self._part, args)

    def _unless_faulty(self, call: Callable[..., Any], args: Sequence[Any]) -> Any:
        if (error := self._fault(self._name, args)) is not None:
            raise error
        return call(*args)


def failing_engine(fault: Fault, plan: Plan = PLAN) -> EngineHarness:
    return build_engine(plan, wrap=lambda name, part: FailingPart(name, part, fault))


def at_first(where: str, times: int, error: BaseException = NO_MEMORY, after: int = 0) -> Fault:
    """One part raises `times` times, after `after` calls that succeed."""
    calls = 0

    def fault(name: str, _: Sequence[Any]) -> BaseException | None:
        nonlocal calls
        calls += name == where
        return error if name == where and after < calls <= after + times else None

    return fault


@cache
def short_prompts() -> tuple[JudgePrompt, ...]:
    return tuple(replace(prompt, max_new_tokens=NEW_TOKENS) for prompt in golden_prompts())


def check_golden(engine: EngineHarness, prompts: Sequence[JudgePrompt] = ()) -> None:
    for key, output in engine.outputs(prompts or short_prompts()).items():
        assert output == expected(key)


def expected(key: int) -> list[int]:
    return list(CASES[key].output_ids[:NEW_TOKENS])


def shrunk(budget: MemoryPlan, times: int) -> MemoryPlan:
    for _ in range(times):
        budget = budget.smaller() or budget
    return budget


@pytest.mark.parametrize(
    "error", [NO_MEMORY, RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED at ...")]
)
def test_steps_get_smaller_although_unused_memory_cannot_be_returned(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch, logs: list[str]
) -> None:
    """As after a capture that failed: torch before 2.13 raises where it would be out of memory."""

    def fail() -> None:
        raise RuntimeError("captures_underway.empty() INTERNAL ASSERT FAILED")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    engine = failing_engine(at_first("decoder", 1, error))
    check_golden(engine)
    assert engine.engine.budget == shrunk(engine.engine.full_budget, 1)
    assert any("single tokens of replies may differ" in message for message in logs)


@pytest.mark.parametrize("times", [1, 6])
@pytest.mark.parametrize("where", PARTS)
def test_a_step_without_memory_is_repeated_with_a_smaller_budget(where: str, times: int) -> None:
    engine = failing_engine(at_first(where, times, after=1))
    start = engine.engine.budget
    check_golden(engine)
    assert engine.engine.budget == shrunk(start, times)
    assert engine.engine.schedule.max_rows == engine.engine.budget.rows


@pytest.mark.parametrize(
    "fault",
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
def test_steps_shrink_until_they_fit(fault: Fault, fixed: bool) -> None:
    check_golden(failing_engine(fault, Plan(**{**vars(PLAN), "fixed": fixed})))


def test_a_row_that_starts_again_has_the_digits_of_its_last_output() -> None:
    engine = failing_engine(
        lambda name, args: NO_MEMORY if name == "decoder" and len(args[0]) > 2 else None
    )
    restarted = list[int]()
    restart = engine.engine.schedule.restart

    def counted(row: LiveRow) -> None:
        row.digits[99] = (0.0,) * 10  # as if it had been recorded before
        restarted.append(row.prompt.key)
        restart(row)

    engine.engine.schedule.restart = counted  # type: ignore[method-assign]
    for key, result in engine.results(short_prompts()).items():
        _, logits = stock_output(short_prompts()[key])
        check_digits(completion(result), dict(enumerate(logits)), DIGIT_IDS, tolerance=1e-3)
    assert len(restarted) > 3


def touches(key: int, name: str, args: Sequence[Any]) -> bool:
    match name:
        case "vision":
            return bool(args[0][0].key == key)
        case _:
            return any(chunk.row.prompt.key == key for chunk in args[0])


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize("key", [2, 5])
def test_only_the_request_that_never_fits_fails(where: str, key: int) -> None:
    engine = failing_engine(
        lambda name, args: NO_MEMORY if name == where and touches(key, name, args) else None
    )
    results = engine.results(short_prompts())
    error = failure(results.pop(key)).error
    assert isinstance(error, JudgeUnavailable)
    assert "on this request alone: CUDA out of memory. Tried to allocate 2 GiB" in str(error)
    assert "and so on" not in str(error)
    assert len(results) == len(CASES) - 1
    for number, result in results.items():
        assert completion(result).output == expected(number)
    assert engine.engine.budget == engine.engine.full_budget  # as before it


@pytest.mark.parametrize(
    "words",
    [pytest.param("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes", id="Linux")],
)
def test_a_cpu_without_memory_is_treated_like_a_gpu(words: str) -> None:
    check_golden(failing_engine(at_first("decoder", 2, RuntimeError(words), after=5)))


class Broken(Exception):
    """An unexpected error."""


@pytest.mark.parametrize("where", PARTS)
@pytest.mark.parametrize(
    "error",
    [
        pytest.param(
            RuntimeError("CUDA error: an illegal memory access was encountered"), id="CUDA"
        ),
        pytest.param(KeyboardInterrupt(), id="interrupt"),
    ],
)
def test_other_errors_are_raised_and_no_page_stays_held(where: str, error: BaseException) -> None:
    engine = failing_engine(at_first(where, 1, error, after=1))
    with pytest.raises(type(error)):
        engine.results(short_prompts())
    engine.check_empty()
    check_golden(engine)


@pytest.mark.parametrize("results_read", [0, 5])
def test_a_caller_that_stops_reading_leaves_no_page_held(results_read: int) -> None:
    engine = build_engine(Plan(page_tokens=16, rows=4))
    with one_thread():
        running = engine.engine.run(ListSource(short_prompts()))
        for _ in range(results_read):
            next(running)
        running.close()
    engine.check_empty()
    check_golden(engine, short_prompts()[::-1])


def test_a_prompt_larger_than_the_whole_cache_fails_and_the_others_finish() -> None:
    small = [text_prompt(key, random_ids(key, 20), 5) for key in range(3)]
    fits, large = text_prompt(7, random_ids(7, 60), 5), text_prompt(8, random_ids(8, 60), 6)
    results = build_engine(Plan(page_tokens=16, pages=4)).results(
        [small[0], large, fits, *small[1:]]
    )
    error = failure(results.pop(8)).error
    assert isinstance(error, JudgeUnavailable)
    assert "65 tokens" in str(error)
    assert "64 at once" in str(error)
    for prompt in (*small, fits):
        assert completion(results.pop(prompt.key)).output == stock_output(prompt)[0]
    assert not results


def test_a_request_that_could_not_be_prepared_is_returned_as_a_failure() -> None:
    broken = [FailedPrompt(key=key, error=RequestBroken(f"image {key}")) for key in (20, 21, 22)]
    prompts = short_prompts()
    results = build_engine(PLAN).results(
        [broken[0], *prompts[:6], broken[1], *prompts[6:], broken[2]]
    )
    assert [failure(results.pop(request.key)) for request in broken] == broken
    assert results.keys() == set(range(len(CASES)))
