"""From an opened checkpoint to an engine that is ready to compute."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.devices import choose_attention, free_bytes, give_back
from mmie_tasks.judges.mmie_score.engine.attention import Attention
from mmie_tasks.judges.mmie_score.engine.engine import Engine, is_out_of_memory
from mmie_tasks.judges.mmie_score.engine.flash import FlashAttention
from mmie_tasks.judges.mmie_score.engine.graphs import StaticDecoder, cuda_capture
from mmie_tasks.judges.mmie_score.engine.model import TextModel, Vision
from mmie_tasks.judges.mmie_score.engine.pages import PagePool, SharedPrefixes
from mmie_tasks.judges.mmie_score.engine.steps import Decoder, PlainDecoder, Prefill, Schedule
from mmie_tasks.judges.mmie_score.memory import TWO_STEPS, Budget, plan

if TYPE_CHECKING:
    from transformers import InternVLForConditionalGeneration


GIB = 2**30
_USUAL = 0.9  # of the requests are not longer than what memory is laid out for


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where and how the model is computed.

    Attributes:
        device: Of this process.
        dtype: Of weights, keys and values.
        attention: As the option says it.
        max_memory_bytes: That may be taken; None is all that is free.
        graphs: Steps of decoding are captured as CUDA graphs.
    """

    device: torch.device
    dtype: torch.dtype
    attention: str
    max_memory_bytes: int | None
    graphs: bool

    @property
    def dtype_name(self) -> str:
        """As users write it: ``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")


def attention_for(checkpoint: Checkpoint, place: Place) -> Attention:
    """The way attention is computed, tried on the device first.

    Raises:
        JudgeMisconfigured: The one that was asked for does not work here.
    """
    facts = checkpoint.facts
    return choose_attention(
        place.attention,
        device=place.device,
        dtype=place.dtype,
        heads=facts.heads,
        kv_heads=facts.kv_heads,
        head_dim=facts.head_dim,
    )


class Loaded:
    """The model on its device, and the engine around it, made to measure for what is asked.

    Args:
        checkpoint: What is loaded.
        place: Where to.
        attention: How its attention is computed.
    """

    def __init__(self, checkpoint: Checkpoint, place: Place, attention: Attention) -> None:
        self._checkpoint, self._place, self._attention = checkpoint, place, attention
        self._model: InternVLForConditionalGeneration | None = None
        self._engine: Engine | None = None

    def engine(self, *, rows: int, lengths: Collection[int]) -> Engine:
        """An engine for so many requests at once.

        Args:
            rows: As many at once, at most.
            lengths: Tokens that each request may come to, its reply included. The longest may go
                unscored where memory does not hold them.

        Raises:
            JudgeMisconfigured: Not even the shortest fits into memory, or the weights cannot be
                loaded.
        """
        if self._engine is not None:
            if self._serves(self._engine, rows, max(lengths)):
                return self._engine
            self._engine = None
            give_back()
        budget = self._budget(rows, lengths)
        if self._model is None:
            self._model = self._load()
        self._engine = self._fitted(self._model, budget, max(lengths))
        return self._engine

    def _serves(self, engine: Engine, rows: int, longest_tokens: int) -> bool:
        long_enough = engine.schedule.longest_tokens >= longest_tokens
        return long_enough and engine.schedule.most_rows >= min(rows, engine.planned.rows)

    def _budget(self, rows: int, lengths: Collection[int]) -> Budget:
        """Made for the usual request; for the longest, where the cache would not hold it."""
        usable, ordered = self._usable_bytes(), sorted(lengths)
        usual, longest = ordered[int(_USUAL * (len(ordered) - 1))], ordered[-1]
        try:
            budget = self._planned(rows, usual, usable)
        except JudgeMisconfigured:
            budget = self._planned(rows, ordered[0], usable)
        if budget.pages * budget.page_tokens < longest:
            with suppress(JudgeMisconfigured):  # then it is the longest that go unscored
                budget = self._planned(rows, longest, usable)
        return budget

    def _usable_bytes(self) -> int:
        """What is free, the weights included if they are loaded already."""
        place = self._place
        held = 0
        if self._model is not None:
            held = sum(each.nbytes for each in self._model.parameters())
        usable = free_bytes(place.device) + held
        return min(usable, place.max_memory_bytes or usable)

    def _planned(self, rows: int, longest_tokens: int, usable_bytes: int) -> Budget:
        place = self._place
        return plan(
            self._checkpoint.facts,
            free_bytes=usable_bytes,
            dtype_bytes=place.dtype.itemsize,
            page_tokens=self._attention.page_tokens,
            longest_tokens=longest_tokens,
            max_rows=rows,
            device=place.device,
        )

    def _load(self) -> InternVLForConditionalGeneration:
        name, place = self._checkpoint.located.name, self._place
        size = self._checkpoint.facts.weight_bytes / GIB
        logger.info(
            f"Loading MMIE-Score, {name}: {size:.1f} GiB, as {place.dtype_name} on {place.device}."
        )
        try:
            return load_model(self._checkpoint, device=place.device, dtype=place.dtype)
        except RuntimeError as error:
            raise _no_memory("its weights", place, error) from error

    def _fitted(
        self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int
    ) -> Engine:
        """With fewer pages, where the device has less than it said."""
        try:
            return self._made(model, budget, longest_tokens)
        except RuntimeError as error:
            refusal = _no_memory("one request", self._place, error)
            if budget.pages <= budget.longest_pages:
                raise refusal from error
        give_back()
        fewer = replace(budget, pages=max(budget.pages // 2, budget.longest_pages))
        return self._fitted(model, fewer, longest_tokens)

    def _made(
        self, model: InternVLForConditionalGeneration, budget: Budget, longest_tokens: int
    ) -> Engine:
        facts, attention, place = self._checkpoint.facts, self._attention, self._place
        on_gpu = place.device.type == "cuda"
        text = TextModel(model, pages=budget.pages + 1, page_tokens=attention.page_tokens)
        pool = PagePool(budget.pages)
        longest_tokens = min(longest_tokens, budget.pages * budget.page_tokens)
        logger.info(
            f"MMIE-Score: {budget.rows} requests at once, {budget.pages * budget.page_tokens:,} "
            f"tokens of cache, attention {attention.name}."
        )
        return Engine(
            schedule=Schedule(
                pool=pool,
                prefixes=SharedPrefixes(pool, attention.page_tokens, facts.image_token_id),
                page_tokens=attention.page_tokens,
                long_after=facts.long_after,
                most_rows=budget.rows,
                longest_tokens=longest_tokens if on_gpu else None,
            ),
            vision=Vision(model, fixed=on_gpu),
            prefill=Prefill(
                text, attention, facts.image_token_id, fixed_rows=budget.rows if on_gpu else None
            ),
            decoder=_decoder(text, attention, place, budget.rows, longest_tokens),
            end_token_id=facts.end_token_id,
            budget=budget,
            fixed=on_gpu,
        )

    def close(self) -> None:
        """Give all memory back."""
        self._engine = self._model = None
        give_back()


def _decoder(
    text: TextModel, attention: Attention, place: Place, rows: int, longest_tokens: int
) -> Decoder:
    """With a fixed number of rows where attention can be planned for them once: on a GPU."""
    if place.device.type != "cuda" or not isinstance(attention, FlashAttention):
        return PlainDecoder(text, attention)
    return StaticDecoder(
        text,
        attention,
        rows=rows,
        longest_tokens=longest_tokens,
        capture=cuda_capture(place.device) if place.graphs else None,
    )


def _no_memory(what: str, place: Place, error: RuntimeError) -> JudgeMisconfigured:
    """The error in words.

    Raises:
        RuntimeError: It is about something else.
    """
    if not is_out_of_memory(error):
        raise error
    found = str(error).partition("\n")[0]
    return JudgeMisconfigured(
        f"`{place.device}` ran out of memory for {what}: {found}", hint=f"{TWO_STEPS}; or `device=`"
    )
