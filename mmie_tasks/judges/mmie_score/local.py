"""The judge on one device: where a checkpoint is computed, and the outcomes of requests there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, Outcome
from mmie_tasks.judges.mmie_score import devices, exact, memory
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.devices import AttentionOption, DtypeOption
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, reply_text
from mmie_tasks.judges.mmie_score.request_queue import PromptPreparer, RequestQueue, queue_of
from mmie_tasks.record.reply import DigitToken, JudgeReply, Usage
from mmie_tasks.record.signature import signature_text

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.engine.budget import Placement
    from mmie_tasks.judges.mmie_score.engine.engine import PagedEngine
    from mmie_tasks.judges.mmie_score.generation import Completion

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


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions:
    """What is computed where. The page of this folder describes the options."""

    model: str
    revision: str | None = None
    device: str = "auto"
    dtype: DtypeOption = "auto"
    attention: AttentionOption = "auto"
    max_memory_bytes: int | None = None
    max_rows: int = 64
    graphs: bool = True


class LocalJudge:
    """A checkpoint on a device of this process. Nothing is loaded until the first request.

    `environment` has ``LOCAL_RANK`` and other variables of launchers, and what our cache folder
    depends on.
    """

    def __init__(self, options: LocalOptions, environment: Mapping[str, str]) -> None:
        self.options = options
        self._environment = environment
        self._placement: Placement | None = None
        self._engine: PagedEngine | None = None

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Raises like `check_libraries`, `locate` and `open_checkpoint`."""
        check_libraries()
        return open_checkpoint(locate(self.options.model, self.options.revision, self._environment))

    def device(self) -> torch.device:
        """The device; CUDA is not started."""
        return devices.choose_device(self.options.device, self._environment)

    def signature(self, device: torch.device | None = None) -> str:
        """The checkpoint's content, and how it is computed.

        Until `start`, how it will likely be computed, by what can be imported: the tested model may
        still fill the GPU, so nothing is computed and CUDA is not started.

        Args:
            device: Where it will be computed, if not on the device of this process.
        """
        checkpoint, placement = self.checkpoint, self._placement
        if placement is not None:
            device, dtype, attention = placement.device, placement.dtype, placement.attention.name
        else:
            from mmie_tasks.judges.mmie_score.engine.kernels import likely_attention

            device = device or self.device()
            dtype = devices.choose_dtype(self.options.dtype, device)
            attention = likely_attention(
                self.options.attention,
                device=device,
                dtype=dtype,
                config=checkpoint.config.llm_config,
            )
        return signature_text(
            judge="mmie_score",
            model=f"MMIE-Score@{checkpoint.digest}",
            dtype=str(dtype).removeprefix("torch."),
            device=device.type,
            attention=attention,
            stop="end",
        )

    def placement(self, checkpoint: Checkpoint) -> Placement:
        """Where and how a checkpoint is computed; starts CUDA and tries the kernels on a GPU.

        Raises:
            JudgeMisconfigured: The device cannot be used, or has no memory for the trial.
        """
        from mmie_tasks.judges.mmie_score.engine.budget import Placement
        from mmie_tasks.judges.mmie_score.engine.kernels import choose_attention

        options, device = self.options, self.device()
        devices.start(device)
        dtype = devices.choose_dtype(options.dtype, device)
        chosen = choose_attention(
            options.attention, device=device, dtype=dtype, config=checkpoint.config.llm_config
        )
        return Placement(
            device=device,
            dtype=dtype,
            attention=chosen.attention,
            attention_reason=chosen.reason,
            max_memory_bytes=options.max_memory_bytes,
            max_rows=options.max_rows,
            graphs=options.graphs,
            fixed=device.type == "cuda",
        )

    def start(self) -> Placement:
        """Choose the placement, once; from then on `signature` names it. Raises like `placement`,
        and may be called again then.
        """
        if self._placement is None:
            self._placement = self.placement(self.checkpoint)
        return self._placement

    def machine(self) -> str | None:
        """GPU and versions, for the provenance of a run; None before `start`."""
        return devices.describe(self._placement.device) if self._placement else None

    @property
    def captured(self) -> bool:
        """Whether decoding steps are replayed from a CUDA graph."""
        decoder = self._engine.decoder if self._engine is not None else None
        return decoder is not None and decoder.captured

    def ask(
        self, requests: Sequence[JudgeRequest], order: Sequence[int]
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of each request, begun in this order, by its index; as `serve`."""
        return self.serve(queue_of(requests, order))

    def serve(self, requests: RequestQueue) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of every request of a queue, by its key, until the queue has no more.

        For one thread at a time; raises like `start` and `load_engine`. Replies do not depend on
        what else is in the queue.
        """
        from mmie_tasks.judges.mmie_score.generation import Completion
        from mmie_tasks.judges.mmie_score.loading import load_engine

        placement = self.start()
        with (
            exact.exact_arithmetic(),
            closing(PromptPreparer(InputBuilder(self.checkpoint), requests)) as prompts,
        ):
            if self._engine is None:
                self._engine = load_engine(self.checkpoint, placement)
            for result in self._engine.run(prompts):
                if isinstance(result, Completion):
                    yield result.key, self._reply(result)
                else:
                    yield result.key, result.error

    def _reply(self, completion: Completion) -> JudgeReply:
        tokenizer = self.checkpoint.tokenizer
        text = reply_text(tokenizer.decode(completion.output))
        offsets = tokenizer.digit_offsets(completion.output, text)
        return JudgeReply(
            text=text,
            model=f"MMIE-Score@{self.checkpoint.digest}",
            usage=Usage(
                input_tokens=completion.prompt_tokens,
                output_tokens=len(completion.output),
                cost_usd=0.0,
            ),
            finish=completion.finish,
            digits=tuple(
                DigitToken(offset=offsets[index], logprobs=logprobs)
                for index, logprobs in completion.digits.items()
                if index in offsets
            ),
        )

    def close(self) -> None:
        """Release all memory. Later requests load the weights again."""
        if self._engine is not None:
            self._engine = None
            memory.release_memory()


def check_libraries() -> None:
    """Raise `JudgeMisconfigured` if the installed transformers, or the torch beside it, cannot
    build the judge's model.

    The hint is not ``pip install -U transformers``: a tested model whose code needs version 4 would
    break.
    """
    from transformers.utils.import_utils import is_torch_available

    installed = version("transformers")
    if int(installed.partition(".")[0]) < _OLDEST_TRANSFORMERS:
        raise JudgeMisconfigured(
            f"The judge MMIE-Score needs transformers {_OLDEST_TRANSFORMERS} or newer, and "
            f"{installed} is installed.",
            hint=_SECOND_ENVIRONMENT,
        )
    if not is_torch_available():  # by what this version of transformers needs
        raise JudgeMisconfigured(
            f"transformers {installed} does not use torch {version('torch')}: it is too old.",
            hint=f"torch 2.6 or newer; or {_SECOND_ENVIRONMENT}",
        )
