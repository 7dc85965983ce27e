"""The judge MMIE-Score: in this process, on a server that it starts, or on one at `base_url`."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger
from pydantic import PositiveFloat, PositiveInt

from mmie_tasks.hub.asset import Asset, Check, installed_asset
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeOptions,
    JudgeRequest,
    Outcome,
    RequestCounts,
)
from mmie_tasks.judges.mmie_score import DEFAULT_MODEL, MODEL_VARIABLE, devices, exact, serve
from mmie_tasks.judges.mmie_score.checkpoint import (
    Checkpoint,
    CheckpointLocation,
    locate,
    open_checkpoint,
)
from mmie_tasks.judges.mmie_score.checkpoint.source import checkpoint_assets
from mmie_tasks.judges.mmie_score.devices import DtypeOption
from mmie_tasks.judges.mmie_score.inputs import JudgePrompt, control_strings, prepare, reply_text
from mmie_tasks.judges.mmie_score.served import ServedMmieScore, served_name, served_signature
from mmie_tasks.judges.mmie_score.server import JudgeServer
from mmie_tasks.record.reply import JudgeReply, Usage

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.transformers_engine import Completion, TransformersEngine

# With 4.57 the model cannot be built: `Phi3Config` has no `rope_parameters`. And
# `InternVLModel.get_image_features` returns a tensor there, not an object with `pooler_output`.
_OLDEST_TRANSFORMERS = 5
_OTHER_ENVIRONMENT = (
    "keep this environment for the tested model, and judge in a second one, where `pip install "
    "'mmie-tasks[vllm]'` (on a GPU) or `pip install 'mmie-tasks[mmie-score]'` was run: "
    "`serve=/second/bin/mmie-tasks` starts vLLM's server there; or run the model here with "
    "`--predict_only --output_path OUT --log_samples`, and score its answers there with `--model "
    "predictions --model_args path=OUT` and the same `--tasks`; or choose another judge"
)


class MmieScoreOptions(JudgeOptions):
    """The options of the judge `mmie_score`; the README of this folder describes them."""

    model: str | None = None
    revision: str | None = None
    base_url: str | None = None
    serve: str = "auto"
    device: str = "auto"
    dtype: DtypeOption = "auto"
    max_rows: PositiveInt | None = None
    max_concurrency: PositiveInt = 256
    timeout: PositiveFloat = 600.0
    patience: PositiveFloat = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How a judge computes.

    Attributes:
        program: The program that serves by vLLM: ``mmie-tasks``; empty for this process.
        device: Of this process, or the first of the server.
        reason: Why this way, in a few words.
    """

    program: tuple[str, ...]
    device: torch.device
    reason: str


class MmieScoreJudge(Judge):
    """MMIE-Score in this process, or on a server that it starts.

    Nothing is loaded until the first request, since the tested model needs the memory; it stays
    until `close`. `environment` contains ``MMIE_SCORE_MODEL``, ``LOCAL_RANK`` and other variables
    of launchers.
    """

    Options = MmieScoreOptions
    in_process = True

    def __init__(self, options: MmieScoreOptions, environment: Mapping[str, str]) -> None:
        self.options: MmieScoreOptions = options
        self.environment = environment
        self._model = options.model or environment.get(MODEL_VARIABLE) or DEFAULT_MODEL
        self._compute_lock = threading.Lock()
        self._engine: TransformersEngine | None = None
        self._server: JudgeServer | None = None
        self._served: ServedMmieScore | None = None
        self._machine: str | None = None
        self._before_loading: Callable[[], object] = lambda: None

    @classmethod
    def open(cls, options: MmieScoreOptions, environment: Mapping[str, str]) -> Judge:
        """This judge, or with `base_url` the one on that server; sends no request."""
        if options.base_url is None:
            return cls(options, environment)
        return ServedMmieScore(
            options.base_url,
            options.model or "",
            environment,
            max_concurrency=options.max_concurrency,
            timeout_s=options.timeout,
            patience_s=options.patience,
        )

    @cached_property
    def checkpoint(self) -> Checkpoint:
        """Raises like `locate` and `open_checkpoint`."""
        return open_checkpoint(locate(self._model, self.options.revision))

    @cached_property
    def way(self) -> Way:
        """How to compute; neither imports vLLM nor starts CUDA. Raises `JudgeMisconfigured` if the
        device or the program does not exist, or this process has not the libraries.
        """
        options = self.options
        device = devices.choose_device(options.device, self.environment)
        if options.serve not in ("auto", "no"):
            if (path := shutil.which(Path(options.serve).expanduser())) is None:
                raise JudgeMisconfigured(
                    f"`serve={options.serve}` is not a program.",
                    hint="the path of `mmie-tasks` in an environment with `mmie-tasks[vllm]`: "
                    "`serve=/environment/bin/mmie-tasks`; or `serve=no`",
                )
            return Way(program=(path,), device=device, reason=f"`serve={options.serve}`")
        if options.serve == "no":
            problem = "`serve=no`"
        elif device.type == "cpu":
            problem = "`cpu` is not a GPU"
        elif not (problem := serve.problem_of_vllm()) and not serve.has_gpu_build():
            problem = "this build of vLLM computes on CPUs only"
        if not problem:
            program = (sys.executable, "-m", "mmie_tasks")
            return Way(program=program, device=device, reason="vLLM is installed, and a GPU there")
        check_libraries()
        return Way(program=(), device=device, reason=problem)

    @property
    def signature(self) -> Mapping[str, object]:
        """The checkpoint's content, and how it is computed. Raises like `checkpoint` and `way`."""
        digest, way = self.checkpoint.digest, self.way
        if way.program:
            return served_signature(served_name(digest, self.options.dtype))
        return {
            "judge": "mmie_score",
            "model": served_name(digest),
            "dtype": devices.dtype_name(devices.choose_dtype(self.options.dtype, way.device)),
            "device": way.device.type,
            "engine": f"transformers {version('transformers')}",
            "stop": "end",
        }

    def machine(self) -> str | None:
        """What computed, for the provenance of a run; None before it is loaded."""
        return self._machine

    def counts(self) -> RequestCounts | None:
        """See `Judge.counts`."""
        return self._served.counts() if self._served else None

    def assets(self) -> Sequence[Asset]:
        """The judge's packages and its checkpoint; raises like `checkpoint.source.locate`."""
        packages = installed_asset("mmie_score: packages", "its packages", self._describe_packages)
        return [packages, *checkpoint_assets(self._model, self.options.revision, self._checks)]

    def _describe_packages(self) -> str:
        if self.way.program:
            return f"`{' '.join(self.way.program)} serve`"
        names = ("torch", "transformers", "sentencepiece", "safetensors", "pillow")
        try:
            return ", ".join(f"{name} {version(name)}" for name in names)
        except PackageNotFoundError as error:
            raise JudgeMisconfigured(
                f"{error.name} is not installed.", hint=f"`pip install {error.name}`"
            ) from error

    def _checks(self, location: Callable[[], CheckpointLocation]) -> Sequence[Check]:
        checkpoint = cache(lambda: open_checkpoint(location()))
        return (
            Check(subject="mmie_score: files", describe=lambda: checkpoint().description()),
            Check(subject="mmie_score: device", describe=self._describe_way),
        )

    def _describe_way(self) -> str:
        """Which way, why, and what the other one would cost."""
        way = self.way
        if way.program:
            return (
                f"on {way.device.type}, by a server of vLLM that the run starts ({way.reason}); "
                "`serve=no` would compute in this process, which is slower (on a GPU: not measured)"
            )
        return (
            f"in this process on {way.device}, by transformers {version('transformers')} "
            f"({way.reason}); vLLM, by `serve=` or `base_url=`, is faster (on a GPU: not measured)"
        )

    def check(self, max_images: int = 0) -> None:  # noqa: ARG002 - as `Judge.check`
        """Check the checkpoint's files and the device, without reading weights.

        CUDA is neither started nor made unusable for forked processes: the tested model may still
        have to fork.

        Raises:
            JudgeMisconfigured: The checkpoint, the device or the program cannot be used.
        """
        way = self._describe_way()  # first: without the libraries no checkpoint is downloaded
        text = f"The judge is MMIE-Score, {self.checkpoint.location.name}, {way}."
        if self.way.device.type == "cpu":
            text += " On a CPU, its 4 billion weights are slow."
        logger.warning(text)  # `mmie-tasks score` shows no lower level

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function to call right before anything is loaded."""
        self._before_loading = callback

    def stop(self) -> None:
        """See `Judge.stop`; what is computed in this process is not stopped."""
        if self._served is not None:
            self._served.stop()
        elif self._server is not None:
            self._server.stop()

    def close(self) -> None:
        """Release all memory, and end the server; later requests load the weights again."""
        with self._compute_lock:
            if self._engine is not None:
                self._engine.close()
            if self._server is not None:
                self._server.close()
            self._engine = self._server = self._served = None

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it is finished; calls from several threads are
        served in turn.
        """
        with self._compute_lock:
            try:
                yield from self._outcomes(requests) if requests else ()
            except JudgeMisconfigured as error:
                # The tested model has answered by now; its answers must not be lost.
                logger.error(str(error))
                for index in range(len(requests)):
                    yield index, error

    def _outcomes(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        if self._engine is None and self._served is None:
            self._before_loading()
        if self.way.program:
            self._served = self._served or self._started()
            yield from self._served.ask(requests)
        else:
            with exact.exact_arithmetic():
                self._engine = self._engine or self._loaded()
                yield from self._computed(self._engine, requests)
        _log_control_strings(requests, self.checkpoint.tokenizer.added)

    def _loaded(self) -> TransformersEngine:
        import torch

        from mmie_tasks.judges.mmie_score.transformers_engine import TransformersEngine

        device = self.way.device
        engine = TransformersEngine.start(
            self.checkpoint,
            device=device,
            dtype=devices.choose_dtype(self.options.dtype, device),
            max_rows=self.options.max_rows,
        )
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
        self._machine = f"{name}, torch {torch.__version__}"
        return engine

    def _computed(
        self, engine: TransformersEngine, requests: Sequence[JudgeRequest]
    ) -> Iterator[tuple[int, Outcome]]:
        unusable: list[tuple[int, JudgeError]] = []

        def prompts() -> Iterator[JudgePrompt]:
            for prompt in prepare(requests, self.checkpoint):
                if isinstance(prompt, JudgePrompt):
                    yield prompt
                else:
                    unusable.append(prompt)

        for key, result in engine.run(prompts()):
            yield key, result if isinstance(result, JudgeError) else self._reply(result)
        yield from unusable

    def _reply(self, completion: Completion) -> JudgeReply:
        return JudgeReply(
            text=reply_text(self.checkpoint.tokenizer.decode(completion.output)),
            model=served_name(self.checkpoint.digest),
            usage=Usage(
                input_tokens=completion.prompt_tokens,
                output_tokens=len(completion.output),
                cost_usd=0.0,
            ),
            finish=completion.finish,
        )

    def _started(self) -> ServedMmieScore:
        """The judge on a server that is started now."""
        options, variables = [], {**os.environ}
        if gpus := devices.gpus_of_process(self.options.device, self.environment):
            variables["CUDA_VISIBLE_DEVICES"] = devices.cuda_names(gpus, variables)
            options += ["--data-parallel-size", str(len(gpus))] if len(gpus) > 1 else []
            if share := devices.free_share(gpus):
                options += ["--gpu-memory-utilization", f"{share:.2f}"]
        if self.options.dtype != "auto":
            options += ["--dtype", self.options.dtype]
        folder = str(self.checkpoint.location.folder)
        self._server = JudgeServer([*self.way.program, "serve", folder, *options], variables)
        name = self.checkpoint.location.name
        logger.info(f"Starting vLLM with MMIE-Score, {name}, on {self.way.device.type}: minutes.")
        self._server.start()
        served = ServedMmieScore(
            self._server.base_url,
            served_name(self.checkpoint.digest, self.options.dtype),
            {**self.environment, "JUDGE_API_KEY": "EMPTY"},
            max_concurrency=self.options.max_concurrency,
            timeout_s=self.options.timeout,
            patience_s=self.options.patience,
        )
        served.check()
        self._machine = served.machine()
        return served


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
            hint=_OTHER_ENVIRONMENT,
        )
    if not is_torch_available():  # false if torch is too old for transformers
        raise JudgeMisconfigured(
            f"transformers {installed} does not use torch {version('torch')}: it is too old.",
            hint=f"torch 2.6 or newer; or {_OTHER_ENVIRONMENT}",
        )


def _log_control_strings(requests: Sequence[JudgeRequest], added: Sequence[str]) -> None:
    by_request = [
        strings for request in requests if (strings := control_strings(request.parts, added))
    ]
    if not by_request:
        return
    counts = Counter(string for strings in by_request for string in strings)
    listed = ", ".join(f"`{string}` in {count}" for string, count in counts.most_common())
    logger.warning(
        f"{len(by_request)} of {len(requests)} requests hold control strings of the judge, and "
        f"were read as the official code reads them: {listed}."
    )
