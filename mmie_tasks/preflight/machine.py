"""Python, packages, GPUs and disks."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mmie_tasks.core.paths import cache_dir
from mmie_tasks.preflight.findings import Finding, folder, gib, ok, problem, warning

PACKAGES = ("mmie-tasks", "lmms-eval", "torch", "transformers", "huggingface_hub", "datasets")
IN_PROCESS_TRANSFORMERS = 5
OLDEST_LMMS_EVAL = (0, 7, 3)

# Of one photo and two pictures of 512 px: computed from the model's shape, not measured.
_SAMPLE_TFLOP = 52


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Everything that is there whatever is evaluated."""
    yield ok("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    for package in PACKAGES:
        yield _package(package)
    yield from _gpus()
    yield folder("data cache", cache_dir(environment), "set `MMIE_TASKS_CACHE` to a folder")
    yield folder("Hub cache", _hub_cache(), "set `HF_HOME` to a folder")


def _package(name: str) -> Finding:
    found = installed(name)
    if not found:
        return problem(name, "is not installed", f"`pip install {name}`")
    numbers = metrics_of(found)
    if name == "lmms-eval" and numbers < OLDEST_LMMS_EVAL:
        return problem(name, f"{found}, and 0.7.3 or later is needed", "`pip install -U lmms-eval`")
    if name == "transformers" and numbers < (IN_PROCESS_TRANSFORMERS,):
        hint = "`pip install -U transformers`, or take another judge"
        return warning(name, f"{found}, and the judge `mmie_score` needs 5.x", hint)
    return ok(name, found)


def installed(name: str) -> str:
    """The version of an installed package; empty where it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def metrics_of(text: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> metrics_of("5.23.0.dev1")
    (5, 23, 0)
    """
    leading = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in leading[0].split(".")) if leading else ()


def _hub_cache() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _gpus() -> Iterator[Finding]:
    import torch

    if not torch.cuda.is_available():
        built = torch.version.cuda or torch.version.hip
        why = "torch finds none it can use" if built else "this torch is built without GPU support"
        yield warning(
            "GPU",
            f"none ({why}): a judge in process would run on the CPU, where a typical MMIE sample "
            f"takes about {_SAMPLE_TFLOP} TFLOP (computed, not measured)",
            "judge on a machine with a GPU, or on a server: `--judge openai:MODEL`",
        )
        return
    for number in range(torch.cuda.device_count()):
        yield _gpu(number)


def _gpu(number: int) -> Finding:
    import torch

    subject = f"GPU {number}"
    try:
        name = torch.cuda.get_device_name(number)
        modern = torch.cuda.get_device_capability(number) >= (8, 0)
        free, total = torch.cuda.mem_get_info(number)
    except RuntimeError as error:
        said = str(error).partition("\n")[0]
        return problem(subject, f"it cannot be used: {said}", "look at `nvidia-smi`")
    dtypes = "bfloat16" if modern else "no bfloat16"
    found = f"{name}, {gib(free)} of {gib(total)} free, {dtypes}"
    if modern:
        return ok(subject, found)
    return warning(subject, found, "a judge in process computes in float32 here, which is slow")
