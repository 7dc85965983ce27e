"""The drawer `diffusers`: a text-to-image pipeline of diffusers in this process.

A picture depends on its prompt and seed only: its noise comes from its own generator on the CPU,
and every batch has the same shape, since the last one is filled up with copies of its last prompt.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, Literal

from loguru import logger
from pydantic import Field, NonNegativeInt, PositiveInt

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.core.errors import first_line
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.interleaved.drawer import (
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    DrawingError,
    Picture,
    PictureRequest,
    PictureUnusable,
    drawer_signature,
)
from mmie_tasks.interleaved.pictures import MAX_SIDE_PX, parse_size, png_of
from mmie_tasks.interleaved.pipeline_files import PipelineFiles, Untyped, locate, misconfigured

if TYPE_CHECKING:
    from PIL.Image import Image

_SIDE_STEP_PX = 16  # no pipeline rounds it: 8 for the autoencoder, times 2 for a patch
_NO_LIMIT = 10**9  # more tokens than any tokenizer reads


class _OutOfMemory(DrawerUnavailable):
    """The device has too little memory, and draws nothing more."""


class PipelineOptions(ChoiceOptions):
    """The options of the drawer `diffusers`; the README of this folder describes them."""

    model: str
    revision: str | None = None
    variant: str | None = None
    size: str | None = None
    max_side_px: NonNegativeInt = MAX_SIDE_PX
    steps: PositiveInt | None = None
    guidance: float | None = None
    negative_prompt: str | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    batch_size: PositiveInt | None = None
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")] | None = None


@dataclass
class PipelineDrawer:
    """Draws with one pipeline; nothing is imported, downloaded or loaded before a method is called.

    `environment` has the ``LOCAL_RANK`` of launchers. A size that cannot be drawn raises
    `DrawerMisconfigured`.
    """

    options: PipelineOptions
    environment: Mapping[str, str] = field(repr=False)
    _pipeline: Untyped = field(default=None, repr=False, init=False)

    def __post_init__(self) -> None:
        self._size = (
            parse_size(self.options.size, _SIDE_STEP_PX) if self.options.size is not None else None
        )

    @cached_property
    def signature(self) -> str:
        """See `Drawer.signature`. Raises the errors of `check`; reads the files of a folder once,
        which takes about a second per GB.
        """
        negative = self.options.negative_prompt
        if negative is not None:
            negative = hashlib.sha256(negative.encode()).hexdigest()[:12]
        return drawer_signature(
            "diffusers",
            model=f"{_plain(self._files.name)}@{self._files.version()}",
            steps=self.options.steps,
            guidance=self.options.guidance,
            negative_prompt=negative,
            size=self._size and "{}x{}".format(*self._size),
            variant=_plain(self.options.variant) if self.options.variant else None,
            batch=self._batch if self._batch > 1 else None,  # may change the last bits
            dtype=self._dtype_name,
            stored=f"{self.options.max_side_px}px",
            diffusers=_minor_version("diffusers"),
            torch=_minor_version("torch"),
            device=self._device.partition(":")[0],
        )

    @property
    def storage_signature(self) -> str:
        """See `Drawer.storage_signature`."""
        return self.signature

    def check(self) -> None:
        """See `Drawer.check`: downloads the model, and checks its class, options, files and the
        device, but not the weights.
        """
        _ = self._files, self._device

    @cached_property
    def _files(self) -> PipelineFiles:
        files = locate(self.options.model, self.options.revision)
        parameters = inspect.signature(files.pipeline_class.__call__).parameters
        if unknown := self._arguments(1).keys() - parameters.keys():
            kind = files.pipeline_class.__name__
            raise misconfigured(
                files.name,
                f"a {kind} takes no {', '.join(sorted(unknown))}",
                "leave out `size`, `steps`, `guidance` or `negative_prompt`",
            )
        files.complete(self.options.variant)
        return files

    @cached_property
    def _device(self) -> str:
        import torch

        gpus = torch.cuda.device_count()  # takes no memory of a GPU
        option = self.options.device or ("cuda" if gpus else "cpu")
        if option == "cpu":
            return option
        rank = int(self.environment.get("LOCAL_RANK") or 0)
        number = int(option.partition(":")[2] or rank % max(gpus, 1))
        if number >= gpus:
            problem = f"`cuda:{number}` was to draw, and this process sees {gpus} GPU(s)."
            raise DrawerMisconfigured(problem, hint="`device=cpu`, or `device=cuda:0`")
        return f"cuda:{number}"

    @cached_property
    def _dtype_name(self) -> str:
        import torch

        if self.options.dtype != "auto":
            return self.options.dtype
        if self._device == "cpu":
            return "float32"
        is_new = torch.cuda.get_device_capability(self._device) >= (8, 0)
        return "bfloat16" if is_new else "float16"

    @property
    def _batch(self) -> int:
        return self.options.batch_size or (1 if self._device == "cpu" else 4)

    def _arguments(self, count: int) -> dict[str, object]:
        """The arguments of the pipeline for this number of prompts."""
        width, height = self._size or (None, None)
        negative = (
            None if self.options.negative_prompt is None else [self.options.negative_prompt] * count
        )
        arguments = {
            "output_type": "pil",
            "width": width,
            "height": height,
            "num_inference_steps": self.options.steps,
            "guidance_scale": self.options.guidance,
            "negative_prompt": negative,
        }
        return {name: value for name, value in arguments.items() if value is not None}

    def draw(
        self, requests: Sequence[PictureRequest]
    ) -> Generator[tuple[int, Picture | DrawingError], None, None]:
        """See `Drawer.draw`. The pipeline is loaded first, and stays until `close`.

        If a batch fails, its outcomes are errors, and the other batches are drawn. If the first
        batch fails twice, or the device has too little memory, nothing more is drawn.
        """
        try:
            pipeline = self._load(requests) if requests else None
        except DrawingError as error:
            yield from enumerate([error] * len(requests))
            return
        final: DrawingError | None = None
        for start in range(0, len(requests), self._batch):
            batch = requests[start : start + self._batch]
            outcome = final or self._drawn(pipeline, batch)
            if start == 0 and type(outcome) is DrawerUnavailable:
                outcome = self._drawn(pipeline, batch)
            if isinstance(outcome, DrawingError):
                final = outcome if start == 0 or isinstance(outcome, _OutOfMemory) else final
                outcome = [outcome] * len(batch)
            yield from enumerate(outcome, start)

    def close(self) -> None:
        """Free the pipeline; a later `draw` loads it again."""
        self._pipeline = None
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            with suppress(RuntimeError):  # a broken device is reported where it is used next
                torch.cuda.empty_cache()

    def _load(self, requests: Sequence[PictureRequest]) -> Untyped:
        import torch

        files = self._files
        if self._pipeline is None:
            logger.info(f"Loading `{files.name}` on {self._device}.")
            try:
                self._pipeline = self._loaded(files).to(self._device)
            except torch.cuda.OutOfMemoryError as error:
                problem = "the pipeline does not fit into the memory of the GPU"
                raise DrawerUnavailable(problem) from error
            except Exception as error:
                problem = f"it could not be loaded on {self._device}: {first_line(error)}"
                raise misconfigured(files.name, problem) from error
        _log_cut_prompts(self._pipeline, files.name, requests)
        return self._pipeline

    def _loaded(self, files: PipelineFiles) -> Untyped:
        """The pipeline on the CPU. Weights that are not in its files, because another version of
        transformers wrote them, are random but the same every time.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            before = torch.get_rng_state()
            pipeline = files.load(self.options.variant, dtype=getattr(torch, self._dtype_name))
            if not torch.equal(before, torch.get_rng_state()):  # diffusers does not say so
                logger.warning(f"Some weights of `{files.name}` are not in its files, and random.")
        pipeline.set_progress_bar_config(disable=True)
        _limit_tokenizers(pipeline)
        return pipeline

    def _drawn(
        self, pipeline: Untyped, requests: Sequence[PictureRequest]
    ) -> list[Picture | DrawingError] | DrawingError:
        """The pictures of one batch, or why there are none."""
        import torch

        filled = [*requests, *[requests[-1]] * (self._batch - len(requests))]
        prompts = [replace_surrogates(request.prompt) for request in filled]
        generators = [torch.Generator("cpu").manual_seed(request.seed) for request in filled]
        # Some writers change these flags.
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        try:
            with torch.inference_mode(), flags:
                drawn = pipeline(
                    prompt=prompts, generator=generators, **self._arguments(len(filled))
                )
            # Not every output says which pictures a safety checker made black.
            refusals = getattr(drawn, "nsfw_content_detected", None) or [False] * len(filled)
            pictures = [
                self._picture(image, is_refused=is_refused)
                for image, is_refused, _ in zip(drawn.images, refusals, filled, strict=True)
            ]
        except torch.cuda.OutOfMemoryError:
            small = "even with `batch_size=1`: set a smaller `size`"
            remedy = "set `batch_size=1`" if self._batch > 1 else small
            return _OutOfMemory(
                f"the GPU has not enough memory for batches of {self._batch}: {remedy}"
            )
        except Exception as error:  # noqa: BLE001 - diffusers
            return DrawerUnavailable(f"the pipeline failed: {first_line(error)}")
        return pictures[: len(requests)]

    def _picture(self, image: Image, *, is_refused: bool) -> Picture | DrawingError:
        if is_refused:
            return DrawerRefused("the safety checker of the pipeline rejected the picture")
        try:
            return png_of(image, self.options.max_side_px)
        except PictureUnusable as error:
            hint = "if the decoder overflowed, `dtype=float32` helps"
            return PictureUnusable(f"{error}: {hint}")


def _tokenizers(pipeline: Untyped) -> dict[str, Untyped]:
    from transformers import PreTrainedTokenizerBase

    components = pipeline.components.items()
    return {
        name: component
        for name, component in components
        if isinstance(component, PreTrainedTokenizerBase)
    }


def _limit_tokenizers(pipeline: Untyped) -> None:
    """Give tokenizers without a limit that of their encoder: pipelines pad to the limit, which
    fails for the number of 31 digits that transformers uses.
    """
    for name, tokenizer in _tokenizers(pipeline).items():
        encoder = pipeline.components.get(name.replace("tokenizer", "text_encoder"))
        positions = getattr(getattr(encoder, "config", None), "max_position_embeddings", None)
        if positions and tokenizer.model_max_length >= _NO_LIMIT:
            tokenizer.model_max_length = positions


def _log_cut_prompts(pipeline: Untyped, name: str, requests: Sequence[PictureRequest]) -> None:
    """Log how many prompts are longer than the largest limit of a tokenizer, or than the default of
    the pipeline's argument ``max_sequence_length``.
    """
    argument = inspect.signature(pipeline.__call__).parameters.get("max_sequence_length")
    most = argument.default if argument and isinstance(argument.default, int) else _NO_LIMIT
    tokenizers = list(_tokenizers(pipeline).values())
    limit = min(most, max((one.model_max_length for one in tokenizers), default=_NO_LIMIT))
    if not tokenizers or limit >= _NO_LIMIT:
        return
    widest = max(tokenizers, key=lambda one: min(one.model_max_length, limit))
    prompts = [replace_surrogates(request.prompt) for request in requests]
    if cut := sum(len(widest(prompt, verbose=False).input_ids) > limit for prompt in prompts):
        logger.warning(
            f"{cut:,} of {len(prompts):,} prompts are longer than the {limit} tokens that "
            f"`{name}` reads; their pictures show the beginning of the prompt only."
        )


def _minor_version(package: str) -> str:
    return ".".join(version(package).split(".")[:2])


def _plain(name: str) -> str:
    """A name without characters that separate values of a signature."""
    return re.sub(r"[^\w./-]", "-", name)
