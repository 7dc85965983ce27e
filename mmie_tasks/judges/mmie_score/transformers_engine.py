"""MMIE-Score on transformers' own ``generate()``: the reference, for CPUs and any GPU.

Rotary positions follow ``Phi3SuScaledRotaryEmbedding`` of InternVL's ``modeling_phi3.py``. It looks
at the highest position of a call: above 4,096 tokens (``original_max_position_embeddings``) every
token of that call gets the long factors, else the short ones, and keys in the cache stay as they
were rotated. With one sample in a call, a prompt's tokens follow the prompt's length, and a
generated token follows its own position. `_RowRope` does this for each row of a batch separately;
in transformers' own rotary embedding, the longest row decides for all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from accelerate.utils.memory import should_reduce_batch_size  # type: ignore[import-untyped]
from loguru import logger
from torch import nn
from transformers import (
    DynamicCache,
    GenerationConfig,
    InternVLForConditionalGeneration,
    Phi3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.base import JudgeError, JudgeMisconfigured, JudgeUnavailable
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint
from mmie_tasks.judges.mmie_score.devices import TWO_STEPS, dtype_name, release_memory
from mmie_tasks.judges.mmie_score.inputs import JudgePrompt
from mmie_tasks.judges.mmie_score.native_model import load_model

_ROUND_STEPS = 64  # tokens after which rows that ended leave a batch
_MEAN = (0.485, 0.456, 0.406)  # ImageNet's red, green and blue
_DEVIATION = (0.229, 0.224, 0.225)
MAX_ROWS = {"cuda": 64, "cpu": 4}
"""The most samples computed at once. A CPU without memory ends the process, a GPU raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The tokens generated for a prompt.

    Attributes:
        output: Token ids, including the end token if there is one.
        finish: ``length`` if generation reached its limit.
        prompt_tokens: Length of the prompt, including image tokens.
    """

    output: list[int]
    finish: Literal["stop", "length"]
    prompt_tokens: int


Result: TypeAlias = tuple[int, Completion | JudgeError]
"""A prompt's key, and what came of it."""


def normalized(tiles: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Tiles as the vision tower takes them, on the device that they are on.

    8-bit tiles (tiles, side, side, 3) become (tiles, 3, side, side), about -2.1 to 2.7. Steps and
    their order are torchvision's ``ToTensor`` and ``Normalize`` in 32 bits, as in ``load_image`` of
    ``main.py``; the result is rounded to `dtype` at the end.
    """
    pixels = tiles.permute(0, 3, 1, 2).to(torch.float32, memory_format=torch.contiguous_format)
    mean, deviation = (
        torch.tensor(channels, dtype=torch.float32, device=tiles.device).view(1, 3, 1, 1)
        for channels in (_MEAN, _DEVIATION)
    )
    return pixels.div_(255).sub_(mean).div_(deviation).to(dtype)


class Rotary:
    """Cosine and sine of positions, computed in fp32 and rounded to the model's dtype last."""

    def __init__(self, config: Phi3Config, device: torch.device) -> None:
        parameters: Any = config.rope_parameters
        self.long_after: int = parameters["original_max_position_embeddings"]
        frequencies = ROPE_INIT_FUNCTIONS["longrope"]
        self._short, self._scale = frequencies(config, device)
        self._long, _ = frequencies(config, device, seq_len=self.long_after + 1)

    def __call__(
        self, positions: torch.Tensor, is_long: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (..., head_dim); positions count from 0, and `is_long` says which
        have the long factors, both (...).
        """
        angles = positions.to(torch.float32)[..., None] * torch.where(
            is_long[..., None], self._long, self._short
        )
        angles = torch.cat((angles, angles), dim=-1)
        return (angles.cos() * self._scale).to(dtype), (angles.sin() * self._scale).to(dtype)


class _RowRope(nn.Module):
    """The rotary embedding of the forward pass, with factors for each row.

    The frequencies are not buffers: casting the model to bf16 would round them, and a model built
    on the meta device would have none.
    """

    def __init__(self, config: Phi3Config, device: torch.device) -> None:
        super().__init__()
        self._rotary = Rotary(config, device)

    @torch.no_grad()
    def forward(
        self, x: torch.Tensor, position_ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosine and sine, each (rows, tokens, head_dim), in the dtype of `x`."""
        is_long = position_ids.amax(-1, keepdim=True) + 1 > self._rotary.long_after
        return self._rotary(position_ids, is_long, x.dtype)


@dataclass(kw_only=True, slots=True)
class _LiveRow:
    """A prompt, and what has been generated for it."""

    prompt: JudgePrompt
    output: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.prompt.max_new_tokens - len(self.output)


@dataclass(kw_only=True, slots=True)
class _Batch:
    """Rows, padded on the left; ids and mask are (rows, tokens)."""

    rows: list[_LiveRow]
    ids: torch.Tensor
    mask: torch.Tensor
    pixels: dict[str, torch.Tensor]  # for the first round
    cache: DynamicCache = field(default_factory=DynamicCache)


class TransformersEngine:
    """Computes batches of prompts, in the order in which they come: the longest first.

    A batch has at most `max_rows` prompts. After every `round_steps` tokens, rows that ended leave
    it. Apart from rounding in half precision, a result does not depend on the rest of its batch.
    """

    def __init__(
        self,
        model: InternVLForConditionalGeneration,
        checkpoint: Checkpoint,
        *,
        max_rows: int = 64,
        round_steps: int = _ROUND_STEPS,
    ) -> None:
        text = model.model.language_model
        self._device, self._dtype = model.lm_head.weight.device, model.lm_head.weight.dtype
        text.rotary_emb = _RowRope(text.config, self._device)
        self._model: Any = model  # whose `generate` declares wider types than it returns
        arguments = signature(model.forward).parameters  # transformers 5.24 has another name
        self._cache_name = "cache" if "cache" in arguments else "past_key_values"
        self._checkpoint = checkpoint
        self._max_rows = max_rows
        self._fitting_tokens = math.inf  # less once memory has run out
        self._round_steps = round_steps

    @classmethod
    def start(
        cls,
        checkpoint: Checkpoint,
        *,
        device: torch.device,
        dtype: torch.dtype,
        max_rows: int | None = None,
    ) -> TransformersEngine:
        """Load the weights; raises `JudgeMisconfigured` if they do not fit into the memory or
        cannot be read, or if the GPU does not compute in bfloat16.
        """
        if device.type == "cuda" and dtype == torch.bfloat16:
            major, minor = torch.cuda.get_device_capability(device)
            if major < 8:
                raise JudgeMisconfigured(
                    f"`{device}`, of compute capability {major}.{minor}, has no bfloat16.",
                    hint="`dtype=float16`, or `dtype=float32`, which takes twice the memory",
                )
        max_rows = max_rows or MAX_ROWS[device.type]
        logger.info(
            f"Loading MMIE-Score, {checkpoint.location.name}: "
            f"{readable_size(checkpoint.weight_bytes)}, as {dtype_name(dtype)} on "
            f"{device}; at most {max_rows} requests at once."
        )
        try:
            model = load_model(checkpoint, device=device, dtype=dtype)
        except RuntimeError as error:
            if not should_reduce_batch_size(error):
                raise
            release_memory()
            raise JudgeMisconfigured(
                f"`{device}` ran out of memory for the weights of MMIE-Score: {first_line(error)}",
                hint=f"{TWO_STEPS}; or `device=`",
            ) from error
        return cls(model, checkpoint, max_rows=max_rows)

    def run(self, prompts: Iterable[JudgePrompt]) -> Iterator[Result]:
        """The result of every prompt, after the round of its batch in which it ends.

        A batch that does not fit into memory is computed in halves; a request that does not fit
        alone is `JudgeUnavailable`.
        """
        batch: list[JudgePrompt] = []
        for prompt in prompts:
            is_full = len(batch) == self._max_rows
            if batch and (is_full or _padded_tokens([*batch, prompt]) > self._fitting_tokens):
                yield from self._results(batch)
                batch = []
            batch.append(prompt)
        if batch:
            yield from self._results(batch)

    def close(self) -> None:
        """Drop the weights."""
        self._model = None
        release_memory()

    def _results(self, prompts: list[JudgePrompt]) -> Iterator[Result]:
        """The results of a batch, in halves where memory runs out."""
        open_batches = [prompts]
        while open_batches:
            prompts = open_batches.pop()
            done: set[int] = set()
            try:
                for key, completion in self._completions(prompts):
                    done.add(key)
                    yield key, completion
                continue
            except RuntimeError as error:
                if not should_reduce_batch_size(error):
                    raise
                reason = first_line(error)
            release_memory()
            left = [prompt for prompt in prompts if prompt.key not in done]
            if len(prompts) == 1:
                text = f"the judge's device ran out of memory on this request alone: {reason}"
                yield left[0].key, JudgeUnavailable(text)
                continue
            self._fitting_tokens = min(self._fitting_tokens, _padded_tokens(prompts) // 2)
            logger.warning(
                f"The judge's device ran out of memory with {len(prompts)} requests at once; "
                f"batches have at most {self._fitting_tokens:,} tokens from now on. In half "
                "precision single tokens of replies may differ from those of other runs."
            )
            half = -(-len(left) // 2)
            open_batches += [part for part in (left[half:], left[:half]) if part]

    def _completions(self, prompts: Sequence[JudgePrompt]) -> Iterator[tuple[int, Completion]]:
        """The completions of a batch, round by round."""
        batch = self._padded(prompts)
        while batch.rows:
            for row in self._round(batch):
                ended = row.output[-1] == self._checkpoint.end_token_id
                yield (
                    row.prompt.key,
                    Completion(
                        output=row.output,
                        finish="stop" if ended else "length",
                        prompt_tokens=len(row.prompt.ids),
                    ),
                )

    def _padded(self, prompts: Sequence[JudgePrompt]) -> _Batch:
        width, end = max(len(prompt.ids) for prompt in prompts), self._checkpoint.end_token_id
        padding = [width - len(prompt.ids) for prompt in prompts]
        ids = [[end] * count + one.ids for count, one in zip(padding, prompts, strict=True)]
        mask = [[0] * count + [1] * (width - count) for count in padding]
        batch = _Batch(
            rows=[_LiveRow(prompt=prompt) for prompt in prompts],
            ids=torch.tensor(ids, device=self._device),
            mask=torch.tensor(mask, device=self._device),
            pixels={},
        )
        tiles = [prompt.tiles for prompt in prompts if prompt.tiles is not None]
        if tiles:  # `generate` fails on `pixel_values=None`
            on_device = torch.from_numpy(np.concatenate(tiles)).to(self._device)
            batch.pixels["pixel_values"] = normalized(on_device, self._dtype)
        return batch

    @torch.inference_mode()
    def _round(self, batch: _Batch) -> list[_LiveRow]:
        """Generate some tokens for each row; removes and returns the rows that ended."""
        width, end = batch.ids.shape[1], self._checkpoint.end_token_id
        steps = min(self._round_steps, max(row.left for row in batch.rows))
        output = self._model.generate(
            input_ids=batch.ids,
            attention_mask=batch.mask,
            generation_config=GenerationConfig(  # type: ignore[no-untyped-call]
                max_new_tokens=steps,
                do_sample=False,
                eos_token_id=end,
                pad_token_id=end,
                return_dict_in_generate=True,
            ),
            **{self._cache_name: batch.cache},
            **batch.pixels,
        )
        batch.pixels = {}
        live: list[int] = []
        ended: list[_LiveRow] = []
        for number, tokens in enumerate(output.sequences[:, width:].tolist()):
            row = batch.rows[number]
            new = tokens[: tokens.index(end) + 1 if end in tokens else len(tokens)][: row.left]
            row.output += new
            if row.left and row.output[-1] != end:
                live.append(number)
            else:
                ended.append(row)
        batch.rows = [batch.rows[number] for number in live]
        if live:
            rows = torch.tensor(live, device=self._device)
            if ended:
                batch.cache.batch_select_indices(rows)
            batch.ids = output.sequences[rows]
            mask = batch.mask.new_ones(len(live), batch.ids.shape[1] - width)
            batch.mask = torch.cat((batch.mask[rows], mask), 1)
        return ended


def _padded_tokens(prompts: Sequence[JudgePrompt]) -> int:
    longest = max(len(prompt.ids) for prompt in prompts)
    return len(prompts) * (longest + max(prompt.max_new_tokens for prompt in prompts))
