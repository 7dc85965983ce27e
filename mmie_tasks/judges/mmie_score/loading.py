"""Loads the judge's weights, and builds an engine that fits into the memory of the device."""

from __future__ import annotations

import sys
from dataclasses import replace

from loguru import logger
from transformers import InternVLForConditionalGeneration

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score import memory
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.weights import load_model
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention
from mmie_tasks.judges.mmie_score.engine.budget import LEAST_TOKENS, MemoryPlan, Placement, plan
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder, StaticDecoder, cuda_capture
from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
from mmie_tasks.judges.mmie_score.engine.model import FlatSteps, TextModel, Vision
from mmie_tasks.judges.mmie_score.engine.schedule import Schedule
from mmie_tasks.judges.mmie_score.memory import DeviceFull


def memory_plan(checkpoint: Checkpoint, placement: Placement) -> MemoryPlan:
    """What the engine may use of the memory that is free now; raises `DeviceFull` like `plan`."""
    limit = placement.max_memory_bytes or sys.maxsize
    return plan(
        checkpoint,
        placement,
        free_bytes=min(memory.free_bytes(placement.device), limit),
        device_bytes=min(memory.device_bytes(placement.device), limit),
    )


def load_engine(checkpoint: Checkpoint, placement: Placement) -> PagedEngine:
    """The model on its device, in an engine for any requests; one that is too long goes unscored.

    Raises:
        DeviceFull: Not even one request fits into memory.
        JudgeMisconfigured: The weights cannot be read.
    """
    budget = memory_plan(checkpoint, placement)
    logger.info(
        f"Loading MMIE-Score, {checkpoint.location.name}: "
        f"{readable_size(checkpoint.weight_bytes)}, as {placement.dtype_name} on "
        f"{placement.device}."
    )
    try:
        model = load_model(checkpoint, device=placement.device, dtype=placement.dtype)
    except RuntimeError as error:
        raise _no_memory(placement, "its weights", error) from error
    while True:
        try:
            return _build(model, budget, checkpoint, placement)
        except RuntimeError as error:
            refusal = _no_memory(placement, "one request", error)
            if budget.pages * budget.page_tokens < 2 * LEAST_TOKENS:
                raise refusal from error
        memory.release_memory()
        fewer = replace(budget, pages=budget.pages // 2)
        logger.warning(
            f"`{placement.device}` has less memory than it reported; MMIE-Score computes fewer "
            f"requests at once: {fewer.pages * fewer.page_tokens:,} tokens of cache instead of "
            f"{budget.pages * budget.page_tokens:,}. This changes no reply."
        )
        budget = fewer


def _build(
    model: InternVLForConditionalGeneration,
    budget: MemoryPlan,
    checkpoint: Checkpoint,
    placement: Placement,
) -> PagedEngine:
    attention, fixed_rows = placement.attention, placement.max_rows if placement.fixed else None
    text = TextModel(model, pages=budget.pages + 1, page_tokens=attention.page_tokens)
    capacity = budget.pages * budget.page_tokens
    max_positions = checkpoint.config.llm_config.max_position_embeddings
    max_tokens = min(max_positions, capacity) if placement.fixed else capacity
    decoder = None
    if fixed_rows and isinstance(attention, PagedAttention):  # planned once for all steps
        is_captured = placement.graphs and placement.device.type == "cuda"
        decoder = StaticDecoder(
            text,
            attention,
            rows=fixed_rows,
            max_tokens=max_tokens,
            capture=cuda_capture(placement.device) if is_captured else None,
        )
    logger.info(
        f"MMIE-Score: {budget.capacity(max_positions)}, {capacity:,} tokens of cache, attention "
        f"{attention.name}: {placement.attention_reason}."
    )
    return PagedEngine(
        schedule=Schedule(
            pages=budget.pages,
            page_tokens=attention.page_tokens,
            max_rows=budget.rows,
            max_tokens=max_tokens,
        ),
        vision=Vision(model, fixed=placement.fixed),
        flat=FlatSteps(text, attention, checkpoint.image_token_id, fixed_rows),
        decoder=decoder,
        digits=DigitRecorder(checkpoint.tokenizer.digit_ids, text.device),
        end_token_id=checkpoint.end_token_id,
        budget=budget,
    )


def _no_memory(placement: Placement, purpose: str, error: RuntimeError) -> DeviceFull:
    """The message for a device that ran out of memory; raises an error that has another cause."""
    if not memory.is_out_of_memory(error):
        raise error
    return DeviceFull(
        f"`{placement.device}` ran out of memory for {purpose}: {first_line(error)}",
        hint=f"{memory.TWO_STEPS}; or `device=`",
    )
