"""Checks of this machine: Python packages and GPUs."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from mmie_tasks.core.files import readable_size
from mmie_tasks.preflight.findings import Finding

PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")


def check_packages() -> Iterator[Finding]:
    """The versions of Python and of the packages that every benchmark needs."""
    python = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    yield Finding("ok", "Python", python)
    yield from map(_package, PACKAGES)


def _package(name: str) -> Finding:
    try:
        return Finding("ok", name, version(name))
    except PackageNotFoundError:
        return Finding("problem", name, "is not installed", f"`pip install {name}`")


def check_gpus(judge: str) -> Iterator[Finding]:
    """The GPUs that a judge in this process would use."""
    import torch

    if not torch.cuda.is_available():
        message = f"torch finds none: the judge `{judge}` would run on the CPU, which is slow"
        hint = "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`"
        yield Finding("ok", "GPU", message, hint)
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
