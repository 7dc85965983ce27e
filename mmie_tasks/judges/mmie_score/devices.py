"""Device, dtype and attention of the judge by its options, and how much memory is free.

Nothing here starts CUDA in this process, except `choose_dtype`, `choose_attention` and `free_bytes`
on a GPU, which are called when the weights are loaded.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.checkpoint.config import TextConfig
    from mmie_tasks.judges.mmie_score.engine.attention import Attention

DtypeOption: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]
AttentionOption: TypeAlias = Literal["auto", "flash", "sdpa"]

_GROUP_FILES = {  # of control groups, version 2 and 1: where they are, limit and usage
    "": ("sys/fs/cgroup", "memory.max", "memory.current"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where and how the model is computed.

    Attributes:
        device: Of this process.
        dtype: Of weights, keys and values.
        attention: Over pages.
        max_memory_bytes: Upper limit; None is all that is free.
        graphs: Whether decoding steps are captured as CUDA graphs.
    """

    device: torch.device
    dtype: torch.dtype
    attention: Attention
    max_memory_bytes: int | None
    graphs: bool

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.type == "cuda"

    @property
    def dtype_name(self) -> str:
        """The dtype as users write it: ``bfloat16``."""
        return str(self.dtype).removeprefix("torch.")


def choose_device(option: str, environment: Mapping[str, str]) -> torch.device:
    """The device of this process.

    Args:
        option: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``cuda`` is the GPU with this process's
            number on the machine (``LOCAL_RANK``), so that each of several processes takes its own.
            ``auto`` is the same if there is a GPU, else the CPU.
        environment: With ``LOCAL_RANK``, if a launcher has set it.

    Raises:
        JudgeMisconfigured: There is no such device.
    """
    import torch

    parsed = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", option, re.ASCII)
    if parsed is None:
        raise JudgeMisconfigured(
            f"`device={option}` is not a known device.",
            hint="write `device=auto`, `device=cpu`, `device=cuda` or `device=cuda:0`",
        )
    if option == "cpu" or (option == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    rank = environment.get("LOCAL_RANK", "").strip() or "0"
    if not parsed[1] and not (rank.isascii() and rank.isdecimal()):
        raise JudgeMisconfigured(
            f"The environment variable `LOCAL_RANK` is `{rank}`, not a number.",
            hint="`accelerate launch` and `torchrun` set it; unset it for a single process",
        )
    number = int(parsed[1] or rank)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number < count:
        return torch.device("cuda", number)
    if not count:
        raise JudgeMisconfigured(
            f"`device={option}` was requested, and torch finds no GPU it can use.",
            hint="use `device=cpu` (slow), or look at `nvidia-smi` and "
            '`python -c "import torch; print(torch.version.cuda)"`',
        )
    if parsed[1]:
        raise JudgeMisconfigured(
            f"`device={option}` was requested, and there are {count}: they count from 0.",
            hint="use a smaller number, or `device=cuda`; `CUDA_VISIBLE_DEVICES` hides GPUs",
        )
    raise JudgeMisconfigured(
        f"This is process {number} (from 0) on this machine, and it has {count} GPU(s): "
        "each process judges on its own.",
        hint=f"start at most {count} process(es), or put several on one GPU with `device=cuda:0` and `max_memory=`",
    )


def choose_dtype(option: DtypeOption, device: torch.device) -> torch.dtype:
    """The dtype of the computation.

    ``auto`` is bfloat16, as in the official code, on a GPU that supports it, else float32.
    """
    import torch

    if option == "auto":
        modern = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
        option = "bfloat16" if modern else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


def choose_attention(
    option: AttentionOption, *, device: torch.device, dtype: torch.dtype, config: TextConfig
) -> Attention:
    """The attention implementation.

    Args:
        option: ``flash``, ``sdpa``, or ``auto``: flash if it is available and passes its self-check
            on this device, else sdpa, with a log line that says why.
        device: Device of the computation.
        dtype: Of keys and values.
        config: Number and size of the heads.

    Raises:
        JudgeMisconfigured: ``flash`` cannot be used here.
    """
    from mmie_tasks.judges.mmie_score.engine import flash
    from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention

    if option == "sdpa":
        return SdpaAttention()
    reason = flash.available(device, dtype, config.head_dim) or flash.self_check(
        device, dtype, heads=config.num_attention_heads, kv_heads=config.kv_heads, head_dim=config.head_dim
    )
    if reason is None:
        return flash.FlashAttention()
    if option == "flash":
        raise JudgeMisconfigured(f"`attention=flash` cannot be used: {reason}.", hint="use `attention=auto`")
    logger.log(
        "WARNING" if device.type == "cuda" else "DEBUG",
        f"MMIE-Score computes attention without the flash kernel: {reason}.",
    )
    return SdpaAttention()


@contextmanager
def exact_fp32() -> Iterator[None]:
    """Compute matrix products and convolutions of fp32 numbers in fp32 on GPUs too.

    By default cuDNN rounds the factors to TF32, 10 bits. The switch belongs to the whole process;
    its value is restored afterwards.
    """
    import torch

    backends = torch.backends
    owners: tuple[object, object] = (backends.cuda.matmul, backends.cudnn)
    switch: tuple[str, object] = ("allow_tf32", False)
    if hasattr(backends.cuda.matmul, "fp32_precision"):  # torch 2.9 and later
        owners = (backends.cuda.matmul, backends.cudnn.conv)  # type: ignore[attr-defined]
        switch = ("fp32_precision", "ieee")
    name, exact = switch
    before = [getattr(owner, name) for owner in owners]
    try:
        for owner in owners:
            setattr(owner, name, exact)
        yield
    finally:
        for owner, old in zip(owners, before, strict=True):
            setattr(owner, name, old)


def free_bytes(device: torch.device) -> int:
    """Bytes that this process may take now. On a GPU, torch first returns what it keeps unused.

    Starts CUDA in this process if the device is a GPU.
    """
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # type: ignore[import-untyped]

    available: int = psutil.virtual_memory().available
    limit = container_free_bytes(Path("/"))
    return available if limit is None else min(available, limit)


def release_memory() -> None:
    """Return the memory that torch keeps for deleted tensors to the device, if CUDA was started."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def container_free_bytes(root: Path) -> int | None:
    """Bytes that this process's container may still take; None without a limit.

    Reads Linux's control groups, version 2 and 1. File pages that the kernel can drop are free.

    Args:
        root: Of the file system.
    """
    free = []
    for folder, limit_name, usage_name in _control_groups(root):
        limit, usage = _number(folder / limit_name), _number(folder / usage_name)
        if limit is not None and usage is not None:
            # Version 1 counts the group alone first, and with the groups below it last.
            droppable = re.findall(r"^(?:total_)?inactive_file (\d+)", _text(folder / "memory.stat"), re.MULTILINE)
            free.append(max(0, limit - usage + int(droppable[-1] if droppable else 0)))
    return min(free, default=None)


def _control_groups(root: Path) -> Iterator[tuple[Path, str, str]]:
    """Folders of this process's group and those above, with their files of limit and usage."""
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in _GROUP_FILES.keys() & controllers.split(","):
            mount, limit, usage = _GROUP_FILES[controller]
            top = root / mount
            own = top / path.strip("/")
            for folder in (own, *own.parents):
                if folder.is_relative_to(top):
                    yield folder, limit, usage


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # "max" without a limit


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # another system, or no permission: then there is no limit to read
