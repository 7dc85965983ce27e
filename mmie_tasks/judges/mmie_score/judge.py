"""The judge MMIE-Score: answers all requests of a call together, on a device of this process or on GPUs of Ray."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.asset import Asset, Check, installed_asset
from mmie_tasks.judges.base import DigitToken, JudgeMisconfigured, JudgeReply, JudgeRequest, Outcome, Usage
from mmie_tasks.judges.mmie_score import devices, inputs
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, locate, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.source import (
    DEFAULT_MODEL,
    MODEL_VARIABLE,
    checkpoint_assets,
    is_repository,
)
from mmie_tasks.judges.mmie_score.cluster import EnginePool
from mmie_tasks.judges.mmie_score.devices import AttentionOption, DtypeOption, Placement
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, PromptPreparer, RequestQueue
from mmie_tasks.judges.mmie_score.ray_session import INSTALL_RAY, choose_session, engine_limit, idle_gpus

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.schedule import Completion
    from mmie_tasks.judges.mmie_score.loading import LoadedJudge

_PACKAGES = ("transformers", "sentencepiece", "safetensors", "pillow", "psutil")
# With 4.57 the model cannot be built: `Phi3Config` has no `rope_parameters`. And
# `InternVLModel.get_image_features` returns a tensor there, not an object with `pooler_output`.
_OLDEST_TRANSFORMERS = 5
_SECOND_ENVIRONMENT = (
    "keep this environment for the tested model and judge in a second one: run the model here with `--predict_only "
    "--output_path OUT --log_samples`; then, where `pip install 'mmie-tasks[mmie-score]'` was run, score its answers "
    "with `--model predictions --model_args path=OUT` and the same `--tasks`; or choose another judge"
)
_PREPARED_REQUESTS = 24  # handed out to an engine of Ray beyond its rows: see `_MAX_AHEAD` in `inputs`
_LENGTH_MARGIN = 16  # tokens; an estimated length lacks those of the marks around images


class MmieScoreJudge:
    """MMIE-Score on one device of this process, or on many GPUs by Ray.

    Nothing is loaded until the first request, and the weights stay until `close`: before that, the memory belongs to
    the tested model. The page of this folder describes the options; `environment` has ``MMIE_SCORE_MODEL``,
    ``RAY_ADDRESS``, ``LOCAL_RANK`` and other variables of launchers, and what our cache folder depends on.

    Raises:
        JudgeMisconfigured: A value makes no sense.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        revision: str | None = None,
        device: str = "auto",
        dtype: DtypeOption = "auto",
        attention: AttentionOption = "auto",
        max_memory: str | None = None,
        max_rows: int = 64,
        graphs: bool = True,
        engines: str = "auto",
        deadline_s: float = 900.0,
        environment: Mapping[str, str],
    ) -> None:
        for name, value, minimum in (("max_rows", max_rows, 1), ("deadline_s", deadline_s, 1e-3)):
            if value < minimum:
                message = f"`{name}={value}` leaves nothing to compute."
                raise JudgeMisconfigured(message, hint=f"{minimum} or more, or leave it out")
        self.model = model or environment.get(MODEL_VARIABLE) or DEFAULT_MODEL
        self.revision = revision
        self.device, self.dtype, self.attention = device, dtype, attention
        self.max_memory_bytes = None if max_memory is None else devices.parse_bytes(max_memory)
        self.max_rows, self.graphs = max_rows, graphs
        self.engine_limit, self.deadline_s = engine_limit(engines, device, environment), deadline_s
        self._environment = environment
        self._compute_lock = threading.Lock()
        self._open_lock = threading.RLock()
        self._loaded: LoadedJudge | None = None
        self._pool: EnginePool | None = None
        self._has_counted_idle = False
        self._before_loading: Callable[[], object] = lambda: None

    @property
    def signature(self) -> str:
        """The checkpoint's content, and how it is computed; if only Ray has a GPU, by its first engine."""
        with self._open_lock:
            if not self.has_device() and (pool := self._open_pool()) is not None:
                return pool.signature()
            placement = self._placement
            return (
                f"judge:mmie_score|model:MMIE-Score@{self._checkpoint.digest}|dtype:{placement.dtype_name}"
                f"|device:{placement.device.type}|attention:{placement.attention.name}|stop:end"
            )

    @cached_property
    def _checkpoint(self) -> Checkpoint:
        return open_checkpoint(locate(self.model, self.revision, self._environment))

    @cached_property
    def _placement(self) -> Placement:
        return self.placement(self._checkpoint)

    def has_device(self) -> bool:
        """Whether this process has the device: not on a machine without GPUs whose engines are elsewhere."""
        import torch

        return self.device == "cpu" or torch.cuda.is_available()

    def _open_pool(self) -> EnginePool | None:
        """The engines of Ray, not started; None: this process computes."""
        if self._pool is None and self._loaded is None:
            session = choose_session(self.engine_limit, self.device, self._environment)
            if session is not None:
                self._pool = EnginePool(
                    session,
                    self._engine_options(),
                    signature=self.signature if self.has_device() else None,
                    limit=self.engine_limit,
                    max_in_flight=self.max_rows + _PREPARED_REQUESTS,
                    deadline_s=self.deadline_s,
                    before_start=lambda: self._before_loading(),
                )
        return self._pool

    def _engine_options(self) -> dict[str, object]:
        folder = self._checkpoint.location.folder
        in_hub = is_repository(self.model)  # its snapshots are named by the commit
        return {
            "model": self.model if in_hub else str(folder),
            "revision": folder.name if in_hub else None,
            "device": "cuda" if self.device == "auto" else self.device,
            "dtype": self.dtype,
            "attention": self.attention,
            "max_memory": None if self.max_memory_bytes is None else str(self.max_memory_bytes),
            "max_rows": self.max_rows,
            "graphs": self.graphs,
            "engines": "1",
        }

    def ray_gpus(self) -> int:
        """How many GPUs of Ray will compute, at this moment; 0: this process computes. Raises like `check`."""
        session = choose_session(self.engine_limit, self.device, self._environment)
        if session is None:
            return 0
        with closing(session):
            return min(session.gpus(), self.engine_limit or sys.maxsize)

    def placement(self, checkpoint: Checkpoint) -> Placement:
        """Where and how a checkpoint is computed; raises if the device cannot be used."""
        device = devices.choose_device(self.device, self._environment)
        dtype = devices.choose_dtype(self.dtype, device)
        text = checkpoint.config.llm_config
        chosen = devices.choose_attention(self.attention, device=device, dtype=dtype, config=text)
        return Placement(
            device=device,
            dtype=dtype,
            attention=chosen.attention,
            attention_reason=chosen.reason,
            max_memory_bytes=self.max_memory_bytes,
            max_rows=self.max_rows,
            graphs=self.graphs,
            fixed=device.type == "cuda",
        )

    @property
    def captured(self) -> bool:
        """Whether decoding steps are replayed from a CUDA graph."""
        return self._loaded is not None and self._loaded.captured

    def assets(self) -> Sequence[Asset]:
        """The judge's Python packages, and the checkpoint that its options name; raises like `locate`."""
        packages = installed_asset("mmie_score: packages", ", ".join(_PACKAGES), _describe_packages)
        return [packages, *checkpoint_assets(self.model, self.revision, self._environment, self._checks)]

    def _checks(self, location: Callable[[], CheckpointLocation]) -> Sequence[Check]:
        checkpoint = cache(lambda: open_checkpoint(location()))
        return (
            Check(subject="mmie_score: files", describe=lambda: checkpoint().description()),
            Check(subject="mmie_score: memory", describe=lambda: self._describe_memory(checkpoint())),
        )

    def _describe_memory(self, checkpoint: Checkpoint) -> str:
        """How many long requests fit into memory at once, and which attention is used and why; raises if none fits."""
        gpus = self.ray_gpus()
        if gpus and not self.has_device():
            return f"{gpus} engines, on the GPUs of Ray; this machine has none, so their memory is not checked"
        engines = f"; {gpus} engines, on the GPUs of Ray" if gpus else "; one engine, in the process of the run"
        placement = self.placement(checkpoint)
        limit = self.max_memory_bytes or devices.device_bytes(placement.device)
        free = min(devices.free_bytes(placement.device), limit)
        longest = min(devices.LONG_TOKENS, checkpoint.config.llm_config.max_position_embeddings)
        budget = devices.plan(
            checkpoint, placement, rows=self.max_rows, tokens=longest, free_bytes=free, device_bytes=limit
        )
        return (
            f"{readable_size(free)} free on {placement.device}: {min(budget.rows, budget.longest_rows)} requests of "
            f"{longest:,} tokens fit at once, in {placement.dtype_name}; attention {placement.attention.name}: "
            f"{placement.attention_reason}{engines}"
        )

    def check(self) -> None:
        """Check the checkpoint's files and the device, without reading weights.

        CUDA is not started: the tested model may still have to fork.

        Raises:
            JudgeMisconfigured: The checkpoint or the device cannot be used.
            DataMissing: The checkpoint could not be downloaded.
        """
        with self._open_lock:
            check_transformers(version("transformers"))
            name = self._checkpoint.location.name
            if gpus := self.ray_gpus():
                logger.info(f"The judge is MMIE-Score, {name}, on {gpus} GPUs by Ray.")
                return
            device = devices.choose_device(self.device, self._environment)
        logger.info(f"The judge is MMIE-Score, {name}, on {device}.")
        if device.type == "cpu":
            logger.warning("MMIE-Score on a CPU is slow: it is a model of 4 billion weights.")
        if not self._has_counted_idle and (idle := idle_gpus(self.device, self._environment)):
            logger.warning(f"{idle} GPUs of this machine are idle while MMIE-Score judges. hint: {INSTALL_RAY}")
        self._has_counted_idle = True

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function that is called right before the weights are loaded."""
        self._before_loading = callback

    def close(self) -> None:
        """Release all memory. Later requests load the weights again."""
        with self._compute_lock:
            if self._loaded is not None:
                self._loaded.close()
                self._loaded = None
            if self._pool is not None:
                self._pool.close()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it is finished, longest first; calls of threads are served in turn."""
        with self._compute_lock:
            try:
                yield from self._outcomes(requests)
            except JudgeMisconfigured as error:
                # The tested model has answered by now; its answers must not be lost.
                logger.error(str(error))
                for index in range(len(requests)):
                    yield index, error

    def _outcomes(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        if not requests:
            return
        lengths = self.lengths(requests)
        with self._open_lock:
            pool = self._open_pool()
        if pool is not None:
            yield from pool.ask(requests, lengths)
        else:
            yield from self.serve(RequestQueue.of(requests, lengths), longest_tokens=max(lengths), count=len(requests))
        _log_control_strings(requests, self._checkpoint.tokenizer.added)

    def lengths(self, requests: Sequence[JudgeRequest]) -> list[int]:
        """Tokens of each request with its longest reply, about, by the headers of its images; raises like `check`."""
        with self._open_lock:
            checkpoint = self._checkpoint
        builder, max_positions = InputBuilder(checkpoint), checkpoint.config.llm_config.max_position_embeddings
        return [
            _LENGTH_MARGIN + min(builder.length(request), max_positions) + request.max_tokens for request in requests
        ]

    def serve(
        self, source: RequestQueue, *, longest_tokens: int, count: int | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcome of every request of a source, by its key, until the source has no more.

        For one thread at a time; raises like `check`. On a GPU neither argument changes a reply: a step has the same
        shapes whatever is to come. On a CPU, memory is planned for them.

        Args:
            source: Supplies the requests, the longest first if it can.
            longest_tokens: Of the longest request with its reply.
            count: The most requests that the source holds at a time.
        """
        from mmie_tasks.judges.mmie_score.engine.schedule import Completion

        with self._open_lock:
            checkpoint = self._checkpoint
        with devices.exact_fp32(), closing(PromptPreparer(InputBuilder(checkpoint), source)) as prompts:
            loaded = self._load()
            engine = loaded.engine(longest_tokens=longest_tokens, count=count or self.max_rows)
            for result in engine.run(prompts):
                if isinstance(result, Completion):
                    yield result.key, self._reply(result)
                else:
                    yield result.key, result.error

    def _load(self) -> LoadedJudge:
        from mmie_tasks.judges.mmie_score.loading import LoadedJudge

        if self._loaded is None:
            check_transformers(version("transformers"))
            self._before_loading()
            with self._open_lock:
                self._loaded = LoadedJudge(self._checkpoint, self._placement)
        return self._loaded

    def _reply(self, completion: Completion) -> JudgeReply:
        tokenizer = self._checkpoint.tokenizer
        text = inputs.reply_text(tokenizer.decode(completion.output))
        offsets = tokenizer.digit_offsets(completion.output, text)
        recorded = [index for index in completion.digits if index in offsets]
        return JudgeReply(
            text=text,
            model=f"MMIE-Score@{self._checkpoint.digest}",
            usage=Usage(input_tokens=completion.prompt_tokens, output_tokens=len(completion.output), cost_usd=0.0),
            finish=completion.finish,
            digits=tuple(DigitToken(offset=offsets[index], logprobs=completion.digits[index]) for index in recorded),
        )


def _describe_packages() -> str:
    try:
        check_transformers(version("transformers"))
        return ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as error:
        raise JudgeMisconfigured(f"{error.name} is not installed.", hint=f"`pip install {error.name}`") from error


def check_transformers(installed: str) -> None:
    """Raise `JudgeMisconfigured` if the installed version of transformers cannot build the judge's model.

    The hint is not ``pip install -U transformers``: a tested model whose code needs version 4 would break.
    """
    if int(installed.partition(".")[0]) < _OLDEST_TRANSFORMERS:
        raise JudgeMisconfigured(
            f"The judge MMIE-Score needs transformers {_OLDEST_TRANSFORMERS} or newer, and {installed} is installed.",
            hint=_SECOND_ENVIRONMENT,
        )


def _log_control_strings(requests: Sequence[JudgeRequest], added: Sequence[str]) -> None:
    """Log how many requests contain control strings of the judge, and which."""
    by_request = [strings for request in requests if (strings := inputs.control_strings(request.parts, added))]
    if not by_request:
        return
    counts = Counter(string for strings in by_request for string in strings)
    listed = ", ".join(f"`{string}` in {count}" for string, count in counts.most_common())
    logger.warning(
        f"{len(by_request)} of {len(requests)} requests hold control strings of the judge, and "
        f"were read as the official code reads them: {listed}."
    )
