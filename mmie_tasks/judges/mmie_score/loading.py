"""Loads the judge's weights into transformers' own model, and builds an engine around it, sized for
the requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import torch
from loguru import logger
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import (
    InternVLConfig,
    InternVLForConditionalGeneration,
    InternVLVisionConfig,
    Phi3Config,
)

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.mmie_score import devices
from mmie_tasks.judges.mmie_score.checkpoint import LORA_SCALE, Checkpoint, native_names
from mmie_tasks.judges.mmie_score.checkpoint.config import Config, TextConfig, VisionConfig
from mmie_tasks.judges.mmie_score.checkpoint.files import Tensor, unusable
from mmie_tasks.judges.mmie_score.devices import (
    TWO_STEPS,
    DeviceFull,
    first_line,
    is_out_of_memory,
    release_memory,
)
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention
from mmie_tasks.judges.mmie_score.engine.budget import MemoryPlan, Placement, plan
from mmie_tasks.judges.mmie_score.engine.decoding import (
    DigitRecorder,
    PlainDecoder,
    StaticDecoder,
    cuda_capture,
)
from mmie_tasks.judges.mmie_score.engine.engine import Engine
from mmie_tasks.judges.mmie_score.engine.model import Prefill, TextModel, Vision
from mmie_tasks.judges.mmie_score.engine.schedule import Schedule

LEAST_TOKENS = 4096  # memory for fewer is not worth loading the weights


class LoadedJudge:
    """The model on its device, and an engine that fits the requests."""

    def __init__(self, checkpoint: Checkpoint, placement: Placement) -> None:
        self._checkpoint, self._placement = checkpoint, placement
        self._model: InternVLForConditionalGeneration | None = None
        self._engine: Engine | None = None
        self._planned = (0, 0)  # rows and tokens that the engine is planned for

    @property
    def captured(self) -> bool:
        """Whether decoding steps are replayed from a CUDA graph."""
        decoder = None if self._engine is None else self._engine.decoder
        return isinstance(decoder, StaticDecoder) and decoder.captured

    def engine(self, *, longest_tokens: int, count: int) -> Engine:
        """An engine for at most so many requests at a time, on a GPU the same for all; the longest
        may go unscored.

        Raises:
            DeviceFull: Not even one request fits into memory.
            JudgeMisconfigured: The weights cannot be read.
        """
        placement, tokens = self._placement, longest_tokens
        rows = placement.max_rows if placement.fixed else min(placement.max_rows, count)
        if placement.fixed:
            tokens = max(tokens, self._checkpoint.config.llm_config.max_position_embeddings)
        if self._engine is not None:
            if rows <= self._planned[0] and tokens <= self._planned[1]:
                return self._engine
            self._engine = None
            release_memory()
        budget = self._budget(rows, tokens)
        if self._model is None:
            self._model = self._load()
        self._engine = self._build_fitting(self._model, budget, tokens)
        self._planned = (rows, tokens)
        return self._engine

    def _budget(self, rows: int, tokens: int) -> MemoryPlan:
        """Planned for the longest request where that is possible, else for one of
        `LEAST_TOKENS`.
        """
        device, limit = self._placement.device, self._placement.max_memory_bytes
        loaded = self._model.parameters() if self._model is not None else ()
        usable = devices.free_bytes(device) + sum(weight.nbytes for weight in loaded)
        total = devices.device_bytes(device)
        planned = partial(
            plan,
            self._checkpoint,
            self._placement,
            rows=rows,
            free_bytes=min(usable, limit or usable),
            device_bytes=min(total, limit or total),
        )
        if not self._placement.fixed:
            with suppress(DeviceFull):
                return planned(tokens=tokens)
        return planned(tokens=min(tokens, LEAST_TOKENS))

    def _load(self) -> InternVLForConditionalGeneration:
        checkpoint, placement = self._checkpoint, self._placement
        logger.info(
            f"Loading MMIE-Score, {checkpoint.location.name}: "
            f"{readable_size(checkpoint.weight_bytes)}, "
            f"as {placement.dtype_name} on {placement.device}."
        )
        try:
            return load_model(checkpoint, device=placement.device, dtype=placement.dtype)
        except RuntimeError as error:
            raise self._no_memory("its weights", error) from error

    def _build_fitting(
        self, model: InternVLForConditionalGeneration, budget: MemoryPlan, longest_tokens: int
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
        logger.warning(
            f"`{self._placement.device}` has less memory than it reported; MMIE-Score computes "
            f"fewer requests at once: {fewer.pages * fewer.page_tokens:,} tokens of cache instead "
            f"of {budget.pages * budget.page_tokens:,}. This changes no reply."
        )
        return self._build_fitting(model, fewer, longest_tokens)

    def _build(
        self, model: InternVLForConditionalGeneration, budget: MemoryPlan, longest_tokens: int
    ) -> Engine:
        checkpoint, placement = self._checkpoint, self._placement
        attention, fixed_rows = placement.attention, placement.max_rows if placement.fixed else None
        text = TextModel(model, pages=budget.pages + 1, page_tokens=attention.page_tokens)
        capacity = budget.pages * budget.page_tokens
        longest_tokens = min(longest_tokens, capacity)
        decoder: PlainDecoder | StaticDecoder = PlainDecoder(text, attention, fixed_rows)
        if fixed_rows and isinstance(attention, PagedAttention):  # planned once for all steps
            is_captured = placement.graphs and placement.on_gpu
            decoder = StaticDecoder(
                text,
                attention,
                rows=fixed_rows,
                max_tokens=longest_tokens,
                capture=cuda_capture(placement.device) if is_captured else None,
            )
        logger.info(
            f"MMIE-Score: {budget.capacity(checkpoint.config.llm_config.max_position_embeddings)}, "
            f"{capacity:,} tokens of cache, attention {attention.name}: "
            f"{placement.attention_reason}."
        )
        return Engine(
            schedule=Schedule(
                pages=budget.pages,
                page_tokens=attention.page_tokens,
                max_rows=budget.rows,
                max_tokens=longest_tokens if placement.fixed else capacity,
            ),
            vision=Vision(model, fixed=placement.fixed),
            prefill=Prefill(text, attention, checkpoint.image_token_id, fixed_rows),
            decoder=decoder,
            digits=DigitRecorder(checkpoint.tokenizer.digit_ids, text.device),
            end_token_id=checkpoint.end_token_id,
            budget=budget,
            fixed=placement.fixed,
        )

    def close(self) -> None:
        """Release all memory."""
        self._engine = self._model = None
        release_memory()

    def _no_memory(self, purpose: str, error: RuntimeError) -> DeviceFull:
        """The message for a device that ran out of memory; raises an error that has another
        cause.
        """
        if not is_out_of_memory(error):
            raise error
        return DeviceFull(
            f"`{self._placement.device}` ran out of memory for {purpose}: {first_line(error)}",
            hint=f"{TWO_STEPS}; or `device=`",
        )


def load_model(
    checkpoint: Checkpoint, *, device: torch.device, dtype: torch.dtype
) -> InternVLForConditionalGeneration:
    """Build the model and load its weights one at a time, so that none is in memory twice.

    The model is built without memory, and each weight is rounded once from the stored one (a
    fine-tune's update is added in fp32 before). It has no rotary embedding: the engine computes
    positions itself, with `Rotary`.

    Raises:
        JudgeMisconfigured: A file cannot be read, or has changed since it was checked.
        torch.OutOfMemoryError: The device has less memory than `Checkpoint.weight_bytes`.
    """
    config = native_config(checkpoint.config, image_token_id=checkpoint.image_token_id)
    with torch.device("meta"):
        model = InternVLForConditionalGeneration(config)
    state = {
        name: tensor.to(device=device, dtype=dtype, copy=True)
        for name, tensor in _weights(checkpoint)
    }
    model.load_state_dict(state, strict=True, assign=True)
    model.model.language_model.rotary_emb = nn.Identity()
    model.requires_grad_(False)
    model.eval()  # type: ignore[no-untyped-call]
    return model


def _weights(checkpoint: Checkpoint) -> Iterator[tuple[str, torch.Tensor]]:
    """Every weight by its native name, file by file; views of files that are then closed."""
    for official, weight in sorted(
        checkpoint.weights.items(), key=lambda named: named[1].stored.path
    ):
        names, merged = native_names(official), _tensor(weight.stored)
        if weight.down is not None and weight.up is not None:
            merged = merged.float() + LORA_SCALE * (
                _tensor(weight.up).float() @ _tensor(weight.down).float()
            )
        yield from zip(names, merged.chunk(len(names)), strict=True)


def _tensor(tensor: Tensor) -> torch.Tensor:
    try:
        with safe_open(tensor.path, framework="pt") as file:
            content: torch.Tensor = file.get_tensor(tensor.name)
    except (OSError, SafetensorError) as error:
        raise unusable(f"`{tensor.name}` cannot be read from `{tensor.path}`: {error}.") from error
    if tuple(content.shape) != tensor.shape:
        raise unusable(f"`{tensor.path}` changed while the judge was loaded.")
    return content


def native_config(config: Config, *, image_token_id: int) -> InternVLConfig:
    """The configuration of transformers' own model that computes what the official one does."""
    native = InternVLConfig(
        vision_config=_vision_config(config.vision_config),
        text_config=_text_config(config.llm_config),
        image_token_id=image_token_id,
        image_seq_length=config.tokens_per_tile,
        downsample_ratio=config.downsample_ratio,
        projector_hidden_act="gelu",
        vision_feature_layer=config.select_layer,
        vision_feature_select_strategy="default",
        tie_word_embeddings=False,  # transformers ties them by default
    )
    native._attn_implementation = "sdpa"  # of its parts as well
    return native


def _vision_config(config: VisionConfig) -> InternVLVisionConfig:
    return InternVLVisionConfig(
        **config.model_dump(exclude={"qkv_bias", "qk_normalization"}),  # named otherwise below
        attention_bias=config.qkv_bias,
        use_qk_norm=config.qk_normalization,
        use_absolute_position_embeddings=True,
        use_mask_token=False,
        use_mean_pooling=True,  # leaves out the last norm, which the official tower lacks
    )


def _text_config(config: TextConfig) -> Phi3Config:
    longest, original = config.max_position_embeddings, config.original_max_position_embeddings
    rotary = {"rope_theta", "rope_scaling", "partial_rotary_factor", "sliding_window"}  # set below
    return Phi3Config(
        **config.model_dump(
            exclude={"architectures", "model_type", "num_key_value_heads", *rotary}
        ),
        num_key_value_heads=config.kv_heads,
        # By its new name: transformers converts `su` only in part. It would compute the same
        # factor, and warn that it is missing.
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": config.rope_theta,
            **config.rope_scaling.model_dump(exclude={"type"}),
            "original_max_position_embeddings": original,
            "factor": longest / original,
            "partial_rotary_factor": 1.0,
        },
        sliding_window=None,  # longer than the longest sequence; None is faster
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
