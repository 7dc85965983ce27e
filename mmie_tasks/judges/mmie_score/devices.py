"""The device and dtype of the judge in this process, and its memory.

`choose_device` does not start CUDA, since the tested model may still have to fork.
"""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

DtypeOption: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]

_VLLM_SHARE = 0.92  # of a GPU's memory, which vLLM takes by default
_UNCLAIMED = 0.03  # of it, which others may take while vLLM starts

TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with `--predict_only "
    "--output_path OUT`, then score its answers with `--model predictions --model_args path=OUT` "
    "and the same `--tasks`"
)
"""Hint for a judge and a tested model that do not fit into memory together."""


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
        hint="start no more processes than GPUs; or use `device=cpu` (slow); or look at "
        "`nvidia-smi` and `CUDA_VISIBLE_DEVICES`",
    )


def gpus_of_process(option: str, environment: Mapping[str, str]) -> tuple[int, ...]:
    """The GPUs of a server that this process starts: all that it sees, or with a number in `option`
    or with other processes of the run on the machine, its own one; empty on a CPU.

    Raises like `choose_device`.
    """
    import torch

    device = choose_device(option, environment)
    if device.type == "cpu":
        return ()
    if option in ("auto", "cuda") and environment.get("WORLD_SIZE", "1").strip() in ("", "1"):
        return tuple(range(torch.cuda.device_count()))
    return (device.index,)


def cuda_names(gpus: Sequence[int], environment: Mapping[str, str]) -> str:
    """The value of ``CUDA_VISIBLE_DEVICES`` with which a child process sees these GPUs only.

    >>> cuda_names([1], {"CUDA_VISIBLE_DEVICES": "4,6"}), cuda_names([0, 1], {})
    ('6', '0,1')
    """
    names = [name for name in environment.get("CUDA_VISIBLE_DEVICES", "").split(",") if name]
    return ",".join(names[gpu] if names else str(gpu) for gpu in gpus)


def free_share(gpus: Sequence[int]) -> float | None:
    """The share of each GPU's memory that a server may take, rounded down, if this process holds
    more of one than vLLM's default leaves; else, and before CUDA is started here, None.
    """
    import torch

    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return None
    free = (memory[0] / memory[1] for memory in map(torch.cuda.mem_get_info, gpus))
    share = math.floor((min(free) - _UNCLAIMED) * 100) / 100
    return share if share < _VLLM_SHARE else None


def choose_dtype(option: DtypeOption, device: torch.device) -> torch.dtype:
    """The dtype. ``auto`` is bfloat16 on a GPU, as in the official code, and float32 on a CPU."""
    import torch

    if option == "auto":
        option = "bfloat16" if device.type == "cuda" else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


def dtype_name(dtype: torch.dtype) -> str:
    """The dtype as users write it: ``bfloat16``."""
    return str(dtype).removeprefix("torch.")


def release_memory() -> None:
    """Return the memory of deleted tensors to the device, if CUDA was started; never raises."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        try:
            torch.cuda.empty_cache()
        except RuntimeError as error:  # after some errors of CUDA
            logger.warning(f"Unused memory was not returned to the device: {first_line(error)}")
