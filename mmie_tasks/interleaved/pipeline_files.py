"""The files of a text-to-image pipeline of diffusers: a folder, or a snapshot in the Hub's cache.

No code of a model is run: weights are read as safetensors, and diffusers refuses a model with code
of its own. Versions before 0.38 do not, and are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.hub.download import explain
from mmie_tasks.interleaved.base import DrawerMisconfigured

Untyped: TypeAlias = Any  # of diffusers and transformers

_INDEX = "model_index.json"  # lists the components of a pipeline: name to library and class
_NEVER_LOADED = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5", ".onnx", ".pb", ".py")
_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFiles:
    """A pipeline in diffusers' layout, of which at least the index is here.

    Attributes:
        folder: With the index, and a folder for each component.
        name: In messages and in the signature.
        commit: Of the Hub; empty for a folder of the user.
        components: Names of their folders, in order.
        pipeline_class: Draws pictures from texts.
    """

    folder: Path
    name: str
    commit: str
    components: Sequence[str]
    pipeline_class: Untyped

    def complete(self, variant: str | None) -> None:
        """Download what the pipeline loads from the Hub, without pickles and code.

        Raises:
            DrawerMisconfigured: It cannot be downloaded, or diffusers refuses it.
        """
        from diffusers import DiffusionPipeline

        if not self.commit:
            return
        options = {"variant": variant, "use_safetensors": True, "trust_remote_code": False}
        try:
            DiffusionPipeline.download(self.name, revision=self.commit, **options)
        except Exception as error:
            if type(error) in (OSError, ValueError):  # diffusers' own, about what it refuses
                raise misconfigured(self.name, first_line(error)) from error
            raise _not_downloaded(self.name, self.commit, error) from error

    def version(self) -> str:
        """12 hex digits: of the commit, or of a SHA-256 over names and contents of the files."""
        if self.commit:
            return self.commit[:12]
        paths = [self.folder / _INDEX]
        for component in self.components:
            paths += sorted(self.folder.glob(f"{component}/*"))
        digest = hashlib.sha256()
        for path in paths:
            if path.is_file() and path.suffix not in _NEVER_LOADED:
                name = path.relative_to(self.folder).as_posix()
                digest.update(f"{name}\n{path.stat().st_size}\n".encode())
                with path.open("rb") as content:
                    while block := content.read(1 << 22):
                        digest.update(block)
        return digest.hexdigest()[:12]


def is_folder(model: str) -> bool:
    """Whether ``model=`` names a folder, and no repository on the Hub."""
    return Path(model).expanduser().is_dir() or not _REPOSITORY.fullmatch(model)


def locate(model: str, revision: str | None) -> PipelineFiles:
    """The pipeline in a folder or a repository on the Hub, of which only the index is downloaded.

    Raises:
        DrawerMisconfigured: No such model, or the installed diffusers cannot draw with it.
    """
    classes = _text_to_image_classes()
    if is_folder(model):
        if revision:
            problem, hint = f"`revision={revision}` was set for a folder", "leave it out"
            raise misconfigured(model, problem, hint)
        folder = Path(model).expanduser()
        name, commit = folder.absolute().name, ""
    else:
        folder = _download_index(model, revision or "main")
        name, commit = model, folder.name
    index = _read_index(folder, name)
    class_name = str(index.get("_class_name"))
    if class_name not in classes:
        raise misconfigured(
            name,
            f"`{class_name}` is no text-to-image pipeline of diffusers {version('diffusers')}",
            "`pip install -U diffusers`, or a model that `AutoPipelineForText2Image` loads",
        )
    return PipelineFiles(
        folder=folder,
        name=name,
        commit=commit,
        components=sorted(index),
        pipeline_class=classes[class_name],
    )


def misconfigured(
    name: str, problem: str, hint: str = "choose another model, or another version"
) -> DrawerMisconfigured:
    """The error about a pipeline, for callers to raise."""
    return DrawerMisconfigured(f"The pipeline `{name}` cannot be used: {problem}.", hint=hint)


def diffusers_version() -> tuple[int, ...]:
    """Major and minor version of the installed diffusers."""
    return tuple(map(int, version("diffusers").split(".")[:2]))


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    lines = filter(None, map(str.strip, str(error).splitlines()))
    return next(lines, type(error).__name__)[:300]


def _read_index(folder: Path, name: str) -> Mapping[str, object]:
    try:
        index = json.loads((folder / _INDEX).read_bytes())
    except (OSError, ValueError, RecursionError):
        index = None
    if not isinstance(index, dict):
        hint = f"`model=` is a folder with `{_INDEX}`, or a repository on the Hub as `owner/name`"
        raise misconfigured(name, f"no `{_INDEX}` can be read", hint)
    return index


def _download_index(repo: str, revision: str) -> Path:
    """The folder of a commit in the Hub's cache, with its index."""
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repo, _INDEX, revision=revision)).parent
    except Exception as error:
        raise _not_downloaded(repo, revision, error) from error


def _not_downloaded(repo: str, revision: str, error: Exception) -> DrawerMisconfigured:
    from huggingface_hub.errors import LocalEntryNotFoundError

    is_local = isinstance(error, LocalEntryNotFoundError)
    cause = error.__cause__ if is_local else None  # why the Hub was not asked, or is silent
    why = explain(cause or error, repo=repo, revision=revision, kind="model", storage="HF_HOME")
    return DrawerMisconfigured(
        f"The `{_INDEX}` and weights of `{repo}` at revision `{revision}` could not be downloaded: "
        f"{why.reason}.",
        hint=f"{why.hint}, or set `model=` to a folder in diffusers' layout",
    )


def _text_to_image_classes() -> Mapping[str, type]:
    """The classes that `AutoPipelineForText2Image` knows, by name."""
    if find_spec("diffusers") is None:
        raise DrawerMisconfigured(
            "diffusers is not installed.", hint="`pip install 'mmie-tasks[diffusers]'`"
        )
    if diffusers_version() < (0, 38):
        raise DrawerMisconfigured(
            f"diffusers {version('diffusers')} may run code of a model.",
            hint="`pip install 'diffusers>=0.38'`",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about each other
        try:
            from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING
        except Exception as error:
            raise DrawerMisconfigured(
                f"diffusers {version('diffusers')} cannot be imported: {first_line(error)}",
                hint="`pip install -U diffusers`, to fit transformers",
            ) from error
    return {kind.__name__: kind for kind in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values()}
