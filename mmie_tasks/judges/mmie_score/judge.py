"""The judge MMIE-Score: computes all requests of a call together, in this process or by Ray."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from loguru import logger
from pydantic import PositiveInt

from mmie_tasks.core.log import warn
from mmie_tasks.hub.asset import Asset, Check, installed_asset
from mmie_tasks.judges.base import Judge, JudgeMisconfigured, JudgeOptions, JudgeRequest, Outcome
from mmie_tasks.judges.mmie_score import memory
from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint, CheckpointLocation, open_checkpoint
from mmie_tasks.judges.mmie_score.checkpoint.source import (
    DEFAULT_MODEL,
    MODEL_VARIABLE,
    checkpoint_assets,
    is_repository,
)
from mmie_tasks.judges.mmie_score.devices import DtypeOption
from mmie_tasks.judges.mmie_score.inputs import InputBuilder, control_strings
from mmie_tasks.judges.mmie_score.local import (
    EngineOption,
    LocalJudge,
    LocalOptions,
    check_libraries,
)
from mmie_tasks.judges.mmie_score.ray_engines import (
    INSTALL_RAY,
    RayEngines,
    engine_limit,
    idle_gpus,
)
from mmie_tasks.judges.mmie_score.request_queue import longest_first
from mmie_tasks.record.signature import signature_text

_PACKAGES = ("torch", "transformers", "sentencepiece", "safetensors", "pillow", "psutil")


class MmieScoreOptions(JudgeOptions):
    """The options of the judge `mmie_score`; the README of this folder describes them."""

    model: str | None = None
    revision: str | None = None
    device: str = "auto"
    dtype: DtypeOption = "auto"
    engine: EngineOption = "auto"
    batch_invariant: bool = False
    max_memory: str | None = None
    max_rows: PositiveInt = 64
    engines: str = "auto"


class MmieScoreJudge(Judge):
    """MMIE-Score on one device of this process, or on many GPUs by Ray.

    Nothing is loaded until the first request, since the tested model needs the memory; the weights
    stay until `close`. `environment` contains ``MMIE_SCORE_MODEL``, ``RAY_ADDRESS``,
    ``LOCAL_RANK`` and other variables of launchers.
    """

    Options = MmieScoreOptions
    in_process = True

    def __init__(self, options: MmieScoreOptions, environment: Mapping[str, str]) -> None:
        max_memory = options.max_memory
        self.options = LocalOptions(
            model=options.model or environment.get(MODEL_VARIABLE) or DEFAULT_MODEL,
            revision=options.revision,
            device=options.device,
            dtype=options.dtype,
            engine=options.engine,
            batch_invariant=options.batch_invariant,
            max_memory_bytes=None if max_memory is None else memory.parse_bytes(max_memory),
            max_rows=options.max_rows,
        )
        self.local = LocalJudge(self.options, environment)
        limit = engine_limit(options.engines, options.device, environment)
        self._ray = RayEngines(limit=limit, device=options.device, environment=environment)
        self._environment = environment
        self._compute_lock = threading.Lock()
        self._open_lock = threading.RLock()
        self._uses_ray = False
        self._settled: Mapping[str, object] | None = None
        self._has_room = self._has_counted_idle = False
        self._before_loading: Callable[[], object] = lambda: None

    @property
    def signature(self) -> Mapping[str, object]:
        """The checkpoint's content, and how it is computed; before `settle`, how it likely will be.

        Starts no engine, since the tested model may fill the GPUs.
        """
        with self._open_lock:
            return self._settled or self._likely_signature()

    def _likely_signature(self) -> Mapping[str, object]:
        if self.has_device() or self.options.device != "auto" or not self.ray_gpus():
            return self.local.signature()
        import torch

        return self.local.signature(torch.device("cuda"))

    def settle(self) -> None:
        """Fix the signature by starting CUDA, after the tested model has been freed; raises
        `JudgeMisconfigured` if no device or engine can be used or has enough memory.
        """
        if self._settled is None:
            with self._compute_lock:
                self._settle()

    def _settle(self) -> None:
        if self._settled is not None:
            return
        likely = self.signature
        self._make_room()
        with self._open_lock:
            gpus = self.ray_gpus()
        self._uses_ray = gpus > 0
        if self._uses_ray:
            settled = self._ray.start(
                self._engine_options(), number=gpus, max_rows=self.options.max_rows
            )
        else:
            self.local.start()
            settled = self.local.signature()
        if settled != likely:
            expected, actual = signature_text(**likely), signature_text(**settled)
            logger.warning(
                f"MMIE-Score computes otherwise than was expected: its signature is `{actual}`, "
                f"not `{expected}`. Single tokens of replies may differ between the two, and each "
                "has its own replies in the cache."
            )
        self._settled = settled

    def _make_room(self) -> None:
        """Have the tested model freed once before each loading."""
        if not self._has_room:
            self._before_loading()
            self._has_room = True

    def machine(self) -> str | None:
        """GPUs and versions that compute, for the provenance of a run; None before they start."""
        return (self._ray if self._uses_ray else self.local).machine()

    def has_device(self) -> bool:
        """Whether this process has the device; false if only other machines have GPUs. CUDA is not
        started.
        """
        import torch

        return self.options.device == "cpu" or torch.cuda.device_count() > 0

    def _engine_options(self) -> dict[str, object]:
        folder = self.local.checkpoint.location.folder
        in_hub = is_repository(self.options.model)  # its snapshots are named by the commit
        options = replace(
            self.options,
            model=self.options.model if in_hub else str(folder),
            revision=folder.name if in_hub else None,
            device="cuda" if self.options.device == "auto" else self.options.device,
        )
        return asdict(options)

    def ray_gpus(self) -> int:
        """How many GPUs of Ray would compute now; 0 if this process would. Raises like
        `RayEngines.gpus`.
        """
        return self._ray.gpus()

    def assets(self) -> Sequence[Asset]:
        """The judge's packages and its checkpoint; raises like `checkpoint.source.locate`."""
        packages = installed_asset("mmie_score: packages", ", ".join(_PACKAGES), _describe_packages)
        model, revision = self.options.model, self.options.revision
        return [packages, *checkpoint_assets(model, revision, self._checks)]

    def _checks(self, location: Callable[[], CheckpointLocation]) -> Sequence[Check]:
        def opened() -> Checkpoint:
            check_libraries()
            return open_checkpoint(location())

        checkpoint = cache(opened)
        return (
            Check(subject="mmie_score: files", describe=lambda: checkpoint().description()),
            Check(
                subject="mmie_score: memory", describe=lambda: self._describe_memory(checkpoint())
            ),
        )

    def _describe_memory(self, checkpoint: Checkpoint) -> str:
        """What is computed at once, in how much memory, and by which engine."""
        gpus = self.ray_gpus()
        if gpus and not self.has_device():
            return (
                f"{gpus} engines, on the GPUs of Ray; this machine has none, so their memory "
                "is not checked"
            )
        engines = f"{gpus} engines, on the GPUs of Ray" if gpus else "one engine, in this process"
        return f"{self.local.capacity(checkpoint)}; {engines}"

    def check(self, max_images: int = 0) -> None:  # noqa: ARG002 - as `Judge.check`
        """Check the checkpoint's files and the device, without reading weights.

        CUDA is neither started nor made unusable for forked processes: the tested model may still
        have to fork.

        Raises:
            JudgeMisconfigured: The checkpoint, the device or the engine cannot be used.
            DataMissing: The checkpoint could not be downloaded.
        """
        with self._open_lock:
            name = self.local.checkpoint.location.name
            self._likely_signature()  # raises if the engine cannot be used
            if gpus := self.ray_gpus():
                logger.info(f"The judge is MMIE-Score, {name}, on {gpus} GPUs by Ray.")
                return
            device = self.local.device()
        logger.info(f"The judge is MMIE-Score, {name}, on {device}.")
        if device.type == "cpu":
            logger.warning("MMIE-Score on a CPU is slow: it is a model of 4 billion weights.")
        if not self._has_counted_idle and (
            idle := idle_gpus(self.options.device, self._environment)
        ):
            warn(f"{idle} GPUs of this machine are idle while MMIE-Score judges.", hint=INSTALL_RAY)
        self._has_counted_idle = True

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function to call right before anything is loaded."""
        self._before_loading = callback

    def close(self) -> None:
        """Release all memory; later requests load the weights again."""
        with self._compute_lock:
            self._has_room = False
            self.local.close()
            self._ray.close()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request as it is finished, the longest begun first; calls from
        several threads are served in turn.
        """
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
        order = longest_first(InputBuilder(self.local.checkpoint), requests)
        self._settle()
        self._make_room()
        yield from (self._ray if self._uses_ray else self.local).ask(requests, order)
        _log_control_strings(requests, self.local.checkpoint.tokenizer.added)


def _describe_packages() -> str:
    try:
        installed = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    except PackageNotFoundError as error:
        raise JudgeMisconfigured(
            f"{error.name} is not installed.", hint=f"`pip install {error.name}`"
        ) from error
    check_libraries()
    return installed


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
