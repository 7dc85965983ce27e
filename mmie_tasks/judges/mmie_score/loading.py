"""Loads the judge's weights and builds the engine around them, sized for the requests."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.devices import TWO_STEPS, Budget, Placement, free_bytes, plan, release_memory
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder, PlainDecoder, StaticDecoder, cuda_capture
from mmie_tasks.judges.mmie_score.engine.engine import Engine, is_out_of_memory
from mmie_tasks.judges.mmie_score.engine.paged import PagedAttention
from mmie_tasks.judges.mmie_score.engine.schedule import PagePool, PrefixCache, Schedule
from mmie_tasks.judges.mmie_score.engine.text_model import Prefill, TextModel
from mmie_tasks.judges.mmie_score.engine.vision import Vision

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
            JudgeMisconfigured: Not even the shortest request fits into memory, or the weights cannot be loaded.
        """
        longest = max(lengths)
        if self._engine is not None:
            schedule = self._engine.schedule
            if schedule.max_rows >= min(rows, self._engine.full_budget.rows) and schedule.max_tokens >= longest:
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
        planned = partial(plan, self._checkpoint, self._placement)
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
        checkpoint, placement = self._checkpoint, self._placement
        logger.info(
            f"Loading MMIE-Score, {checkpoint.location.name}: {readable_size(checkpoint.weight_bytes)}, "
            f"as {placement.dtype_name} on {placement.device}."
        )
        try:
            return load_model(checkpoint, device=placement.device, dtype=placement.dtype)
        except RuntimeError as error:
            raise self._no_memory("its weights", error) from error

    def _build_fitting(self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int) -> Engine:
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

    def _build(self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int) -> Engine:
        checkpoint, placement = self._checkpoint, self._placement
        attention, on_gpu = placement.attention, placement.on_gpu
        text = TextModel(model, pages=budget.pages + 1, page_tokens=attention.page_tokens)
        pool = PagePool(budget.pages)
        capacity = budget.pages * budget.page_tokens
        longest_tokens = min(longest_tokens, capacity)
        decoder: PlainDecoder | StaticDecoder = PlainDecoder(text, attention)
        if on_gpu and isinstance(attention, PagedAttention):  # can be planned once for all steps
            capture = cuda_capture(placement.device) if placement.graphs else None
            decoder = StaticDecoder(text, attention, rows=budget.rows, max_tokens=longest_tokens, capture=capture)
        logger.info(
            f"MMIE-Score: {budget.rows} requests at once, {capacity:,} tokens of cache, attention {attention.name}."
        )
        return Engine(
            schedule=Schedule(
                pool=pool,
                prefixes=PrefixCache(pool, attention.page_tokens, checkpoint.image_token_id),
                page_tokens=attention.page_tokens,
                long_after=text.rotary.long_after,
                max_rows=budget.rows,
                max_tokens=longest_tokens if on_gpu else capacity,
            ),
            vision=Vision(model, fixed=on_gpu),
            prefill=Prefill(text, attention, checkpoint.image_token_id, budget.rows if on_gpu else None),
            decoder=decoder,
            digits=DigitRecorder(checkpoint.tokenizer.digit_ids, text.device),
            end_token_id=checkpoint.end_token_id,
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
            f"`{self._placement.device}` ran out of memory for {purpose}: {first}", hint=f"{TWO_STEPS}; or `device=`"
        )
