"""Memory of the judge's device: how much is free, how to return it, and errors when it is full."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING

from loguru import logger
from pydantic import ByteSize, TypeAdapter, ValidationError

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.checkpoint import Checkpoint


TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with `--predict_only "
    "--output_path OUT`, then score its answers with `--model predictions --model_args path=OUT` "
    "and the same `--tasks`"
)
"""Hint for a judge and a tested model that do not fit into memory together."""

GIB = 2**30
LEAST_TOKENS = 4096
"""With memory for fewer tokens it is not worth loading the weights."""


class DeviceFull(JudgeMisconfigured):
    """The device has too little free memory now; later it may have more."""


def loaded_bytes(checkpoint: Checkpoint, dtype: torch.dtype) -> int:
    """Bytes of the weights in this dtype."""
    return checkpoint.weight_bytes * dtype.itemsize // (4 if checkpoint.dtype == "float32" else 2)


def key_value_bytes(checkpoint: Checkpoint, dtype: torch.dtype) -> int:
    """Bytes of the key and value of one token, in all layers."""
    text = checkpoint.config.llm_config
    return 2 * text.num_hidden_layers * text.kv_heads * text.head_dim * dtype.itemsize


def free_bytes(device: torch.device) -> int:
    """Bytes that this process may take now. On a GPU, starts CUDA and has torch return unused
    memory first.
    """
    if device.type == "cuda":
        import torch

        _empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # type: ignore[import-untyped]

    available: int = psutil.virtual_memory().available
    return available


def device_bytes(device: torch.device) -> int:
    """All bytes of the device, used or not; starts CUDA on a GPU."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[1]
    import psutil

    total: int = psutil.virtual_memory().total
    return total


def release_memory() -> None:
    """Return the memory of deleted tensors to the device, if CUDA was started; never raises."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        _empty_cache()


def _empty_cache() -> None:
    """Have torch return unused memory, which fails after some errors of CUDA."""
    import torch

    try:
        torch.cuda.empty_cache()
    except RuntimeError as error:
        logger.warning(f"Unused memory could not be returned to the device: {first_line(error)}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device or the machine had no memory left; torch has no class for the latter."""
    import torch

    texts = ("not enough memory", "can't allocate memory")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in texts)


def parse_bytes(text: str) -> int:
    """The number of bytes in a text with GiB, GB, MiB or MB; raises `JudgeMisconfigured` for 0 and
    for anything else.

    >>> parse_bytes("20 GiB"), parse_bytes("1.5GB")
    (21474836480, 1500000000)
    """
    with suppress(ValidationError):
        if size := TypeAdapter(ByteSize).validate_python(text):
            return int(size)
    message = f"`max_memory={text}` is not an amount of memory."
    raise JudgeMisconfigured(
        message, hint="write it like `max_memory=20GiB`; GB, MiB and MB are known too"
    )
