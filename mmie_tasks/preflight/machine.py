"""Checks of this machine: Python packages, disk, GPUs."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, PackageNotFoundError, distributions, version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from mmie_tasks.core.files import cache_dir, free_bytes, readable_size
from mmie_tasks.hub.repository import hub_cache
from mmie_tasks.preflight.assets import is_writable
from mmie_tasks.preflight.findings import Finding

PACKAGES = ("torch", "transformers", "huggingface_hub", "datasets")

_LOW_DISK_BYTES = 2**30


def check_machine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Check what every benchmark needs: Python, packages and caches."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok", "Python", python)
    yield from check_copies("mmie-tasks", "mmie_tasks")
    yield from check_copies("lmms-eval", "lmms_eval")
    yield from map(_check_package, PACKAGES)
    yield check_folder("data cache", cache_dir(environment), "set `MMIE_TASKS_CACHE` to a folder")
    yield check_folder("Hub cache", hub_cache(), "set `HF_HOME` to a folder")


def check_copies(distribution: str, package: str) -> Iterator[Finding]:
    """The version of a package and the folder it is imported from; a warning about other copies.

    A user may have both an editable clone of lmms-eval and a wheel of it, and only one of them is
    the code that runs. Nothing is imported.
    """
    installed = list(distributions(name=distribution))[::-1]  # the first one is pip's
    versions = {folder: one.version for one in installed if (folder := _installed_at(one, package))}
    imported = _imported_from(find_spec(package))
    if imported is None and installed:
        hint = f"`pip uninstall {distribution}`, then install it again"
        yield Finding("problem", distribution, "is installed, but its code is gone", hint)
        return
    if imported is None:
        yield Finding("problem", distribution, "is not installed", f"`pip install {distribution}`")
        return
    in_use = versions.get(imported, "a copy unknown to pip")
    yield Finding("ok", distribution, f"{in_use}, imported from `{imported}`")
    importable = (_imported_from(PathFinder.find_spec(package, [entry])) for entry in sys.path)
    others = dict.fromkeys(folder for folder in (*importable, *versions) if folder)
    others.pop(imported, None)
    if others:
        listed = ", ".join(
            f"`{folder}` ({versions.get(folder, 'unknown to pip')})" for folder in others
        )
        message = f"there are other copies, which are not imported: {listed}"
        hint = f"keep one: `pip uninstall {distribution}`, or take a folder out of `PYTHONPATH`"
        yield Finding("warning", distribution, message, hint)


def _imported_from(spec: ModuleSpec | None) -> Path | None:
    """The folder of a package or the file of a module; None for a folder without ``__init__``."""
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).resolve()
    return path.parent if path.stem == "__init__" else path


def _installed_at(distribution: Distribution, package: str) -> Path | None:
    """The folder of the package; for an editable install, the one in its checkout."""
    source = json.loads(distribution.read_text("direct_url.json") or "{}")
    root = Path(str(distribution.locate_file("")))
    if source.get("dir_info", {}).get("editable"):
        root = Path(url2pathname(urlsplit(source["url"]).path))
    folders = (root / package, root / "src" / package)
    return next((folder.resolve() for folder in folders if folder.is_dir()), None)


def _check_package(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("problem", name, "is not installed", f"`pip install {name}`")


def check_folder(subject: str, path: Path, hint: str) -> Finding:
    """Whether a folder can be written, or created, and how much space is free."""
    if not is_writable(path):
        return Finding("problem", subject, f"`{path}` cannot be written", hint)
    free = free_bytes(path)
    message = f"{readable_size(free)} free for `{path}`"
    if free < _LOW_DISK_BYTES:
        return Finding("warning", subject, message, hint)
    return Finding("ok", subject, message)


def check_gpus(judge: str) -> Iterator[Finding]:
    """The GPUs that a judge in this process would use."""
    import torch

    if not torch.cuda.is_available():
        message = f"torch finds none: the judge `{judge}` would run on the CPU, which is slow"
        hint = "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`"
        yield Finding("warning", "GPU", message, hint)
    for index in range(torch.cuda.device_count()):
        subject = f"GPU {index}"
        try:
            free, total = torch.cuda.mem_get_info(index)
            name = torch.cuda.get_device_name(index)
        except RuntimeError:
            yield Finding("problem", subject, "torch cannot use it", "look at `nvidia-smi`")
        else:
            message = f"{name}, {readable_size(free)} of {readable_size(total)} free"
            yield Finding("ok", subject, message)
