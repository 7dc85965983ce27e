"""The judge on one device: where a checkpoint is computed, and the outcomes of requests there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING

from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, Outcome
from mmie_tasks.judges.mmie_score import devices, inputs
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.devices import AttentionOption, DtypeOption
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, PromptPreparer, RequestQueue
from mmie_tasks.record.reply import DigitToken, JudgeReply, Usage

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.engine.budget import Placement
    from mmie_tasks.judges.mmie_score.engine.schedule import Completion
    from mmie_tasks.judges.mmie_score.loading import LoadedJudge

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
_LENGTH_MARGIN = 16  # tokens; an estimated length lacks those of the marks around images


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
        self._loaded: LoadedJudge | None = None

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint, checked; raises like `locate` and `open_checkpoint`."""
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
        return (
            f"judge:mmie_score|model:MMIE-Score@{checkpoint.digest}"
            f"|dtype:{str(dtype).removeprefix('torch.')}"
            f"|device:{device.type}|attention:{attention}|stop:end"
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
    def is_loaded(self) -> bool:
        """Whether the weights are in memory."""
        return self._loaded is not None

    @property
    def captured(self) -> bool:
        """Whether decoding steps are replayed from a CUDA graph."""
        return self._loaded is not None and self._loaded.captured

    def lengths(self, requests: Sequence[JudgeRequest]) -> list[int]:
        """Tokens of each request with its longest reply, about, by the headers of its images;
        raises like `checkpoint`.
        """
        builder = InputBuilder(self.checkpoint)
        longest = self.checkpoint.config.llm_config.max_position_embeddings
        with ThreadPoolExecutor(inputs.thread_count()) as threads:
            prompts = list(threads.map(builder.length, requests))
        return [
            _LENGTH_MARGIN + min(tokens, longest) + request.max_tokens
            for tokens, request in zip(prompts, requests, strict=True)
        ]

    def serve(
        self, source: RequestQueue, *, longest_tokens: int, count: int | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of every request of a source, by its key, until the source has no more.

        For one thread at a time; raises like `start` and `LoadedJudge.engine`. On a GPU neither
        argument changes a reply: a step has the same shapes whatever is to come. On a CPU, memory
        is planned for them.

        Args:
            source: Supplies the requests, the longest first if it can.
            longest_tokens: Of the longest request with its reply.
            count: The most requests that the source holds at a time.
        """
        from mmie_tasks.judges.mmie_score.engine.schedule import Completion

        check_libraries()
        placement = self.start()
        with (
            devices.exact_arithmetic(),
            closing(PromptPreparer(InputBuilder(self.checkpoint), source)) as prompts,
        ):
            loaded = self._load(placement)
            count = count or self.options.max_rows
            engine = loaded.engine(longest_tokens=longest_tokens, count=count)
            for result in engine.run(prompts):
                if isinstance(result, Completion):
                    yield result.key, self._reply(result)
                else:
                    yield result.key, result.error

    def _load(self, placement: Placement) -> LoadedJudge:
        from mmie_tasks.judges.mmie_score.loading import LoadedJudge

        if self._loaded is None:
            self._loaded = LoadedJudge(self.checkpoint, placement)
        return self._loaded

    def _reply(self, completion: Completion) -> JudgeReply:
        tokenizer = self.checkpoint.tokenizer
        text = inputs.reply_text(tokenizer.decode(completion.output))
        offsets = tokenizer.digit_offsets(completion.output, text)
        recorded = [index for index in completion.digits if index in offsets]
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
                DigitToken(offset=offsets[index], logprobs=completion.digits[index])
                for index in recorded
            ),
        )

    def close(self) -> None:
        """Release all memory. Later requests load the weights again."""
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None


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
