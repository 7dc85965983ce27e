"""The engine of the judge `mmie_score` on the tiny golden checkpoint, and its references.

Checkpoint and models are loaded on first use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.budget import MemoryPlan
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.engine.model import FlatSteps, TextModel, Vision, normalized
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk, Schedule
from mmie_tasks.judges.mmie_score.generation import Completion, FailedPrompt, JudgePrompt, Result
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, reply_text
from support import internvl_golden as golden
from support import stock_internvl as stock

CPU = torch.device("cpu")
LONG_AFTER = 256  # tokens, of the tiny checkpoint
DIGIT_IDS = [*(range(number, 1000, 11) for number in range(9)), ()]
"""Tokens that count as digits in the tests of the engine: most of the vocabulary; none is a 9."""


@contextmanager
def one_thread() -> Iterator[None]:
    """The matrices are tiny: several threads would mostly wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@cache
def checkpoint() -> Checkpoint:
    return open_checkpoint(CheckpointLocation(folder=golden.CHECKPOINT, name="golden"))


@cache
def model() -> Any:
    return load_model(checkpoint(), device=CPU, dtype=torch.float32)


@cache
def golden_prompts() -> tuple[JudgePrompt, ...]:
    """Prompts of the golden cases, built from requests; the key is the number of the case."""
    builder = InputBuilder(checkpoint())
    return tuple(
        builder.prompt(key, JudgeRequest(parts=case.parts, max_tokens=case.max_new_tokens))
        for key, case in enumerate(golden.cases())
    )


def text_prompt(key: int, ids: Iterable[int], max_new_tokens: int = 12) -> JudgePrompt:
    return JudgePrompt(key=key, ids=list(ids), max_new_tokens=max_new_tokens)


def random_ids(seed: int, count: int) -> list[int]:
    """Token ids without special tokens, after the start token."""
    random = Random(seed)  # noqa: S311 (a test's numbers)
    return [1, *(random.randrange(3, 980) for _ in range(count - 1))]


def reply(output: Sequence[int]) -> str:
    return reply_text(checkpoint().tokenizer.decode(output))


@cache
def _stock_model() -> Any:
    """The model with transformers' own rotary embedding, which is right for one row at a time."""
    stock_model: Any = load_model(checkpoint(), device=CPU, dtype=torch.float32)
    text = stock_model.model.language_model
    text.rotary_emb = Phi3RotaryEmbedding(text.config)
    return stock_model


@cache
def _stock_output(
    ids: tuple[int, ...], tiles: bytes | None, limit: int
) -> tuple[list[int], torch.Tensor]:
    pixels = None
    if tiles is not None:
        side = checkpoint().config.vision_config.image_size
        array = np.frombuffer(tiles, dtype=np.uint8).reshape(-1, side, side, 3)
        pixels = normalized(torch.tensor(array), torch.float32)
    with one_thread():
        [generated] = stock.generate_with_logits(
            _stock_model(), [(list(ids), pixels)], max_new_tokens=limit, checkpoint=checkpoint()
        )
    return generated.ids, generated.logits


def stock_output(prompt: JudgePrompt) -> tuple[list[int], torch.Tensor]:
    """Output of transformers' ``generate()`` for a prompt alone: ids, and logits (steps, vocab)."""
    tiles = None if prompt.tiles is None else prompt.tiles.tobytes()
    return _stock_output(tuple(prompt.ids), tiles, prompt.max_new_tokens)


class ListSource:
    """Supplies prompts of a list, in order; with `late`, sometimes only to a caller that waits."""

    def __init__(
        self, prompts: Iterable[JudgePrompt | FailedPrompt], late: Random | None = None
    ) -> None:
        self._prompts, self._late = list(prompts), late

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        hesitates = not wait and self._late is not None and self._late.random() < 0.6
        return None if hesitates or not self._prompts else self._prompts.pop(0)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Sizes of an engine; without `pages` there are enough for all prompts."""

    page_tokens: int = 64
    pages: int | None = None
    rows: int = 24
    chunk_tokens: int = 300
    vision_tiles: int = 7
    fixed: bool = False


def check_page_counts(schedule: Schedule) -> None:
    """Every page is free or belongs to one row.

    Image features are dropped once the prompt is stored.
    """
    taken = [page for row in schedule.live for page in row.pages]
    assert sorted([*taken, *schedule.free_pages]) == list(range(schedule.pages))
    for row in schedule.live:
        assert row.features is None or not row.output
        assert len(row.pages) * schedule.page_tokens >= row.prompt.max_stored_tokens


def check_digits(
    result: Completion,
    logits: Mapping[int, torch.Tensor],
    digit_ids: Sequence[Sequence[int]],
    tolerance: float = 1e-4,
) -> None:
    """The log-probabilities of the digits in an output follow from the logits of its steps, and no
    other has any.
    """
    tokens = {token for ids in digit_ids for token in ids}
    assert list(result.digits) == [
        step for step, token in enumerate(result.output) if token in tokens
    ]
    for step, logprobs in result.digits.items():
        numbers = [-math.inf if logprob is None else logprob for logprob in logprobs]
        assert numbers == pytest.approx(
            digit_logprobs(logits[step], digit_ids), abs=tolerance, rel=0
        )


def digit_logprobs(logits: torch.Tensor, digit_ids: Sequence[Sequence[int]]) -> list[float]:
    """Logarithms of the sums of the probabilities of each digit's tokens, from the logits of one
    step.
    """
    probabilities = logits.double().softmax(-1)
    return [float(probabilities[list(ids)].sum().log()) for ids in digit_ids]


@dataclass(kw_only=True)
class EngineHarness:
    """An engine whose page counts are checked before each step and at the end, and the digits of
    every result.

    Attributes:
        logits: By key and number of the generated token; a restarted row writes them again.
        keys: The keys of all logits, in the order in which they were computed.
        most_live: The most rows that were alive at once.
    """

    engine: PagedEngine
    logits: dict[int, dict[int, torch.Tensor]] = field(default_factory=dict)
    keys: list[int] = field(default_factory=list)
    most_live: int = 0

    def check(self) -> None:
        """See `check_page_counts`."""
        self.most_live = max(self.most_live, len(self.engine.schedule.live))
        check_page_counts(self.engine.schedule)

    def check_empty(self) -> None:
        """No row is alive, and every page is free."""
        self.check()
        assert not self.engine.schedule.live
        assert not self.engine.schedule.waiting
        assert len(self.engine.schedule.free_pages) == self.engine.schedule.pages

    def record(self, chunks: Sequence[Chunk], logits: torch.Tensor) -> None:
        """Record the logits behind the chunks that end their row."""
        rows = [chunk.row for chunk in chunks if chunk.ends_row]
        for row, row_logits in zip(rows, logits, strict=True):
            self.keys.append(row.prompt.key)
            self.logits.setdefault(row.prompt.key, {})[len(row.output)] = row_logits.clone()

    def results(
        self, prompts: Iterable[JudgePrompt | FailedPrompt], *, late: Random | None = None
    ) -> dict[int, Result]:
        """Results by key; every prompt has exactly one."""
        results: dict[int, Result] = {}
        with one_thread():
            for result in self.engine.run(ListSource(prompts, late)):
                assert result.key not in results
                results[result.key] = result
                if isinstance(result, Completion):
                    check_digits(result, self.logits[result.key], DIGIT_IDS)
        self.check_empty()
        return results

    def outputs(self, prompts: Iterable[JudgePrompt], **options: Any) -> dict[int, list[int]]:
        """Generated tokens by key; no prompt may fail."""
        results = self.results(prompts, **options)
        return {key: completion(result).output for key, result in results.items()}


def build_engine(
    plan: Plan, *, wrap: Callable[[str, Any], Any] = lambda _, part: part
) -> EngineHarness:
    """An engine.

    Args:
        plan: Its sizes.
        wrap: Replaces a part, by its name (``vision``, ``prefill``, ``decoder``) and the part:
            the vision tower, or the function of a step.
    """
    size = plan.page_tokens
    pages = plan.pages or -(-9000 // size) + 24
    text = TextModel(model(), pages=pages + 1, page_tokens=size)
    attention = SdpaAttention(size)
    image_token_id = checkpoint().image_token_id
    flat = FlatSteps(text, attention, image_token_id, plan.rows if plan.fixed else None)

    engine = PagedEngine(
        schedule=Schedule(pages=pages, page_tokens=size, max_rows=plan.rows),
        vision=wrap("vision", Vision(model(), fixed=plan.fixed)),
        flat=flat,
        decoder=None,
        digits=DigitRecorder(DIGIT_IDS, CPU),
        end_token_id=checkpoint().end_token_id,
        budget=budget(plan, pages),
    )
    harness = EngineHarness(engine=engine)

    def checked(step: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        def checked_step(chunks: Sequence[Chunk]) -> torch.Tensor:
            harness.check()
            logits = step(chunks)
            harness.record(chunks, logits)
            return logits

        return checked_step

    engine._prefilled = checked(wrap("prefill", engine._prefilled))  # type: ignore[method-assign]
    engine._decoded = checked(wrap("decoder", engine._decoded))  # type: ignore[method-assign]
    return harness


def budget(plan: Plan, pages: int) -> MemoryPlan:
    return MemoryPlan(
        pages=pages,
        page_tokens=plan.page_tokens,
        rows=plan.rows,
        chunk_tokens=plan.chunk_tokens,
        vision_tiles=plan.vision_tiles,
    )


def completion(result: Result) -> Completion:
    assert isinstance(result, Completion), result
    return result


def failure(result: Result) -> FailedPrompt:
    assert isinstance(result, FailedPrompt), result
    return result


def max_difference(array: torch.Tensor, expected: Any) -> float:
    """The largest difference of two arrays."""
    return float(np.abs(array.numpy() - np.asarray(expected)).max())
