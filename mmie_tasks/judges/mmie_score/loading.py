"""Loads the judge's weights and builds the engine around them, sized for the requests."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.devices import Placement, free_bytes, release_memory
from mmie_tasks.judges.mmie_score.engine.decoding import (
    Decoder,
    PlainDecoder,
    StaticDecoder,
    cuda_capture,
)
from mmie_tasks.judges.mmie_score.engine.engine import Engine, is_out_of_memory
from mmie_tasks.judges.mmie_score.engine.flash import FlashAttention
from mmie_tasks.judges.mmie_score.engine.schedule import PagePool, PrefixCache, Schedule
from mmie_tasks.judges.mmie_score.engine.text_model import Prefill, TextModel
from mmie_tasks.judges.mmie_score.engine.vision import Vision
from mmie_tasks.judges.mmie_score.memory import GIB, TWO_STEPS, Budget, plan

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration

_USUAL_QUANTILE = 0.9  # memory is planned for a request that is longer than these


class LoadedJudge:
    """The model on its device, and an engine that fits the requests.

    Args:
        checkpoint: The checkpoint to load.
        placement: Where and how.
    """

    def __init__(self, checkpoint: Checkpoint, placement: Placement) -> None:
        self._checkpoint, self._placement = checkpoint, placement
        self._model: InternVLForConditionalGeneration | None = None
        self._engine: Engine | None = None

    @property
    def captured(self) -> bool:
        """Whether decoding steps are replayed from a CUDA graph."""
        decoder = None if self._engine is None else self._engine.decoder
        return isinstance(decoder, StaticDecoder) and decoder.captured

    def engine(self, *, rows: int, lengths: Collection[int]) -> Engine:
        """An engine for requests of these lengths.

        Args:
            rows: The most rows at once.
            lengths: The most tokens of each request, its reply included. The longest may go
                unscored if memory does not hold them.

        Raises:
            JudgeMisconfigured: Not even the shortest request fits into memory, or the weights
                cannot be loaded.
        """
        longest = max(lengths)
        if self._engine is not None:
            schedule = self._engine.schedule
            enough_rows = schedule.max_rows >= min(rows, self._engine.full_budget.rows)
            if enough_rows and schedule.max_tokens >= longest:
                return self._engine
            self._engine = None
            release_memory()
        budget = self._budget(rows, lengths)
        if self._model is None:
            self._model = self._load()
        self._engine = self._build_fitting(self._model, budget, longest)
        return self._engine

    def _budget(self, rows: int, lengths: Collection[int]) -> Budget:
        """Planned for the usual request, or for the longest if its pages would not suffice."""
        loaded = self._model.parameters() if self._model is not None else ()
        usable = free_bytes(self._placement.device) + sum(weight.nbytes for weight in loaded)
        usable = min(usable, self._placement.max_memory_bytes or usable)
        planned = partial(plan, self._checkpoint.facts, self._placement)
        ordered = sorted(lengths)
        usual, longest = ordered[int(_USUAL_QUANTILE * (len(ordered) - 1))], ordered[-1]
        try:
            budget = planned(rows, usual, usable)
        except JudgeMisconfigured:
            budget = planned(rows, ordered[0], usable)
        if budget.pages * budget.page_tokens < longest:
            with suppress(JudgeMisconfigured):  # the longest requests then go unscored
                budget = planned(rows, longest, usable)
        return budget

    def _load(self) -> InternVLForConditionalGeneration:
        name, placement = self._checkpoint.location.name, self._placement
        size = self._checkpoint.facts.weight_bytes / GIB
        logger.info(
            f"Loading MMIE-Score, {name}: {size:.1f} GiB, as {placement.dtype_name} on "
            f"{placement.device}."
        )
        try:
            return load_model(self._checkpoint, device=placement.device, dtype=placement.dtype)
        except RuntimeError as error:
            raise self._no_memory("its weights", error) from error

    def _build_fitting(
        self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int
    ) -> Engine:
        """Build the engine, with half the pages if the device has less memory than it reported."""
        try:
            return self._build(model, budget, longest_tokens)
        except RuntimeError as error:
            refusal = self._no_memory("one request", error)
            if budget.pages <= budget.longest_pages:
                raise refusal from error
        release_memory()
        fewer = replace(budget, pages=max(budget.pages // 2, budget.longest_pages))
        return self._build_fitting(model, fewer, longest_tokens)

    def _build(
        self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int
    ) -> Engine:
        facts, placement = self._checkpoint.facts, self._placement
        attention, on_gpu = placement.attention, placement.on_gpu
        text = TextModel(model, pages=budget.pages + 1, page_tokens=attention.page_tokens)
        pool = PagePool(budget.pages)
        capacity = budget.pages * budget.page_tokens
        longest_tokens = min(longest_tokens, capacity)
        logger.info(
            f"MMIE-Score: {budget.rows} requests at once, {capacity:,} tokens of cache, attention "
            f"{attention.name}."
        )
        return Engine(
            schedule=Schedule(
                pool=pool,
                prefixes=PrefixCache(pool, attention.page_tokens, facts.image_token_id),
                page_tokens=attention.page_tokens,
                long_after=facts.long_after,
                max_rows=budget.rows,
                max_tokens=longest_tokens if on_gpu else capacity,
            ),
            vision=Vision(model, fixed=on_gpu),
            prefill=Prefill(
                text, attention, facts.image_token_id, fixed_rows=budget.rows if on_gpu else None
            ),
            decoder=_decoder(text, placement, budget.rows, longest_tokens),
            end_token_id=facts.end_token_id,
            budget=budget,
            fixed=on_gpu,
        )

    def close(self) -> None:
        """Release all memory."""
        self._engine = self._model = None
        release_memory()

    def _no_memory(self, purpose: str, error: RuntimeError) -> JudgeMisconfigured:
        """The message for a device that ran out of memory.

        Raises:
            RuntimeError: The error has another cause.
        """
        if not is_out_of_memory(error):
            raise error
        first = str(error).partition("\n")[0]
        return JudgeMisconfigured(
            f"`{self._placement.device}` ran out of memory for {purpose}: {first}",
            hint=f"{TWO_STEPS}; or `device=`",
        )


def _decoder(text: TextModel, placement: Placement, rows: int, max_tokens: int) -> Decoder:
    """With a fixed number of rows on a GPU, if its attention can be planned for them once."""
    if not placement.on_gpu or not isinstance(placement.attention, FlashAttention):
        return PlainDecoder(text, placement.attention)
    return StaticDecoder(
        text,
        placement.attention,
        rows=rows,
        max_tokens=max_tokens,
        capture=cuda_capture(placement.device) if placement.graphs else None,
    )
