"""Prompts for engines of the judge, what transformers' own ``generate()`` makes of them, and vLLM.

vLLM is imported when an engine is started.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import torch

from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.engine.model import normalized
from mmie_tasks.judges.mmie_score.generation import (
    Completion,
    Engine,
    FailedPrompt,
    JudgePrompt,
    Result,
)
from mmie_tasks.judges.mmie_score.tiles import read_tiles
from mmie_tasks.judges.mmie_score.vllm_engine import VllmEngine
from support import internvl_golden as golden
from support import stock_internvl as stock

CPU = torch.device("cpu")
CACHE_BYTES = 2**26
"""For all prompts of a test at once, in vLLM's cache."""


class Prompts:
    """A source of prompts, all of them ready."""

    def __init__(self, prompts: Iterable[JudgePrompt]) -> None:
        self._prompts = iter(prompts)

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        return next(self._prompts, None)


def results(engine: Engine, prompts: Iterable[JudgePrompt]) -> dict[int, Result]:
    """The result of each prompt, by its key."""
    return {result.key: result for result in engine.run(Prompts(prompts))}


def outputs(engine: Engine, prompts: Iterable[JudgePrompt]) -> dict[int, list[int]]:
    """The tokens generated for each prompt, by its key; none may fail."""
    return {key: completed(result).output for key, result in results(engine, prompts).items()}


def completed(result: Result) -> Completion:
    assert isinstance(result, Completion), result
    return result


def open_folder(folder: Path, digit_ids: Sequence[Sequence[int]] | None = None) -> Checkpoint:
    """A checkpoint in which other tokens may count as digits: tiny models hardly generate any."""
    checkpoint = open_checkpoint(CheckpointLocation(folder=folder, name="test"))
    if digit_ids is not None:
        vars(checkpoint.tokenizer)["digit_ids"] = tuple(map(tuple, digit_ids))
    return checkpoint


def golden_prompts() -> list[JudgePrompt]:
    """A prompt of each golden case; the key is its number."""
    prompts = []
    for key, case in enumerate(golden.cases()):
        images = [read_tiles(path, golden.TILE_PX) for path in case.images]
        prompts.append(
            JudgePrompt(
                key=key,
                ids=[*case.input_ids],
                tiles=np.concatenate(images) if images else None,
                tile_counts=case.tiles,
                max_new_tokens=case.max_new_tokens,
            )
        )
    return prompts


def references(
    checkpoint: Checkpoint, prompts: Sequence[JudgePrompt]
) -> list[tuple[list[int], dict[int, tuple[float | None, ...]]]]:
    """Tokens and digits of each prompt by transformers' own ``generate()``, one by one."""
    model = stock.load(checkpoint, device=CPU, dtype=torch.float32)
    replies = []
    for prompt in prompts:
        tiles = prompt.tiles
        pixels = None if tiles is None else normalized(torch.from_numpy(tiles), torch.float32)
        (reply,) = stock.generate_with_logits(
            model,
            [(prompt.ids, pixels)],
            max_new_tokens=prompt.max_new_tokens,
            checkpoint=checkpoint,
        )
        replies.append((reply.ids, _digits(checkpoint, reply)))
    return replies


def _digits(
    checkpoint: Checkpoint, reply: stock.Continuation
) -> dict[int, tuple[float | None, ...]]:
    spellings = checkpoint.tokenizer.digit_ids
    logprobs = reply.logits.double().log_softmax(-1)
    return {
        index: tuple(
            logprobs[index, [*ids]].logsumexp(-1).item() if ids else None for ids in spellings
        )
        for index, token in enumerate(reply.ids)
        if any(token in ids for ids in spellings)
    }


def assert_equal_digits(
    digits: Mapping[int, tuple[float | None, ...]], expected: Mapping[int, tuple[float | None, ...]]
) -> None:
    """Digits at the same tokens, within 1e-4 beside the rounding to 4 digits."""
    assert digits.keys() == expected.keys()
    for index, logprobs in expected.items():
        for value, right in zip(digits[index], logprobs, strict=True):
            assert (value is None) == (right is None)
            assert value is None or right is None or abs(value - right) < 1.5e-4


@contextmanager
def started(
    checkpoint: Checkpoint, max_rows: int = 24, **arguments: object
) -> Iterator[VllmEngine]:
    """An engine on the CPU, with further arguments of vLLM."""
    arguments = {"kv_cache_memory_bytes": CACHE_BYTES, **arguments}
    engine = VllmEngine.start(
        checkpoint, device=CPU, dtype=torch.float32, max_rows=max_rows, arguments=arguments
    )
    with closing(engine):
        yield engine
