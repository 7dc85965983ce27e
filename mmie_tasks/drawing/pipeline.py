"""The drawer `diffusers`: a text-to-image pipeline of diffusers in this process.

An image depends on its prompt and seed only: its noise comes from a generator of its own on the
CPU, and every batch has the same shape, since the last one is filled up with copies of its last
prompt. No code of a model is run: weights are read as safetensors, and diffusers from 0.38 on
refuses a model with code of its own.
"""

from __future__ import annotations

import gc
import hashlib
import sys
from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal

from loguru import logger
from pydantic import Field, PositiveInt

from mmie_tasks.core.errors import SettingWrong, first_line
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.drawing.drawer import Drawer, DrawerOptions, ImageRequest, NotDrawn, PngFile, png_of
from mmie_tasks.hub.failures import download_errors, explain

_INDEX = "model_index.json"
_READ = (".json", ".safetensors", ".txt", ".model")  # files that a pipeline is loaded from
_OLDEST = (0, 38)  # before it, diffusers runs code in a model's folder
_HINT = "choose a model that `AutoPipelineForText2Image` of the installed diffusers loads"


class PipelineOptions(DrawerOptions):
    """The options of the drawer `diffusers`.

    Attributes:
        revision: Branch or commit on the Hub.
        variant: Of the weights' files, such as ``fp16``.
        dtype: Of the computation; default: bfloat16 on a GPU, float32 on a CPU.
        batch_size: Prompts that are drawn together; it may change the last bits of an image.
        device: Default: the GPU of this process, or the CPU.
    """

    revision: str | None = None
    variant: str | None = None
    dtype: Literal["bfloat16", "float16", "float32"] | None = None
    batch_size: PositiveInt = 4
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:\d+)?)$")] | None = None


class PipelineDrawer(Drawer):
    """Draws with one pipeline, which the first `draw` downloads and loads, and `close` frees.

    `environment` has the ``LOCAL_RANK`` of launchers.
    """

    def __init__(self, options: PipelineOptions, environment: Mapping[str, str]) -> None:
        self._options, self.model = options, options.model
        self._rank = int(environment.get("LOCAL_RANK") or 0)
        self._pipeline: Any = None  # diffusers is untyped

    @property
    def signature(self) -> str:
        """See `Drawer.signature`; has the commit on the Hub, or a digest of a folder's files."""
        options = self._options.text("model", "revision", "dtype", "device")
        model = f"model={self.name}@{self._commit}".replace(",", "-").replace("|", "-")
        machine = f"dtype={self._dtype},device={self._device.partition(':')[0]}"
        versions = f"diffusers={version('diffusers')},torch={version('torch')}"
        return f"diffusers,{model},{options},{machine},{versions}"

    def check(self) -> None:
        """See `Drawer.check`: reads the model's index, from the Hub if it is there."""
        hint = "`pip install -U 'mmie-tasks[diffusers]'`"
        try:
            installed = version("diffusers")
        except PackageNotFoundError:
            raise SettingWrong("The drawer `diffusers` is not installed.", hint=hint) from None
        if tuple(map(int, installed.split(".")[:2])) < _OLDEST:
            problem = f"diffusers {installed} may run code in a model's folder; 0.38 does not."
            raise SettingWrong(problem, hint=hint)
        _ = self._commit, self._device

    @cached_property
    def _commit(self) -> str:
        """12 hex digits: of the commit on the Hub, or of a SHA-256 of the folder's files, which
        takes about a second per GB.
        """
        folder = Path(self.model).expanduser()
        if not folder.is_dir():
            return self._index_on_hub().parent.name[:12]
        if not (folder / _INDEX).is_file():
            raise self._unusable(f"the folder has no `{_INDEX}`")
        digest = hashlib.sha256()
        for path in sorted(folder.rglob("*")):
            if path.suffix in _READ and path.is_file():
                digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
                with path.open("rb") as file:
                    while block := file.read(1 << 22):
                        digest.update(block)
        return digest.hexdigest()[:12]

    def _index_on_hub(self) -> Path:
        from huggingface_hub import hf_hub_download

        revision = self._options.revision or "main"
        try:
            return Path(hf_hub_download(self.model, _INDEX, revision=revision))
        except download_errors() as error:
            why = explain(error, repo=self.model, revision=revision, kind="model")
            raise self._unusable(why.reason, why.hint) from error
        except ValueError as error:  # not the name of a repository
            raise self._unusable(first_line(error).rstrip(".")) from error

    def _unusable(self, problem: str, hint: str = _HINT) -> SettingWrong:
        return SettingWrong(f"The pipeline `{self.model}` cannot be used: {problem}.", hint=hint)

    @cached_property
    def _device(self) -> str:
        import torch

        gpus = torch.cuda.device_count()  # takes no memory of a GPU
        default = f"cuda:{self._rank % gpus}" if gpus else "cpu"
        return self._options.device or default

    @property
    def _dtype(self) -> str:
        return self._options.dtype or ("float32" if self._device == "cpu" else "bfloat16")

    def draw(
        self, requests: Sequence[ImageRequest]
    ) -> Generator[tuple[int, PngFile | NotDrawn], None, None]:
        """See `Drawer.draw`. A batch that fails is not drawn; the others are."""
        pipeline, size = self._loaded() if requests else None, self._options.batch_size
        for start in range(0, len(requests), size):
            batch = requests[start : start + size]
            try:
                outcomes = self._drawn(pipeline, batch)
            except Exception as error:  # noqa: BLE001 - diffusers, or no memory
                failed = NotDrawn("unavailable", f"the pipeline failed: {first_line(error)}")
                outcomes = [failed] * len(batch)
            yield from enumerate(outcomes, start)

    def close(self) -> None:
        """See `Drawer.close`; a later `draw` loads the pipeline again."""
        self._pipeline = None
        gc.collect()
        if (torch := sys.modules.get("torch")) is not None and torch.cuda.is_initialized():
            torch.cuda.empty_cache()

    def _loaded(self) -> Any:  # noqa: ANN401 - of diffusers
        if self._pipeline is not None:
            return self._pipeline
        import torch

        try:
            from diffusers import AutoPipelineForText2Image
            from diffusers.utils import logging

            logger.info(f"Loading `{self.model}` on {self._device}.")
            logging.disable_progress_bar()
            folder = Path(self.model).expanduser()
            pipeline = AutoPipelineForText2Image.from_pretrained(
                folder if folder.is_dir() else self.model,
                revision=None if folder.is_dir() else self._index_on_hub().parent.name,
                variant=self._options.variant,
                torch_dtype=getattr(torch, self._dtype),
                use_safetensors=True,
            )
            logging.set_verbosity_error()  # after loading, which warns of weights that are missing
            pipeline.set_progress_bar_config(disable=True)
            self._pipeline = pipeline.to(self._device)
        except Exception as error:  # diffusers, the Hub or the device: nothing is drawn yet
            raise self._unusable(first_line(error).rstrip(".")) from error
        return self._pipeline

    def _drawn(
        self,
        pipeline: Any,  # noqa: ANN401 - of diffusers
        requests: Sequence[ImageRequest],
    ) -> list[PngFile | NotDrawn]:
        import torch

        options, size = self._options, self._options.batch_size
        filled = [*requests, *[requests[-1]] * (size - len(requests))]
        width, height = map(int, options.size.split("x")) if options.size else (None, None)
        negative = None if options.negative_prompt is None else [options.negative_prompt] * size
        arguments = {
            "width": width,
            "height": height,
            "num_inference_steps": options.steps,
            "guidance_scale": options.guidance,
            "negative_prompt": negative,
        }
        flags = torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True)
        with torch.inference_mode(), flags:
            drawn = pipeline(
                prompt=[replace_surrogates(request.prompt) for request in filled],
                generator=[torch.Generator("cpu").manual_seed(request.seed) for request in filled],
                **{name: value for name, value in arguments.items() if value is not None},
            )
        # Not every output says which images a safety checker made black.
        refused = getattr(drawn, "nsfw_content_detected", None) or [False] * size
        return [
            NotDrawn("refused", "the safety checker of the pipeline rejected the image")
            if is_refused
            else png_of(image, options.max_side_px)
            for image, is_refused, _ in zip(drawn.images, refused, requests, strict=False)
        ]
