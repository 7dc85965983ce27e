"""Checks of this machine: Python packages, disk, GPUs."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mmie_tasks.core.files import cache_dir, free_bytes, readable_size
from mmie_tasks.hub.repository import hub_cache
from mmie_tasks.preflight.findings import Finding
from mmie_tasks.preflight.package_copies import check_copies
from mmie_tasks.preflight.plan import is_writable

PACKAGES = ("torch", "transformers", "huggingface_hub", "datasets")

_LOW_DISK_BYTES = 2**30


def check_machine(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Python, packages and caches: what every benchmark needs."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok", "Python", python)
    yield from check_copies("mmie-tasks", "mmie_tasks")
    yield from check_copies("lmms-eval", "lmms_eval")
    yield from map(_check_package, PACKAGES)
    yield check_folder("data cache", cache_dir(environment), "set `MMIE_TASKS_CACHE` to a folder")
    yield check_folder("Hub cache", hub_cache(), "set `HF_HOME` to a folder")


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
