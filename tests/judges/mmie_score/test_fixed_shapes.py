"""On a GPU the shapes of a step never depend on the call, and so the bits of a reply do not. Shown
on a CPU.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from support.internvl_golden import CHECKPOINT, cases
from support.mmie_engine import one_thread
from support.paged_kernel import paged_kernel
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score import loading
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention
from mmie_tasks.judges.mmie_score.judge import MmieScoreJudge
from mmie_tasks.record.reply import JudgeReply

pytestmark = needs_transformers_5

CASES = cases()
SHUFFLED = (5, 2, 9, 0, 7, 11, 1, 4, 10, 3, 8, 6)
MAX_ROWS = 8


class FixedJudge(MmieScoreJudge):
    """The judge with the fixed steps of a GPU, and sdpa or a stand-in for the paged kernel."""

    def __init__(self, *, paged: bool, rows: int = MAX_ROWS) -> None:
        super().__init__(model=str(CHECKPOINT), device="cpu", max_rows=rows, environment={})
        usual = self.local.placement(self.local.checkpoint)
        attention = PagedAttention(kernel=paged_kernel) if paged else usual.attention
        placement = replace(usual, fixed=True, attention=attention)
        self.local.placement = lambda _: placement  # type: ignore[method-assign]


@contextmanager
def recorded_shapes() -> Iterator[set[tuple[object, ...]]]:
    """Weight and input shapes of every matrix product and convolution with weights."""
    shapes: set[tuple[object, ...]] = set()

    def record(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
        if isinstance(module, (torch.nn.Linear, torch.nn.Conv2d)):
            shapes.add((tuple(module.weight.shape), tuple(inputs[0].shape)))

    handle = torch.nn.modules.module.register_module_forward_pre_hook(record)  # type: ignore[no-untyped-call]
    try:
        yield shapes
    finally:
        handle.remove()


def judged(
    judge: MmieScoreJudge, indices: Sequence[int]
) -> tuple[dict[int, str], set[tuple[object, ...]]]:
    """Texts of some golden cases judged in one call, and the shapes that were computed."""
    requests = [
        JudgeRequest(parts=CASES[index].parts, max_tokens=CASES[index].max_new_tokens)
        for index in indices
    ]
    texts: dict[int, str] = {}
    with recorded_shapes() as shapes, one_thread():
        for number, outcome in judge.ask(requests):
            assert isinstance(outcome, JudgeReply), outcome
            texts[indices[number]] = outcome.text
    return texts, shapes


@pytest.fixture(scope="module", params=[True, False], ids=["paged kernel", "sdpa"])
def paged(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def whole(paged: bool) -> tuple[dict[int, str], set[tuple[object, ...]]]:
    return judged(FixedJudge(paged=paged), range(len(CASES)))


def test_fixed_steps_give_the_official_replies(whole) -> None:
    texts, _ = whole
    assert texts == {index: case.response for index, case in enumerate(CASES)}


def test_steps_are_prefill_decoding_and_a_batch_of_tiles_of_one_size_each(whole) -> None:
    _, shapes = whole
    inputs = {shape for _, shape in shapes}
    assert {shape[0] for shape in inputs if len(shape) == 2} == {4096, MAX_ROWS}  # tokens, rows
    assert {shape[0] for shape in inputs if len(shape) > 2} == {64}  # tiles


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([[3, 8, 11]], id="what a resumed run has left"),
        pytest.param([[10], [6]], id="single requests"),
        pytest.param([SHUFFLED], id="another order"),
        pytest.param([range(6), range(6, 12)], id="shares of two engines"),
    ],
)
def test_shapes_are_the_same_whatever_a_call_holds(paged: bool, whole, calls) -> None:
    judge = FixedJudge(paged=paged)
    for indices in calls:
        check_same(judge, indices, whole)


def test_shapes_are_the_same_if_less_memory_is_free_and_fewer_requests_fit(
    monkeypatch, paged, whole
) -> None:
    plan = loading.memory_plan
    monkeypatch.setattr(loading, "memory_plan", lambda *where: replace(plan(*where), rows=2))
    check_same(FixedJudge(paged=paged), SHUFFLED[:4], whole)


def check_same(judge: MmieScoreJudge, indices: Sequence[int], whole) -> None:
    """The texts of a whole run, in steps of its shapes and no others."""
    texts, shapes = whole
    own_texts, own_shapes = judged(judge, indices)
    assert own_shapes <= shapes
    assert own_texts == {index: texts[index] for index in indices}
