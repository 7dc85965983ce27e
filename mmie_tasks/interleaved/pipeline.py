"""Draws with a text-to-image pipeline of diffusers in this process.

A picture depends on its prompt and seed, and not on the run: its noise comes from a generator of
its own on the CPU, and every batch has the same shape, since the last one is filled up with copies
of its last prompt.

No code of a model is run: weights are read as safetensors, and diffusers refuses a model with code
of its own. Versions before 0.38 do not, and are refused.
"""

from __future__ import annotations

import gc
import hashlib
import inspect
import json
import re
import sys
import warnings
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loguru import logger
from pydantic import NonNegativeInt, PositiveInt

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.hub.download import download_errors, explain, http_status, is_revision
from mmie_tasks.interleaved.base import (
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    DrawingError,
    Picture,
    PictureRequest,
    PictureUnusable,
)
from mmie_tasks.interleaved.pictures import MAX_SIDE_PX, parse_size, png_of

if TYPE_CHECKING:
    import torch

Untyped: TypeAlias = Any  # of diffusers and transformers
Dtype: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]
NumberedPicture: TypeAlias = tuple[int, Picture | DrawingError]
PictureBatch: TypeAlias = list[Picture | DrawingError]

_OLDEST = (0, 38)  # of diffusers
_INDEX = "model_index.json"  # lists the components of a pipeline: name to library and class
_NEVER_LOADED = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5", ".onnx", ".pb", ".py")
_PLAIN_WEIGHTS = re.compile(r"[^.]+\.safetensors(\.index\.json)?")
_PIPELINE_ERRORS = (
    *(
        RuntimeError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        ArithmeticError,
        AssertionError,
    ),
    *(OSError, ImportError, MemoryError),
)
"""What diffusers, transformers and torch raise while they load or draw."""
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

    The page of this folder describes the options; `environment` has ``WORLD_SIZE`` and
    ``LOCAL_RANK`` of launchers.

    Raises:
        DrawerMisconfigured: A value makes no sense.
    """
    if revision is not None and not is_revision(revision):
        raise DrawerMisconfigured(
            f"`revision={revision}` is no branch, tag or commit.", hint="see the model's page"
        )
    if re.fullmatch(r"cpu|cuda(:\d+)?", device or "cpu", re.ASCII) is None:
        raise DrawerMisconfigured(
            f"`device={device}` is not a device.", hint="`cpu`, `cuda` or `cuda:0`"
        )
    options: dict[str, Any] = {
        "steps": steps,
        "guidance": guidance,
        "negative_prompt": negative_prompt,
    }
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


def choose_device(option: str, gpus: int, environment: Mapping[str, str]) -> str:
    """The device that draws in this process, by the option ``device``, of so many GPUs that it
    sees.

    Raises:
        DrawerMisconfigured: There is no such GPU.

    >>> choose_device("", 2, {}), choose_device("", 2, {"WORLD_SIZE": "2", "LOCAL_RANK": "1"})
    ('cuda:0', 'cuda:1')
    """
    if option == "cpu" or not (option or gpus):
        return "cpu"
    number = option.partition(":")[2]
    if not number and int(environment.get("WORLD_SIZE") or 1) > 1 and gpus > 1:
        number = environment.get("LOCAL_RANK") or ""
    if int(number or 0) >= gpus:
        problem = f"`cuda:{number or 0}` was to draw, and this process sees {gpus} GPU(s)."
        raise DrawerMisconfigured(
            problem, hint="`device=cuda:0`, `device=cpu`, or start fewer processes"
        )
    return f"cuda:{int(number or 0)}"


@dataclass(kw_only=True)
class PipelineFiles:
    """A folder in diffusers' layout, not trusted; all its methods raise `DrawerMisconfigured`.

    Attributes:
        folder: With `_INDEX`, and a folder for each component.
        name: In messages and in the signature.
        is_in_hub: Whether it is a snapshot of the Hub's cache, named by its commit.
    """

    folder: Path
    name: str
    is_in_hub: bool = False

    def error(
        self, problem: str, *, hint: str = "choose another model, or another version"
    ) -> DrawerMisconfigured:
        """The error about a problem, for callers to raise."""
        return DrawerMisconfigured(
            f"The pipeline `{self.name}` cannot be used: {problem}.", hint=hint
        )

    @cached_property
    def _index(self) -> dict[str, Any]:
        try:
            index = json.loads((self.folder / _INDEX).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            hint = (
                f"`model=` is a folder with `{_INDEX}`, or a repository on the Hub as `owner/name`"
            )
            raise self.error(
                f"no `{_INDEX}` can be read: {type(error).__name__}", hint=hint
            ) from error
        if not isinstance(index, dict):
            raise self.error(f"`{_INDEX}` is no JSON object")
        return index

    @cached_property
    def components(self) -> dict[str, tuple[str, str]]:
        """Name to library and class of each component; absent ones are left out."""
        return {
            name: (library, kind)
            for name, value in self._index.items()
            if isinstance(value, list) and [*map(type, value)] == [str, str]
            for library, kind in [value]
        }

    @cached_property
    def pipeline_class(self) -> Untyped:
        """The class of the pipeline, which draws pictures from texts."""
        classes = _text_to_image_classes()
        import diffusers

        name = self._index.get("_class_name")
        pipeline = getattr(diffusers, name, None) if isinstance(name, str) else None
        if inspect.isclass(pipeline) and issubclass(pipeline, classes):
            return pipeline
        problem = f"`{name}` {'is no text-to-image pipeline of' if pipeline else 'is not in'}"
        hint = (
            "`pip install -U diffusers`, or choose a model that `AutoPipelineForText2Image` loads"
        )
        raise self.error(f"{problem} diffusers {version('diffusers')}", hint=hint)

    def check_components(self, variant: str | None) -> None:
        """Look for the weights, and load what has none, such as tokenizers: it fails where a
        package is missing.

        All else that diffusers needs or refuses is noticed when the pipeline is loaded.
        """
        if variant and self._weights("*", variant) == self._weights("*", None):
            raise self.error(
                f"it has no weights `variant={variant}`",
                hint="leave `variant=` out, or see its files",
            )
        import diffusers

        for name, (library, kind) in self.components.items():
            is_known = library in ("diffusers", "transformers")
            if not is_known and not hasattr(diffusers.pipelines, library):
                raise self.error(f"`{name}` is of `{library}`, which is not imported")
            suffixes = {path.suffix for path in self.folder.glob(f"{name}/*")}
            if suffixes.isdisjoint((".safetensors", *_NEVER_LOADED)):
                self._check_without_weights(name, library, kind)
            elif not any(file.endswith(".safetensors") for file in self._weights(name, variant)):
                hint = "other formats are not read; other variants need `variant=`"
                raise self.error(f"`{name}` has no weights as safetensors", hint=hint)

    def _check_without_weights(self, name: str, library: str, kind: str) -> None:
        load = getattr(getattr(sys.modules.get(library), kind, None), "from_pretrained", None)
        try:
            # Others, and classes of other libraries, are left to diffusers.
            if library in ("diffusers", "transformers") and load is not None:
                options = {"trust_remote_code": False} if kind.startswith("Auto") else {}
                load(self.folder / name, local_files_only=True, **options)
        except _PIPELINE_ERRORS as error:
            hint = "install the package that it names, such as `sentencepiece` or `protobuf`"
            raise self.error(
                f"`{name}` could not be loaded: {_first_line(error)}", hint=hint
            ) from error

    def _weights(self, name: str, variant: str | None) -> set[str]:
        """The files of weights that are loaded, with their index: those of the variant, or else
        those without one.
        """
        files = {path.name for path in self.folder.glob(f"{name}/*.safetensors*")}
        own = {
            file for file in files if variant and re.search(rf"\.{re.escape(variant)}[.-]", file)
        }
        return own or {file for file in files if _PLAIN_WEIGHTS.fullmatch(file)}

    def digest(self, variant: str | None) -> str:
        """12 hex digits of a SHA-256 over names and contents of the files that are loaded."""
        paths = [self.folder / _INDEX]
        for name in sorted(self.components):
            unused = {
                path.name for path in self.folder.glob(f"{name}/*.safetensors*")
            } - self._weights(name, variant)
            paths += [
                path for path in sorted(self.folder.glob(f"{name}/*")) if path.name not in unused
            ]
        digest = hashlib.sha256()
        for path in paths:
            if path.is_file() and path.suffix not in _NEVER_LOADED:
                digest.update(
                    f"{path.relative_to(self.folder).as_posix()}\n{path.stat().st_size}\n".encode()
                )
                with path.open("rb") as content:
                    while block := content.read(1 << 22):
                        digest.update(block)
        return digest.hexdigest()[:12]


def _download_pipeline(
    repo: str, revision: str, variant: str | None, *, index_only: bool = False
) -> PipelineFiles:
    """The snapshot of a commit in the Hub's cache: what the pipeline loads, and no pickles; or only
    its index.
    """
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    errors: tuple[type[BaseException], ...] = (*download_errors(), EntryNotFoundError)
    try:
        snapshot = Path(hf_hub_download(repo, _INDEX, revision=revision)).parent
        files = PipelineFiles(folder=snapshot, name=repo, is_in_hub=True)
        _ = files.pipeline_class  # before anything else is downloaded
        if index_only:
            return files
        from diffusers import DiffusionPipeline

        options = {"variant": variant, "use_safetensors": True, "trust_remote_code": False}
        DiffusionPipeline.download(repo, revision=snapshot.name, **options)
    except errors as error:
        problem, hint = f"it has no `{_INDEX}`", "choose a model in diffusers' layout"
        is_offline = isinstance(error, LocalEntryNotFoundError)
        if "safetensors" in str(error) and http_status(error) is None:
            problem = "not all its weights are there as safetensors, and others are not read"
        elif is_offline or not isinstance(error, EntryNotFoundError):
            cause = (error.__cause__ if is_offline else None) or error
            why = explain(cause, repo=repo, revision=revision, kind="model", storage="HF_HOME")
            problem, hint = (
                why.reason,
                f"{why.hint}, or set `model=` to a folder in diffusers' layout",
            )
        message = (
            f"The pipeline `{repo}` at revision `{revision}` could not be downloaded: {problem}."
        )
        raise DrawerMisconfigured(message, hint=hint) from error
    return files


def _check_package() -> None:
    if find_spec("diffusers") is None:
        raise DrawerMisconfigured(
            "diffusers is not installed.", hint="`pip install 'mmie-tasks[diffusers]'`"
        )
    if _version() < _OLDEST:
        raise DrawerMisconfigured(
            f"diffusers {version('diffusers')} may run code of a model.",
            hint=f"`pip install 'diffusers>={_OLDEST[0]}.{_OLDEST[1]}'`",
        )


def _text_to_image_classes() -> tuple[type, ...]:
    """The classes that `AutoPipelineForText2Image` knows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about each other
        try:
            from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING
        except (ImportError, RuntimeError) as error:
            problem = f"diffusers {version('diffusers')} cannot be imported: {_first_line(error)}"
            raise DrawerMisconfigured(
                problem, hint="`pip install -U diffusers`, to fit transformers"
            ) from error
    return tuple(AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values())


def _first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    return next(
        (line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__
    )[:300]


class _OutOfMemory(DrawerUnavailable):
    """The device draws nothing more."""


@dataclass(kw_only=True)
class PipelineDrawer:
    """Draws with one pipeline; attributes as in `open_drawer`.

    Attributes:
        options: Those that are set of ``width``, ``height``, ``steps``, ``guidance`` and
            ``negative_prompt``.
        cut_prompts: Prompts of the last call that are longer than the pipeline reads, without words
            of its own.
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
    _pipeline: Untyped = field(default=None, repr=False)

    @cached_property
    def signature(self) -> str:
        """See `Drawer.signature`; raises like `check`.

        The name of a folder is followed by 12 hex digits of a SHA-256 over names and contents of
        all files that are loaded. They are read for it once, about a second per GB.
        """
        files = self._files
        digest = files.folder.name[:12] if files.is_in_hub else files.digest(self.variant)
        values: dict[str, object] = {"model": f"{_plain(files.name)}@{digest}", **self.options}
        if "width" in values:
            values["size"] = f"{values.pop('width')}x{values.pop('height')}"
        if "negative_prompt" in values:
            values["negative_prompt"] = hashlib.sha256(
                str(values["negative_prompt"]).encode()
            ).hexdigest()[:12]
        if self.variant:
            values["variant"] = _plain(self.variant)
        if self._batch > 1:  # some pipelines draw other last bits then
            values["batch"] = self._batch
        values |= {"dtype": self._dtype_name, "stored": f"{self.max_side_px}px"}
        values |= {
            package: ".".join(version(package).split(".")[:2]) for package in ("diffusers", "torch")
        }
        values["device"] = self._device.partition(":")[0]
        return ",".join(["diffusers", *(f"{name}={value}" for name, value in values.items())])

    def check(self) -> None:
        """See `Drawer.check`: downloads the model if need be, and looks at its components, options
        and device.
        """
        _ = self._files, self._device

    def describe(self) -> str:
        """See `Drawer.describe`: of a repository on the Hub, only the index is read."""
        _check_package()
        if self._is_folder:
            self.check()
            return f"`{self._files.name}` is here, and is drawn on {self._device}"
        files = _download_pipeline(
            self.model, self.revision or "main", self.variant, index_only=True
        )
        kind = files.pipeline_class.__name__
        return f"`{self.model}`, a {kind}, on {self._device}; a run downloads what is not here"

    @property
    def price_usd(self) -> float:
        """Of a picture: nothing is paid."""
        return 0.0

    @property
    def _is_folder(self) -> bool:
        folder = Path(self.model).expanduser()
        return folder.is_dir() or not _REPOSITORY.fullmatch(self.model)

    @cached_property
    def _files(self) -> PipelineFiles:
        _check_package()
        folder = Path(self.model).expanduser()
        if not self._is_folder:
            files = _download_pipeline(self.model, self.revision or "main", self.variant)
        else:
            files = PipelineFiles(folder=folder, name=folder.absolute().name)
            if self.revision:
                raise files.error(
                    f"`revision={self.revision}` was set for a folder", hint="leave it out"
                )
        if (
            unknown := self._arguments(1).keys()
            - inspect.signature(files.pipeline_class.__call__).parameters.keys()
        ):
            problem = f"a {files.pipeline_class.__name__} takes no {', '.join(sorted(unknown))}"
            raise files.error(
                problem, hint="leave out `size`, `steps`, `guidance` or `negative_prompt`"
            )
        files.check_components(self.variant)
        return files

    @cached_property
    def _device(self) -> str:
        import torch

        # Takes no memory of a GPU.
        return choose_device(self.device, torch.cuda.device_count(), self.environment)

    @cached_property
    def _dtype_name(self) -> str:
        import torch

        if self.dtype != "auto" or self._device == "cpu":
            return "float32" if self.dtype == "auto" else self.dtype
        is_new = torch.cuda.get_device_capability(self._device) >= (8, 0)
        return "bfloat16" if is_new else "float16"

    def _arguments(self, count: int) -> dict[str, object]:
        """Arguments of the pipeline for so many prompts."""
        arguments = {_ARGUMENTS.get(name, name): value for name, value in self.options.items()}
        negative = {
            name: [value] * count for name, value in arguments.items() if name == "negative_prompt"
        }
        return {"output_type": "np", **arguments, **negative}

    @property
    def _batch(self) -> int:
        return self.batch_size or (1 if self._device == "cpu" else 4)

    def draw(self, requests: Sequence[PictureRequest]) -> Generator[NumberedPicture, None, None]:
        """See `Drawer.draw`. The pipeline is loaded before the first picture is drawn, and stays
        until `close`.

        A batch on which the pipeline fails has errors as outcomes, and the others go on. If the
        first batch fails twice with one error, or the device has no memory, nothing more is drawn.
        """
        if not requests:
            return
        final: DrawingError | None = None
        try:
            pipeline = self._load()
            self._count_cut_prompts(pipeline, requests)
        except DrawingError as error:
            final = error
        for start in range(0, len(requests), self._batch):
            batch = requests[start : start + self._batch]
            if final is None:
                result = self._drawn(pipeline, batch)
                if start == 0 and type(result) is DrawerUnavailable:
                    first, result = result, self._drawn(pipeline, batch)
                    final = first if str(first) == str(result) else None
                final = result if isinstance(result, _OutOfMemory) else final
            else:
                result = final
            pictures = [result] * len(batch) if isinstance(result, DrawingError) else result
            yield from enumerate(pictures, start)

    def close(self) -> None:
        """Free the pipeline; a later `draw` loads it again."""
        self._pipeline = None
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            with suppress(RuntimeError):  # a broken device is reported where it is used next
                torch.cuda.empty_cache()

    def _load(self) -> Untyped:
        import torch

        if self._pipeline is None:
            logger.info(f"Loading `{self._files.name}` on {self._device}.")
            try:
                pipeline = self._loaded(getattr(torch, self._dtype_name))
                self._pipeline = pipeline.to(self._device)
            except torch.cuda.OutOfMemoryError as error:
                raise DrawerUnavailable(
                    "the pipeline does not fit into the memory of the GPU"
                ) from error
            except _PIPELINE_ERRORS as error:
                raise self._files.error(
                    f"it could not be loaded on {self._device}: {_first_line(error)}"
                ) from error
        return self._pipeline

    def _loaded(self, dtype: torch.dtype) -> Untyped:
        """The pipeline on the CPU. Weights that its files lack are random: the same every time, and
        with a warning.
        """
        import torch
        from diffusers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it repeats the end of every prompt that is cut
        files = self._files
        options = {
            "torch_dtype" if _version() < (0, 40) else "dtype": dtype,
            "use_safetensors": True,
            "local_files_only": True,
        }
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            before = torch.get_rng_state()
            pipeline = files.pipeline_class.from_pretrained(
                files.folder, variant=self.variant, **options
            )
            if not torch.equal(before, torch.get_rng_state()):
                logger.warning(
                    f"Some weights of `{files.name}` are random: its files may be of another "
                    "transformers."
                )
        pipeline.set_progress_bar_config(disable=True)
        return pipeline

    def _count_cut_prompts(self, pipeline: Untyped, requests: Sequence[PictureRequest]) -> None:
        from transformers import PreTrainedTokenizerBase

        self.cut_prompts = 0
        default = inspect.signature(pipeline.__call__).parameters.get(
            "max_sequence_length"
        )  # not of CLIP
        readers: list[tuple[Untyped, int]] = []
        for name, tokenizer in pipeline.components.items():
            encoder = pipeline.components.get(name.replace("tokenizer", "text_encoder"))
            if name.startswith("tokenizer") and tokenizer is not None and encoder is not None:
                if not isinstance(tokenizer, PreTrainedTokenizerBase):
                    return  # a processor; such models read long prompts
                is_clip = default is None or "CLIP" in type(tokenizer).__name__
                limit = tokenizer.model_max_length if is_clip else default.default  # type: ignore[union-attr]
                readers.append((tokenizer, limit))
        largest = max((most for _, most in readers), default=0)
        for prompt in [replace_surrogates(request.prompt) for request in requests if largest]:
            self.cut_prompts += all(
                len(tokenizer(prompt, verbose=False).input_ids) > most
                for tokenizer, most in readers
            )
        if self.cut_prompts:
            logger.warning(
                f"{self.cut_prompts:,} of {len(requests):,} prompts are longer than the {largest} "
                "tokens that "
                f"`{self._files.name}` reads; their pictures show the beginning of the prompt only."
            )

    def _drawn(
        self, pipeline: Untyped, requests: Sequence[PictureRequest]
    ) -> PictureBatch | DrawingError:
        """The pictures of one batch, or why there is none."""
        import torch

        filled = [*requests, *[requests[-1]] * (self._batch - len(requests))]
        try:
            # Some writers change these flags.
            flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
            with torch.inference_mode(), flags:
                drawn = pipeline(
                    prompt=[replace_surrogates(request.prompt) for request in filled],
                    generator=[
                        torch.Generator("cpu").manual_seed(request.seed) for request in filled
                    ],
                    **self._arguments(len(filled)),
                )
            are_refused = getattr(drawn, "nsfw_content_detected", None) or [False] * len(
                filled
            )  # few outputs have it
            outcomes = zip(drawn.images, are_refused, filled, strict=True)
            pictures = [
                _picture(image, self.max_side_px, is_refused=flag) for image, flag, _ in outcomes
            ]
        except torch.cuda.OutOfMemoryError:
            remedy = (
                "set `batch_size=1`"
                if self._batch > 1
                else "even with `batch_size=1`: set a smaller `size`"
            )
            return _OutOfMemory(
                f"the GPU has not enough memory for batches of {self._batch}: {remedy}"
            )
        except _PIPELINE_ERRORS as error:
            return DrawerUnavailable(f"the pipeline failed: {_first_line(error)}")
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
            return PictureUnusable(
                "its pixels are no numbers: the decoder overflowed, so set `dtype=float32`"
            )
        pixels = (pixels * 255).round().astype("uint8")
    try:
        return png_of(Image.fromarray(pixels), max_side_px)
    except PictureUnusable as error:
        return error


def _version() -> tuple[int, ...]:
    """Of diffusers: major and minor."""
    return tuple(map(int, version("diffusers").split(".")[:2]))


def _plain(name: str) -> str:
    """A name without characters that separate values of a signature."""
    return re.sub(r"[^\w./-]", "-", name)
