"""Finds the files of a text-to-image pipeline, on disk or on the Hub, and checks them before anything is loaded.

No code of a model is run: weights are read as safetensors, and a model with code of its own is refused here, because
diffusers before 0.38 runs such code of a folder even with ``trust_remote_code=False``.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import warnings
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias

from mmie_tasks.drawing.base import DrawerMisconfigured
from mmie_tasks.hub.download import download_errors, explain, http_status

Untyped: TypeAlias = Any  # of diffusers and transformers

INDEX = "model_index.json"
"""Lists the components of a pipeline: name to library and class."""

_NEVER_LOADED = (".bin", ".ckpt", ".pt", ".pth", ".pkl", ".msgpack", ".h5", ".onnx", ".pb", ".py")
_PLAIN_WEIGHTS = re.compile(r"[^.]+\.safetensors(\.index\.json)?")
_RENAMED = {"CLIPFeatureExtractor": "CLIPImageProcessor"}  # by transformers; diffusers knows it too
PIPELINE_ERRORS = (
    *(RuntimeError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError),
    *(OSError, ImportError, MemoryError),
)
"""What diffusers, transformers and torch raise while they load or draw."""


@dataclass(kw_only=True)
class PipelineFiles:
    """A folder in diffusers' layout, not trusted; all its methods raise `DrawerMisconfigured`.

    Attributes:
        folder: With `INDEX`, and a folder for each component.
        name: In messages and in the signature.
        is_in_hub: Whether it is a snapshot of the Hub's cache, named by its commit.
    """

    folder: Path
    name: str
    is_in_hub: bool = False

    def error(self, problem: str, *, hint: str = "choose another model, or another version") -> DrawerMisconfigured:
        """The error about a problem, for callers to raise."""
        return DrawerMisconfigured(f"The pipeline `{self.name}` cannot be used: {problem}.", hint=hint)

    @cached_property
    def _index(self) -> dict[str, Any]:
        try:
            index = json.loads((self.folder / INDEX).read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            hint = f"`model=` is a folder with `{INDEX}`, or a repository on the Hub as `owner/name`"
            raise self.error(f"no `{INDEX}` can be read: {type(error).__name__}", hint=hint) from error
        if not isinstance(index, dict):
            raise self.error(f"`{INDEX}` is no JSON object")
        return index

    @cached_property
    def components(self) -> dict[str, Untyped]:
        """Name to class. Nothing is imported by a name in the model's files but from diffusers and transformers."""
        text_to_image_classes()
        import diffusers

        lists = {name: value for name, value in self._index.items() if isinstance(value, list) and name[:1] != "_"}
        pairs = {name: pair for name, pair in lists.items() if [*map(type, pair)] == [str, str]}
        own = [f"{name}: {'.'.join(pair)}" for name, pair in pairs.items() if self._is_code(name, *pair)]
        pipeline = self._index.get("_class_name")
        if own or not isinstance(pipeline, str) or (self.folder / "None.py").exists():  # diffusers looks for it
            problem = f"it has code of its own, which is not run ({', '.join([str(pipeline), *own])})"
            raise self.error(problem, hint="choose a model whose classes are all in diffusers and transformers")
        classes = {name: self._component_class(*pair) for name, pair in pairs.items()}
        if nested := [name for name, kind in classes.items() if issubclass(kind, diffusers.DiffusionPipeline)]:
            raise self.error(f"its component `{nested[0]}` is itself a pipeline")
        return classes

    def _is_code(self, name: str, library: str, kind: str) -> bool:
        """Whether a component is not a class of diffusers or transformers."""
        from diffusers import pipelines

        folder = self.folder / name
        configs = folder.glob("*.json") if kind.startswith("Auto") else ()
        is_known = library in ("diffusers", "transformers") or hasattr(pipelines, library)
        has_code = (folder / f"{library}.py").exists() or any(b"auto_map" in path.read_bytes() for path in configs)
        return has_code or not is_known or not name.isidentifier()

    def _component_class(self, library: str, kind: str) -> Untyped:
        import diffusers
        import transformers

        modules: dict[str, Any] = {"diffusers": diffusers, "transformers": transformers}
        package = library if library in modules else "diffusers"
        try:
            module = modules.get(library) or getattr(diffusers.pipelines, library)
            component = getattr(module, kind, None) or getattr(module, _RENAMED.get(kind, ""), None)
        except (ImportError, RuntimeError) as error:  # of the module that has the class
            raise self.error(f"`{library}.{kind}` cannot be imported: {first_line(error)}") from error
        if not inspect.isclass(component):
            problem = f"it needs `{kind}`, which {package} {version(package)} does not have"
            raise self.error(problem, hint=f"`pip install -U {package}`")
        return component

    @cached_property
    def pipeline_class(self) -> Untyped:
        """The class of the pipeline, which draws pictures from texts."""
        _ = self.components  # refuses code first
        import diffusers

        name = self._index["_class_name"]
        pipeline = getattr(diffusers, name, None)
        if inspect.isclass(pipeline) and issubclass(pipeline, text_to_image_classes()):
            return pipeline
        problem = f"`{name}` {'is no text-to-image pipeline of' if pipeline else 'is not in'}"
        hint = "`pip install -U diffusers`, or choose a model that `AutoPipelineForText2Image` loads"
        raise self.error(f"{problem} diffusers {version('diffusers')}", hint=hint)

    def check_components(self, variant: str | None) -> None:
        """Look for all weights, and load what has none, such as tokenizers: it fails where a package is missing."""
        parameters = [*inspect.signature(self.pipeline_class.__init__).parameters.values()][1:]
        required = {parameter.name for parameter in parameters if parameter.default is parameter.empty}
        required -= {*self.pipeline_class._optional_components}
        if missing := sorted(name for name in required if self._index.get(name) in (None, [None, None])):
            raise self.error(f"`{INDEX}` does not name its {', '.join(missing)}")
        if variant and self._weights("*", variant) == self._weights("*", None):
            raise self.error(f"it has no weights `variant={variant}`", hint="leave `variant=` out, or see its files")
        for name, component in self.components.items():
            self._check_component(name, component, variant)

    def _check_component(self, name: str, component: Untyped, variant: str | None) -> None:
        import torch

        try:
            load = component.from_pretrained  # fails for classes whose packages are missing
            if not issubclass(component, torch.nn.Module):
                load(self.folder / name, local_files_only=True)
                return
            files = self._weights(name, variant)
            indexes = [json.loads((self.folder / name / file).read_bytes()) for file in files if file.endswith(".json")]
            shards = {shard for index in indexes for shard in index["weight_map"].values()}
        except PIPELINE_ERRORS as error:
            hint = "install the package that it names, such as `sentencepiece` or `protobuf`"
            raise self.error(f"`{name}` could not be loaded: {first_line(error)}", hint=hint) from error
        if missing := sorted(shards - files):
            raise self.error(f"`{name}/{missing[0]}` is missing")
        if not any(file.endswith(".safetensors") for file in files):
            hint = "other formats are not read; other variants need `variant=`"
            raise self.error(f"`{name}` has no weights as safetensors", hint=hint)

    def _weights(self, name: str, variant: str | None) -> set[str]:
        """The files of weights that are loaded, with their index: those of the variant, or else those without one."""
        files = {path.name for path in self.folder.glob(f"{name}/*.safetensors*")}
        own = {file for file in files if variant and re.search(rf"\.{re.escape(variant)}[.-]", file)}
        return own or {file for file in files if _PLAIN_WEIGHTS.fullmatch(file)}

    def digest(self, variant: str | None) -> str:
        """12 hex digits of a SHA-256 over names and contents of the files that are loaded."""
        paths = [self.folder / INDEX]
        for name in sorted(self.components):
            unused = {path.name for path in self.folder.glob(f"{name}/*.safetensors*")} - self._weights(name, variant)
            paths += [path for path in sorted(self.folder.glob(f"{name}/*")) if path.name not in unused]
        digest = hashlib.sha256()
        for path in paths:
            if path.is_file() and path.suffix not in _NEVER_LOADED:
                digest.update(f"{path.relative_to(self.folder).as_posix()}\n{path.stat().st_size}\n".encode())
                with path.open("rb") as content:
                    while block := content.read(1 << 22):
                        digest.update(block)
        return digest.hexdigest()[:12]


def download_pipeline(repo: str, revision: str, variant: str | None) -> PipelineFiles:
    """The snapshot of a commit in the Hub's cache: what the pipeline loads, and no pickles."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    errors: tuple[type[BaseException], ...] = (*download_errors(), EntryNotFoundError)
    try:
        snapshot = Path(hf_hub_download(repo, INDEX, revision=revision)).parent
        files = PipelineFiles(folder=snapshot, name=repo, is_in_hub=True)
        _ = files.pipeline_class  # before anything else is downloaded
        from diffusers import DiffusionPipeline

        options = {"variant": variant, "use_safetensors": True, "trust_remote_code": False}
        DiffusionPipeline.download(repo, revision=snapshot.name, **options)
    except errors as error:
        problem, hint = f"it has no `{INDEX}`", "choose a model in diffusers' layout"
        is_offline = isinstance(error, LocalEntryNotFoundError)
        if "safetensors" in str(error) and http_status(error) is None:
            problem = "not all its weights are there as safetensors, and others are not read"
        elif is_offline or not isinstance(error, EntryNotFoundError):
            cause = (error.__cause__ if is_offline else None) or error
            why = explain(cause, repo=repo, revision=revision, kind="model", storage="HF_HOME")
            problem, hint = why.reason, f"{why.hint}, or set `model=` to a folder in diffusers' layout"
        message = f"The pipeline `{repo}` at revision `{revision}` could not be downloaded: {problem}."
        raise DrawerMisconfigured(message, hint=hint) from error
    return PipelineFiles(folder=snapshot, name=repo, is_in_hub=True)  # looks at the files that have arrived, too


def text_to_image_classes() -> tuple[type, ...]:
    """The classes that `AutoPipelineForText2Image` knows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries about each other
        try:
            from diffusers.pipelines.auto_pipeline import AUTO_TEXT2IMAGE_PIPELINES_MAPPING
        except (ImportError, RuntimeError) as error:
            problem = f"diffusers {version('diffusers')} cannot be imported: {first_line(error)}"
            raise DrawerMisconfigured(problem, hint="`pip install -U diffusers`, to fit transformers") from error
    return tuple(AUTO_TEXT2IMAGE_PIPELINES_MAPPING.values())


def first_line(error: BaseException) -> str:
    """The first line of an error that says something."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]
