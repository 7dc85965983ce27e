"""The files of a text-to-image pipeline of diffusers: a folder, or a snapshot in the Hub's cache.

No code of a model is run: weights are read as safetensors, and diffusers refuses a model with code
of its own. Versions before 0.38 do not, and are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.core.errors import first_line
from mmie_tasks.hub.failures import download_errors, explain
from mmie_tasks.interleaved.drawer import DrawerMisconfigured

Untyped: TypeAlias = Any  # of diffusers and transformers

_INDEX = "model_index.json"  # lists the components of a pipeline: name to library and class
_OTHER_WEIGHTS = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5", ".onnx", ".pb")
_NEVER_LOADED = (*_OTHER_WEIGHTS, ".py")
_SHARD = re.compile(r"-\d+-of-\d+")
_REPOSITORY = re.compile(r"\w[\w.-]*/[\w.-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFiles:
    """A pipeline in diffusers' layout, of which at least the index is here.

    Attributes:
        folder: With the index, and a folder for each component.
        name: In messages and in the signature.
        commit: Of the Hub; empty for a folder of the user.
        components: Name of a folder to library and class, as in the index, in order.
        pipeline_class: Draws pictures from texts.
    """

    folder: Path
    name: str
    commit: str
    components: Mapping[str, object]
    pipeline_class: Untyped

    def complete(self, variant: str | None) -> None:
        """Download what the pipeline loads from the Hub, without pickles and code, and check it.

        Raises:
            DrawerMisconfigured: It cannot be downloaded, diffusers refuses it, weights are no
                safetensors, or a package is missing.
        """
        if self.commit:
            self._download(variant)
        parts = [name for name, kind in self.components.items() if kind != [None, None]]
        weights = {name: self._weights(name) for name in parts}
        if variant and not any(variant in kinds for kinds in weights.values()):
            hint = "leave `variant=` out, or see its files"
            raise misconfigured(self.name, f"it has no weights `variant={variant}`", hint)
        for name, kinds in weights.items():
            if not kinds:
                self._load_without_weights(name)
            elif kinds.isdisjoint(("", variant)):
                hint = "other formats are not read; other variants need `variant=`"
                raise misconfigured(self.name, f"`{name}` has no weights as safetensors", hint)

    def _download(self, variant: str | None) -> None:
        from diffusers import DiffusionPipeline

        options = {"variant": variant, "use_safetensors": True, "trust_remote_code": False}
        try:
            DiffusionPipeline.download(self.name, revision=self.commit, **options)
        except download_errors() as error:
            # diffusers' own, about what it refuses; a file that cannot be written has a number.
            if type(error) is OSError and error.errno is None and "safetensors" in str(error):
                raise misconfigured(self.name, first_line(error)) from error
            raise _not_downloaded(self.name, self.commit, error) from error
        except Exception as error:  # diffusers: nothing is lost, the run has not begun
            raise misconfigured(self.name, first_line(error)) from error

    def _weights(self, component: str) -> set[str]:
        """The variants of its safetensors, "" for those without; a suffix for other formats."""
        kinds = set()
        for path in self.folder.glob(f"{component}/*"):
            if path.suffix == ".safetensors":
                kinds.add(_SHARD.sub("", path.stem).partition(".")[2])
            elif path.suffix in _OTHER_WEIGHTS:
                kinds.add(path.suffix)
        return kinds

    def _load_without_weights(self, component: str) -> None:
        """Load a tokenizer, scheduler or processor, which fails if a package is missing.

        Classes that neither library has under this name are left to diffusers, which renames some.
        """
        import diffusers
        import transformers

        match self.components[component]:
            case ["diffusers" | "transformers" as library, str(kind)]:
                module = diffusers if library == "diffusers" else transformers
                options = {"trust_remote_code": False} if kind.startswith("Auto") else {}
                try:
                    load = getattr(getattr(module, kind, None), "from_pretrained", None)
                    if load is not None:
                        load(self.folder / component, local_files_only=True, **options)
                except Exception as error:
                    hint = "install the package that it names, or choose another model"
                    problem = f"`{component}` could not be loaded: {first_line(error)}"
                    raise misconfigured(self.name, problem, hint) from error

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
        components=dict(sorted(index.items())),
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
    except download_errors() as error:
        raise _not_downloaded(repo, revision, error) from error
    except ValueError as error:  # of a name that no repository can have
        raise misconfigured(repo, first_line(error)) from error


def _not_downloaded(repo: str, revision: str, error: BaseException) -> DrawerMisconfigured:
    from huggingface_hub.errors import LocalEntryNotFoundError

    # The cause of these two, the second of which is diffusers' own, is why the Hub did not answer.
    is_wrapper = isinstance(error, LocalEntryNotFoundError) or type(error) is OSError
    cause = error.__cause__ if is_wrapper else None
    why = explain(cause or error, repo=repo, revision=revision, kind="model")
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
