"""The device and dtype of the judge, by its options.

`choose_device` and `choose_dtype` do not start CUDA in this process, since the tested model may
still have to fork. `start` and `describe` are called when the weights are loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch


DtypeOption: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]


def choose_device(option: str, environment: Mapping[str, str]) -> torch.device:
    """The device of this process: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``.

    If this process sees several GPUs, ``cuda`` is the one with the process's number on the machine,
    ``LOCAL_RANK``, so that each process takes its own. ``auto`` is ``cuda`` if there is a GPU, else
    ``cpu``. Raises `JudgeMisconfigured` if there is no such device.
    """
    import torch

    parsed = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", option, re.ASCII)
    if parsed is None:
        raise JudgeMisconfigured(
            f"`device={option}` is not a known device.",
            hint="write `device=auto`, `device=cpu`, `device=cuda` or `device=cuda:0`",
        )
    # Not `is_available`, after which a forked process could not use CUDA.
    count = torch.cuda.device_count() if option != "cpu" else 0
    if option == "cpu" or (option == "auto" and not count):
        return torch.device("cpu")
    rank = environment.get("LOCAL_RANK", "").strip() if count > 1 else ""
    number = int(parsed[1] or rank or 0)
    if number < count:
        return torch.device("cuda", number)
    process = f" in process {rank} of this machine, each of which judges on its own" if rank else ""
    raise JudgeMisconfigured(
        f"`device={option}` was requested{process}, and torch finds {count or 'no'} GPU(s) that it "
        "can use; they count from 0.",
        hint="start no more processes than GPUs, or put several on one with `device=cuda:0` and "
        "`max_memory=`; or use `device=cpu` (slow); or look at `nvidia-smi` and "
        "`CUDA_VISIBLE_DEVICES`",
    )


def start(device: torch.device) -> None:
    """Start CUDA on a GPU; raises `JudgeMisconfigured` if it does not work."""
    import torch

    if device.type != "cuda":
        return
    try:
        torch.cuda.get_device_properties(device)
    except (RuntimeError, AssertionError) as error:
        raise JudgeMisconfigured(
            f"`{device}` cannot be used: {first_line(error)}",
            hint='look at `nvidia-smi` and `python -c "import torch; torch.cuda.init()"`; '
            "`device=cpu` is slow",
        ) from error


def _has_bfloat16(device: torch.device) -> bool:
    """Whether a GPU computes in bfloat16 (compute capability 8.0); before CUDA is started, true."""
    import torch

    if device.type != "cuda":
        return False
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    major, _ = torch.cuda.get_device_capability(device)
    return major >= 8


def choose_dtype(option: DtypeOption, device: torch.device) -> torch.dtype:
    """The dtype. ``auto`` is bfloat16 on a GPU that supports it, as in the official code, else
    float32.
    """
    import torch

    if option == "auto":
        option = "bfloat16" if _has_bfloat16(device) else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype as users write it: ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def describe(device: torch.device) -> str:
    """The device and the versions that may change tokens: ``NVIDIA H200, torch 2.12.0``. Starts
    CUDA.
    """
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return f"{name}, torch {torch.__version__}"
