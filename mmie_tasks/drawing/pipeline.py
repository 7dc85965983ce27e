"""Draws with a text-to-image pipeline of diffusers in this process: one pipeline a device.

A picture depends on its prompt and seed, and not on the run: its noise comes from a generator of its own on the CPU,
and every batch has the same shape, since the last one is filled up with copies of its last prompt. Which models are
refused, and why: `pipeline_files`.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import re
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loguru import logger
from pydantic import NonNegativeInt, PositiveInt

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.drawing.base import (
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    DrawingError,
    Picture,
    PictureRequest,
    PictureUnusable,
)
from mmie_tasks.drawing.pictures import MAX_SIDE_PX, parse_size, png_of
from mmie_tasks.drawing.pipeline_files import PIPELINE_ERRORS, PipelineFiles, Untyped, download_pipeline, first_line
from mmie_tasks.hub.download import is_revision

if TYPE_CHECKING:
    import torch

Dtype: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]
Outcome: TypeAlias = tuple[int, Picture | DrawingError]
Batch: TypeAlias = list[Picture | DrawingError]

_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+", re.ASCII)
_SIDE_STEP_PX = 16  # what all pipelines draw without rounding: 8 for the autoencoder, 2 for a patch
_ARGUMENTS = {"steps": "num_inference_steps", "guidance": "guidance_scale"}


def open_drawer(
    *,
    environment: Mapping[str, str],
    model: str,
    revision: str | None = None,
    variant: str | None = None,
    size: str | None = None,
    max_side_px: NonNegativeInt = MAX_SIDE_PX,
    steps: PositiveInt | None = None,
    guidance: float | None = None,
    negative_prompt: str | None = None,
    dtype: Dtype = "auto",
    batch_size: PositiveInt | None = None,
    device: str | None = None,
) -> PipelineDrawer:
    """A drawer for a model of diffusers. Nothing is imported, downloaded or loaded yet.

    The page of this folder describes the options; `environment` has ``WORLD_SIZE`` and ``LOCAL_RANK`` of launchers.

    Raises:
        DrawerMisconfigured: A value makes no sense.
    """
    if revision is not None and not is_revision(revision):
        raise DrawerMisconfigured(f"`revision={revision}` is no branch, tag or commit.", hint="see the model's page")
    if re.fullmatch(r"cpu|cuda(:\d+)?", device or "cpu", re.ASCII) is None:
        raise DrawerMisconfigured(f"`device={device}` is not a device.", hint="`cpu`, `cuda` or `cuda:0`")
    options: dict[str, Any] = {"steps": steps, "guidance": guidance, "negative_prompt": negative_prompt}
    if size is not None:
        options["width"], options["height"] = parse_size(size, _SIDE_STEP_PX)
    return PipelineDrawer(
        model=model,
        revision=revision,
        variant=variant,
        max_side_px=max_side_px,
        options={key: value for key, value in options.items() if value is not None},
        dtype=dtype,
        batch_size=batch_size,
        device=device or "",
        environment=environment,
    )


def choose_devices(option: str, gpus: int, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The devices that draw in this process, by the option ``device``, of so many GPUs that it sees.

    Raises:
        DrawerMisconfigured: There is no such GPU.

    >>> choose_devices("", 2, {}), choose_devices("", 2, {"WORLD_SIZE": "2", "LOCAL_RANK": "1"})
    (('cuda:0', 'cuda:1'), ('cuda:1',))
    """
    number = option.partition(":")[2]
    if option == "cpu" or not (option or gpus):
        return ("cpu",)
    if not number and int(environment.get("WORLD_SIZE") or 1) > 1:
        number = (environment.get("LOCAL_RANK") if gpus > 1 else "") or "0"
    if int(number or 0) >= gpus:
        problem = f"`cuda:{number or 0}` was to draw, and this process sees {gpus} GPU(s)."
        raise DrawerMisconfigured(problem, hint="`device=cuda:0`, `device=cpu`, or start fewer processes")
    return tuple(f"cuda:{index}" for index in ([int(number)] if number else range(gpus)))


@dataclass(slots=True)
class _Drawing:
    """What the threads of one call share."""

    requests: Sequence[PictureRequest]
    starts: Iterator[int]  # of the batches that no thread has taken
    outcomes: SimpleQueue[list[Outcome] | None] = field(default_factory=SimpleQueue)  # None: a thread has ended
    stop: Event = field(default_factory=Event)
    error: DrawingError = field(default_factory=DrawerUnavailable)  # of the batches that are left


class _OutOfMemory(DrawerUnavailable):
    """The device draws nothing more."""


@dataclass(kw_only=True)
class PipelineDrawer:
    """Draws with one pipeline a device; attributes as in `open_drawer`.

    Attributes:
        options: Those that are set of ``width``, ``height``, ``steps``, ``guidance`` and ``negative_prompt``.
        cut_prompts: Prompts of the last call that are longer than the pipeline reads, without words of its own.
    """

    model: str
    revision: str | None
    variant: str | None
    max_side_px: int
    options: dict[str, str | int | float]
    dtype: Dtype
    batch_size: int | None
    device: str
    environment: Mapping[str, str] = field(repr=False)
    cut_prompts: int = 0
    _pipelines: dict[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def signature(self) -> str:
        """See `Drawer.signature`; raises like `check`.

        The name of a folder is followed by 12 hex digits of a SHA-256 over names and contents of all files that are
        loaded. They are read for it once, about a second per GB.
        """
        files = self._files
        digest = files.folder.name[:12] if files.is_in_hub else files.digest(self.variant)
        values: dict[str, object] = {"model": f"{_plain(files.name)}@{digest}", **self.options}
        if "width" in values:
            values["size"] = f"{values.pop('width')}x{values.pop('height')}"
        if "negative_prompt" in values:
            values["negative_prompt"] = hashlib.sha256(str(values["negative_prompt"]).encode()).hexdigest()[:12]
        if self.variant:
            values["variant"] = _plain(self.variant)
        values |= {"dtype": self._dtype_name, "stored": f"{self.max_side_px}px"}
        values |= {package: ".".join(version(package).split(".")[:2]) for package in ("diffusers", "torch")}
        values["device"] = self._devices[0].partition(":")[0]
        return ",".join(["diffusers", *(f"{name}={value}" for name, value in values.items())])

    def check(self) -> None:
        """See `Drawer.check`: downloads the model if need be, and looks at its components, options and devices."""
        _ = self._files, self._devices

    @cached_property
    def _files(self) -> PipelineFiles:
        if find_spec("diffusers") is None:
            raise DrawerMisconfigured("diffusers is not installed.", hint="`pip install 'mmie-tasks[diffusers]'`")
        folder = Path(self.model).expanduser()
        if not folder.is_dir() and _REPOSITORY.fullmatch(self.model):
            files = download_pipeline(self.model, self.revision or "main", self.variant)
        else:
            files = PipelineFiles(folder=folder, name=folder.absolute().name)
            if self.revision:
                raise files.error(f"`revision={self.revision}` was set for a folder", hint="leave it out")
        if unknown := self._arguments(1).keys() - inspect.signature(files.pipeline_class.__call__).parameters.keys():
            problem = f"a {files.pipeline_class.__name__} takes no {', '.join(sorted(unknown))}"
            raise files.error(problem, hint="leave out `size`, `steps`, `guidance` or `negative_prompt`")
        files.check_components(self.variant)
        return files

    @cached_property
    def _devices(self) -> tuple[str, ...]:
        import torch

        return choose_devices(self.device, torch.cuda.device_count(), self.environment)  # takes no memory of them

    @cached_property
    def _dtype_name(self) -> str:
        import torch

        if self.dtype != "auto" or self._devices == ("cpu",):
            return "float32" if self.dtype == "auto" else self.dtype
        oldest = min(torch.cuda.get_device_capability(device) for device in self._devices)
        return "bfloat16" if oldest >= (8, 0) else "float16"

    def _arguments(self, count: int) -> dict[str, object]:
        """Arguments of the pipeline for so many prompts."""
        arguments = {_ARGUMENTS.get(name, name): value for name, value in self.options.items()}
        negative = {name: [value] * count for name, value in arguments.items() if name == "negative_prompt"}
        return {"output_type": "np", **arguments, **negative}

    @property
    def _batch(self) -> int:
        return self.batch_size or (1 if self._devices == ("cpu",) else 4)

    def draw(self, requests: Sequence[PictureRequest]) -> Generator[Outcome, None, None]:
        """See `Drawer.draw`. All pipelines are loaded before the first picture is drawn, and stay until `close`.

        A batch on which the pipeline fails has errors as outcomes, and the others go on. If the first batch of a
        device fails twice with one error, nothing more is drawn; a device without memory draws nothing more.
        """
        if not requests:
            return
        import torch

        try:
            starts = range(0, len(requests), self._batch)
            pipelines = self._load(len(starts))
        except DrawingError as error:
            yield from ((index, error) for index in range(len(requests)))
            return
        self._count_cut_prompts(pipelines[0], requests)
        drawing = _Drawing(requests, iter(starts))
        # Some writers change these flags.
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        with flags, ThreadPoolExecutor(len(pipelines)) as threads:
            try:
                futures = [threads.submit(self._draw_batches, pipeline, drawing) for pipeline in pipelines]
                for _ in futures:
                    while (outcomes := drawing.outcomes.get()) is not None:
                        yield from outcomes
            finally:
                drawing.stop.set()
            _ = [future.result() for future in futures]
        for start in drawing.starts:
            yield from ((index, drawing.error) for index in range(start, min(start + self._batch, len(requests))))

    def close(self) -> None:
        """Free the pipelines; a later `draw` loads them again."""
        self._pipelines.clear()
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _load(self, needed: int) -> list[Untyped]:
        """The pipelines of the first devices, loaded one by one: loading sets defaults of torch for all threads."""
        import torch

        for device in [device for device in self._devices[:needed] if device not in self._pipelines]:
            logger.info(f"Loading `{self._files.name}` on {device}.")
            try:
                self._pipelines[device] = self._loaded(getattr(torch, self._dtype_name)).to(device)
            except torch.cuda.OutOfMemoryError as error:
                logger.warning(f"`{self._files.name}` does not fit into the memory of {device}: {first_line(error)}")
            except PIPELINE_ERRORS as error:
                raise self._files.error(f"it could not be loaded on {device}: {first_line(error)}") from error
        if not self._pipelines:
            raise DrawerUnavailable("the pipeline does not fit into the memory of the GPU")
        return list(self._pipelines.values())[:needed]

    def _loaded(self, dtype: torch.dtype) -> Untyped:
        """The pipeline on the CPU. Weights that its files lack are random: the same every time, and with a warning."""
        import torch
        from diffusers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it repeats the end of every prompt that is cut
        files, is_old = self._files, tuple(map(int, version("diffusers").split(".")[:2])) < (0, 40)
        options = {"torch_dtype" if is_old else "dtype": dtype, "use_safetensors": True, "local_files_only": True}
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            before = torch.get_rng_state()
            pipeline = files.pipeline_class.from_pretrained(files.folder, variant=self.variant, **options)
            if not torch.equal(before, torch.get_rng_state()):
                logger.warning(f"Some weights of `{files.name}` are random: its files may be of another transformers.")
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def _count_cut_prompts(self, pipeline: Untyped, requests: Sequence[PictureRequest]) -> None:
        from transformers import PreTrainedTokenizerBase

        self.cut_prompts = 0
        default = inspect.signature(pipeline.__call__).parameters.get("max_sequence_length")  # not of CLIP
        readers: list[tuple[Untyped, int]] = []
        for name, tokenizer in pipeline.components.items():
            encoder = pipeline.components.get(name.replace("tokenizer", "text_encoder"))
            if name.startswith("tokenizer") and tokenizer is not None and encoder is not None:
                if not isinstance(tokenizer, PreTrainedTokenizerBase):
                    return  # a processor; such models read long prompts
                is_clip = default is None or "CLIP" in type(tokenizer).__name__
                readers.append((tokenizer, tokenizer.model_max_length if is_clip else default.default))  # type: ignore[union-attr]
        limit = max((most for _, most in readers), default=0)
        for prompt in [replace_surrogates(request.prompt) for request in requests if limit]:
            self.cut_prompts += all(
                len(tokenizer(prompt, verbose=False).input_ids) > most for tokenizer, most in readers
            )
        if self.cut_prompts:
            logger.warning(
                f"{self.cut_prompts:,} of {len(requests):,} prompts are longer than the {limit} tokens that "
                f"`{self._files.name}` reads; their pictures show the beginning of the prompt only."
            )

    def _draw_batches(self, pipeline: Untyped, drawing: _Drawing) -> None:
        """Draw batches until none is left. It runs in a thread of the device."""
        is_first = True
        try:
            while not drawing.stop.is_set() and (start := next(drawing.starts, None)) is not None:
                batch = drawing.requests[start : start + self._batch]
                result = self._drawn(pipeline, batch)
                if is_first and isinstance(result, DrawingError) and not isinstance(result, _OutOfMemory):
                    first, result = result, self._drawn(pipeline, batch)
                    if str(first) == str(result):
                        drawing.error = first
                        drawing.stop.set()
                is_first = False
                pictures = [result] * len(batch) if isinstance(result, DrawingError) else result
                drawing.outcomes.put([*enumerate(pictures, start)])
                if isinstance(result, _OutOfMemory):
                    drawing.error = result
                    break
        finally:
            drawing.outcomes.put(None)

    def _drawn(self, pipeline: Untyped, requests: Sequence[PictureRequest]) -> Batch | DrawingError:
        """The pictures of one batch, or why there is none."""
        import torch

        filled = [*requests, *[requests[-1]] * (self._batch - len(requests))]
        try:
            with torch.inference_mode():
                drawn = pipeline(
                    prompt=[replace_surrogates(request.prompt) for request in filled],
                    generator=[torch.Generator("cpu").manual_seed(request.seed) for request in filled],
                    **self._arguments(len(filled)),
                )
            are_refused = getattr(drawn, "nsfw_content_detected", None) or [False] * len(filled)  # few outputs have it
            outcomes = zip(drawn.images, are_refused, filled, strict=True)
            pictures = [_picture(image, self.max_side_px, is_refused=flag) for image, flag, _ in outcomes]
        except torch.cuda.OutOfMemoryError:
            remedy = "set `batch_size=1`" if self._batch > 1 else "even with `batch_size=1`: set a smaller `size`"
            return _OutOfMemory(f"the GPU has not enough memory for batches of {self._batch}: {remedy}")
        except PIPELINE_ERRORS as error:
            return DrawerUnavailable(f"the pipeline failed: {first_line(error)}")
        return pictures[: len(requests)]


def _picture(image: Untyped, max_side_px: int, *, is_refused: bool) -> Picture | DrawingError:
    """The stored picture of an array ``(height, width, 3)`` from 0 to 1, or of a PIL image."""
    import numpy as np
    from PIL import Image

    if is_refused:
        return DrawerRefused("the safety checker of the pipeline rejected the picture")
    pixels = np.asarray(image)
    if pixels.dtype.kind == "f":
        if not np.isfinite(pixels).all():
            return PictureUnusable("its pixels are no numbers: the decoder overflowed, so set `dtype=float32`")
        pixels = (pixels * 255).round().astype("uint8")
    if (pixels == pixels[0, 0]).all():
        return PictureUnusable("all its pixels have one colour")
    return png_of(Image.fromarray(pixels), max_side_px)


def _plain(name: str) -> str:
    """A name without characters that separate values of a signature."""
    return re.sub(r"[^\w./-]", "-", name)
