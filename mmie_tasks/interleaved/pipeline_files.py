"""The files of a text-to-image pipeline of diffusers: a folder, or a snapshot in the Hub's cache.

No code of a model is run: weights are read as safetensors, and diffusers from 0.38 on refuses a
model with code of its own.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.core.errors import first_line
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.interleaved.drawer import DrawerMisconfigured

Untyped: TypeAlias = Any  # an object of diffusers or transformers

_INDEX = "model_index.json"  # lists the components of a pipeline: name to library and class
_OTHER_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5", ".onnx", ".pb")
_NEVER_LOADED = (*_OTHER_WEIGHTS, ".py")
_SHARD = re.compile(r"-\d+-of-\d+")
_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFiles:
    """A pipeline in diffusers' layout, with at least its index on the disk.

    Attributes:
        folder: Contains the index, and a folder for each component.
        name: Name in messages and in the signature.
        commit: The commit on the Hub; empty for a folder of the user.
        components: Name of a component to its library and class, sorted.
        pipeline_class: The class of text-to-image pipelines.
    """

    folder: Path
    name: str
    commit: str
    components: Mapping[str, object]
    pipeline_class: Untyped

    def complete(self, variant: str | None) -> None:
        """Download what the pipeline loads from the Hub, and load all components without weights.

        Raises:
            DrawerMisconfigured: It cannot be downloaded, diffusers refuses it, its weights are not
                safetensors, or a package is missing.
        """
        if self.commit:
            from diffusers import DiffusionPipeline

            with _explained(self.name, self.commit):
                DiffusionPipeline.download(
                    self.name, revision=self.commit, variant=variant, use_safetensors=True
                )
        weighted = [name for name in self.components if self._has_weights(name, variant)]
        try:
            self.load(variant, **dict.fromkeys(weighted))  # None: not loaded
        except Exception as error:  # diffusers: nothing is lost, the run has not begun
            hint = "install what it names, or choose another model"
            raise misconfigured(self.name, first_line(error), hint) from error

    def _has_weights(self, component: str, variant: str | None) -> bool:
        if self.components[component] == [None, None]:
            return False
        kinds = set()  # variants of safetensors, suffixes of others
        for path in self.folder.glob(f"{component}/*"):
            if path.suffix == ".safetensors":
                kinds.add(_SHARD.sub("", path.stem).partition(".")[2])
            elif path.suffix in _OTHER_WEIGHTS:
                kinds.add(path.suffix)
        if kinds and kinds.isdisjoint(("", variant)):
            named = f" with `variant={variant}`" if variant else ""
            hint = "other formats are not read; other variants need `variant=`"
            raise misconfigured(
                self.name, f"`{component}` has no weights as safetensors{named}", hint
            )
        return bool(kinds)

    def load(self, variant: str | None, dtype: Untyped = None, **components: None) -> Untyped:
        """The pipeline on the CPU, without the components that are None."""
        from diffusers import AutoPipelineForText2Image
        from diffusers.utils import logging

        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it repeats the end of every prompt that is cut
        options = {
            "torch_dtype" if _diffusers_version() < (0, 40) else "dtype": dtype,
            **components,
        }
        return AutoPipelineForText2Image.from_pretrained(
            self.folder, variant=variant, use_safetensors=True, local_files_only=True, **options
        )

    def version(self) -> str:
        """12 hex digits of the commit, or of a SHA-256 of the names and contents of the files."""
        if self.commit:
            return self.commit[:12]
        digest = hashlib.sha256()
        in_components = (
            path
            for component in self.components
            for path in sorted(self.folder.glob(f"{component}/*"))
        )
        for path in (self.folder / _INDEX, *in_components):
            if path.is_file() and path.suffix not in _NEVER_LOADED:
                name = path.relative_to(self.folder).as_posix()
                digest.update(f"{name}\n{path.stat().st_size}\n".encode())
                with path.open("rb") as content:
                    while block := content.read(1 << 22):
                        digest.update(block)
        return digest.hexdigest()[:12]


def locate(model: str, revision: str | None) -> PipelineFiles:
    """The pipeline in a folder, or in a repository on the Hub; downloads only the index.

    Raises:
        DrawerMisconfigured: There is no such model, or the installed diffusers cannot draw with it.
    """
    classes = _text_to_image_classes()
    folder = Path(model).expanduser()
    if folder.is_dir() or not _REPOSITORY.fullmatch(model):
        if revision:
            problem, hint = f"`revision={revision}` was set for a folder", "leave it out"
            raise misconfigured(model, problem, hint)
        name, commit = folder.absolute().name, ""
    else:
        from huggingface_hub import hf_hub_download

        with _explained(model, revision or "main"):
            folder = Path(hf_hub_download(model, _INDEX, revision=revision or "main")).parent
        name, commit = model, folder.name
    index = _read_index(folder, name)
    class_name = str(index.get("_class_name"))
    if class_name not in classes:
        problem = f"`{class_name}` is not a text-to-image pipeline of diffusers"
        hint = "`pip install -U diffusers`, or a model that `AutoPipelineForText2Image` loads"
        raise misconfigured(name, f"{problem} {version('diffusers')}", hint)
    components = {key: kind for key, kind in sorted(index.items()) if isinstance(kind, list)}
    return PipelineFiles(
        folder=folder,
        name=name,
        commit=commit,
        components=components,
        pipeline_class=classes[class_name],
    )


def misconfigured(
    name: str, problem: str, hint: str = "choose another model, or another version"
) -> DrawerMisconfigured:
    """The error about a pipeline, for callers to raise."""
    return DrawerMisconfigured(f"The pipeline `{name}` cannot be used: {problem}.", hint=hint)


def _read_index(folder: Path, name: str) -> Mapping[str, object]:
    try:
        index = json.loads((folder / _INDEX).read_bytes())
    except (OSError, ValueError, RecursionError):
        index = None
    if not isinstance(index, dict):
        hint = f"`model=` is a folder with `{_INDEX}`, or a repository on the Hub as `owner/name`"
        raise misconfigured(name, f"no `{_INDEX}` can be read", hint)
    return index


@contextmanager
def _explained(repo: str, revision: str) -> Iterator[None]:
    """Raise a failed download as `DrawerMisconfigured`."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        yield
    except download_errors() as error:
        # diffusers raises OSErrors without a number when it refuses something, or around a cause.
        is_own = type(error) is OSError and error.errno is None
        if is_own and "safetensors" in str(error):
            raise misconfigured(repo, first_line(error)) from error
        is_wrapper = is_own or isinstance(error, LocalEntryNotFoundError)
        cause = (is_wrapper and error.__cause__) or error
        why = explain(cause, repo=repo, revision=revision, kind="model")
        problem = f"The `{_INDEX}` and weights of `{repo}` at revision `{revision}`"
        raise DrawerMisconfigured(
            f"{problem} could not be downloaded: {why.reason}.",
            hint=f"{why.hint}, or set `model=` to a folder in diffusers' layout",
        ) from error
    except Exception as error:  # diffusers: nothing is lost, the run has not begun
        raise misconfigured(repo, first_line(error)) from error


def _diffusers_version() -> tuple[int, ...]:
    """Major and minor version."""
    return tuple(map(int, version("diffusers").split(".")[:2]))


def _text_to_image_classes() -> Mapping[str, type]:
    """The classes that `AutoPipelineForText2Image` loads, by name."""
    hint = "`pip install -U 'mmie-tasks[diffusers]'`"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # libraries warn about each other
            from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING
    except Exception as error:  # it may not fit transformers, or torch may be broken
        problem = f"diffusers cannot be imported: {first_line(error)}."
        raise DrawerMisconfigured(problem, hint=hint) from error
    if _diffusers_version() < (0, 38):
        problem = f"diffusers {version('diffusers')} may run code of a model, 0.38 does not."
        raise DrawerMisconfigured(problem, hint=hint)
    return {kind.__name__: kind for kind in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()}
