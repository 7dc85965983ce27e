"""The judge on one device: chooses device, dtype and engine, and computes requests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, TypeAlias

from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, Outcome
from mmie_tasks.judges.mmie_score import devices, exact, memory
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.devices import DtypeOption
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, reply_text
from mmie_tasks.judges.mmie_score.request_queue import PromptPreparer, RequestQueue, queue_of
from mmie_tasks.record.reply import JudgeReply, Usage

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.generation import Completion, Engine

# With 4.57 the model cannot be built: `Phi3Config` has no `rope_parameters`. And
# `InternVLModel.get_image_features` returns a tensor there, not an object with `pooler_output`.
_OLDEST_TRANSFORMERS = 5
_SECOND_ENVIRONMENT = (
    "keep this environment for the tested model and judge in a second one: run the model here with "
    "`--predict_only --output_path OUT --log_samples`; then, where `pip install "
    "'mmie-tasks[mmie-score]'` was run, "
    "score its answers with `--model predictions --model_args path=OUT` and the same `--tasks`; or "
    "choose another judge"
)

EngineOption: TypeAlias = Literal["auto", "vllm", "transformers"]

_VLLM_SPEED = 2.6
"""Times as fast as transformers, in CPU seconds of the reduced model (``make bench``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineChoice:
    """The engine that computes.

    Attributes:
        version: The library and its version: ``vllm 0.32.0``.
        reason: Why this one, in a few words.
    """

    name: Literal["vllm", "transformers"]
    version: str
    reason: str

    def __str__(self) -> str:
        """The engine, the reason, and the cost of the other one."""
        other, cost = ("vLLM", 1 / _VLLM_SPEED)
        if self.name == "vllm":
            other, cost = ("transformers", _VLLM_SPEED)
        return (
            f"{self.version} ({self.reason}); {other} would take about {cost:.1f} times as long "
            "(measured on a CPU; on a GPU: not run)"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where and how the model is computed."""

    device: torch.device
    dtype: torch.dtype
    engine: EngineChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """Options of the computation, described on the page of this folder."""

    model: str
    revision: str | None = None
    device: str = "auto"
    dtype: DtypeOption = "auto"
    engine: EngineOption = "auto"
    batch_invariant: bool = False
    max_memory_bytes: int | None = None
    max_rows: int = 64


class LocalJudge:
    """A checkpoint on a device of this process. Nothing is loaded until the first request.

    `environment` contains ``LOCAL_RANK`` and other variables of launchers.
    """

    def __init__(self, options: LocalOptions, environment: Mapping[str, str]) -> None:
        self.options = options
        self._environment = environment
        self._placement: Placement | None = None
        self._engine: Engine | None = None

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Raises like `check_libraries`, `locate` and `open_checkpoint`."""
        check_libraries()
        return open_checkpoint(locate(self.options.model, self.options.revision))

    def device(self) -> torch.device:
        """The device; CUDA is not started."""
        return devices.choose_device(self.options.device, self._environment)

    def signature(self, device: torch.device | None = None) -> Mapping[str, object]:
        """The checkpoint's content, and how it is computed on `device`, by default that of this
        process.

        Before `start`, CUDA is not started, since the tested model may still fill the GPU; the
        signature is then the likely one. Raises like `choose_engine`.
        """
        placement = self._placement or self._likely_placement(device or self.device())
        return {
            "judge": "mmie_score",
            "model": f"MMIE-Score@{self.checkpoint.digest}",
            "dtype": devices.dtype_name(placement.dtype),
            "device": placement.device.type,
            "engine": placement.engine.version,
            "batch_invariant": "true" if self.options.batch_invariant else None,
            "stop": "end",
        }

    def _likely_placement(self, device: torch.device) -> Placement:
        return Placement(
            device=device,
            dtype=devices.choose_dtype(self.options.dtype, device),
            engine=choose_engine(self.options, device),
        )

    def placement(self) -> Placement:
        """Where and how the model is computed; starts CUDA. Raises `JudgeMisconfigured` if the
        device cannot be used, and like `choose_engine`.
        """
        device = self.device()
        devices.start(device)
        return self._likely_placement(device)

    def start(self) -> Placement:
        """Choose the placement once; from then on `signature` names it. May be called again if it
        raises, which it does like `placement`.
        """
        if self._placement is None:
            self._placement = self.placement()
            logger.info(f"MMIE-Score's engine: {self._placement.engine}.")
        return self._placement

    def capacity(self, checkpoint: Checkpoint) -> str:
        """The free memory, and what a run computes with it; starts CUDA. Raises like `placement`,
        and `DeviceFull` if the weights and one request do not fit.
        """
        placement, limit = self.placement(), self.options.max_memory_bytes
        device, dtype, free = placement.device, placement.dtype, memory.free_bytes(placement.device)
        if placement.engine.name == "transformers":
            from mmie_tasks.judges.mmie_score.transformers_engine import batch_tokens

            tokens = batch_tokens(checkpoint, device=device, dtype=dtype, max_memory_bytes=limit)
            size = f"batches of at most {self.options.max_rows} requests and {tokens:,} tokens"
        else:
            from mmie_tasks.judges.mmie_score.vllm_engine import planned_bytes

            taken = planned_bytes(checkpoint, device, dtype, limit)
            size = f"vLLM takes {readable_size(taken)}"
        return (
            f"{readable_size(free)} free on {device}: {size}, in {devices.dtype_name(dtype)}; "
            f"engine {placement.engine}"
        )

    def machine(self) -> str | None:
        """GPU and versions, for the provenance of a run; None before `start`."""
        return devices.describe(self._placement.device) if self._placement else None

    def ask(
        self, requests: Sequence[JudgeRequest], order: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Like `serve`, for requests that are begun in this order, with their indices as keys."""
        return self.serve(queue_of(requests, order))

    def serve(self, requests: RequestQueue) -> Iterator[tuple[int, Outcome]]:
        """Yield the key and outcome of every request of a queue until the queue ends.

        For one thread at a time; raises like `start` and the start of the engine. Replies do not
        depend on what else is in the queue.
        """
        from mmie_tasks.judges.mmie_score.generation import Completion

        placement = self.start()
        with (
            exact.exact_arithmetic(),
            closing(PromptPreparer(InputBuilder(self.checkpoint), requests)) as prompts,
        ):
            if self._engine is None:
                self._engine = self._start_engine(placement)
            for result in self._engine.run(prompts):
                if isinstance(result, Completion):
                    yield result.key, self._reply(result)
                else:
                    yield result.key, result.error

    def _start_engine(self, placement: Placement) -> Engine:
        options = self.options
        if placement.engine.name == "vllm":
            from mmie_tasks.judges.mmie_score.vllm_engine import VllmEngine

            return VllmEngine.start(
                self.checkpoint,
                device=placement.device,
                dtype=placement.dtype,
                max_rows=options.max_rows,
                max_memory_bytes=options.max_memory_bytes,
                batch_invariant=options.batch_invariant,
            )
        from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

        return TransformersEngine.start(
            self.checkpoint,
            device=placement.device,
            dtype=placement.dtype,
            max_rows=options.max_rows,
            max_memory_bytes=options.max_memory_bytes,
        )

    def _reply(self, completion: Completion) -> JudgeReply:
        return JudgeReply(
            text=reply_text(self.checkpoint.tokenizer.decode(completion.output)),
            model=f"MMIE-Score@{self.checkpoint.digest}",
            usage=Usage(
                input_tokens=completion.prompt_tokens,
                output_tokens=len(completion.output),
                cost_usd=0.0,
            ),
            finish=completion.finish,
        )

    def close(self) -> None:
        """Release all memory. Later requests load the weights again."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None


def choose_engine(options: LocalOptions, device: torch.device) -> EngineChoice:
    """The engine for a device; neither imports vLLM nor starts CUDA.

    ``auto`` is vLLM if it is installed and supports the GPU, else transformers. Raises
    `JudgeMisconfigured` if vLLM, or an option that only vLLM has, is requested and cannot be used.
    """
    from mmie_tasks.judges.mmie_score import vllm_engine

    problem = vllm_engine.supported(device)
    requested = f"`engine={options.engine}`"
    if options.engine == "vllm" and problem:
        raise JudgeMisconfigured(
            f"{requested} cannot be used on `{device}`: {problem}.",
            hint="`pip install 'mmie-tasks[vllm]'` on a machine with a GPU, or "
            "`engine=transformers`",
        )
    if options.engine == "vllm" or (
        options.engine == "auto" and device.type == "cuda" and not problem
    ):
        reason = "installed, and supports this GPU" if options.engine == "auto" else requested
        return EngineChoice(name="vllm", version=vllm_engine.installed(), reason=reason)
    if options.engine == "auto":
        reason = f"`{device}` is not a GPU" if device.type == "cpu" else problem
    else:
        reason = requested
    if options.batch_invariant:
        raise JudgeMisconfigured(
            f"`batch_invariant=true` needs vLLM, and the engine is transformers ({reason}).",
            hint="leave it out, or use `engine=vllm`",
        )
    return EngineChoice(
        name="transformers", version=f"transformers {version('transformers')}", reason=reason
    )


def check_libraries() -> None:
    """Raise `JudgeMisconfigured` if the installed transformers or torch cannot build the model.

    The hint is not ``pip install -U transformers``, which would break a tested model that needs
    version 4.
    """
    from transformers.utils.import_utils import is_torch_available

    installed = version("transformers")
    if int(installed.partition(".")[0]) < _OLDEST_TRANSFORMERS:
        raise JudgeMisconfigured(
            f"The judge MMIE-Score needs transformers {_OLDEST_TRANSFORMERS} or newer, and "
            f"{installed} is installed.",
            hint=_SECOND_ENVIRONMENT,
        )
    if not is_torch_available():  # false if torch is too old for transformers
        raise JudgeMisconfigured(
            f"transformers {installed} does not use torch {version('torch')}: it is too old.",
            hint=f"torch 2.6 or newer; or {_SECOND_ENVIRONMENT}",
        )
