"""Which device, dtype and attention: from options to what torch knows.

Nothing here starts CUDA in this process, except `choose_dtype` and `choose_attention` on a GPU:
these two are asked when the weights are loaded.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

    from mmie_tasks.judges.mmie_score.engine.attention import Attention


DTYPES = ("auto", "bfloat16", "float16", "float32")
ATTENTIONS = ("auto", "flash", "sdpa")


def choose_device(option: str, environment: Mapping[str, str]) -> torch.device:
    """The device of this process.

    Args:
        option: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``auto`` is the GPU of this process if
            there is one. ``cuda`` is the one with the number of the process on this machine
            (``LOCAL_RANK``), so that several processes take one each.
        environment: Where the launcher of several processes says that number.

    Raises:
        JudgeMisconfigured: There is no such device, or the option says nothing of the kind.
    """
    import torch

    known = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", option, re.ASCII)
    if known is None:
        raise JudgeMisconfigured(
            f"`device={option}` is no device that is known.",
            hint="write `device=auto`, `device=cpu`, `device=cuda` or `device=cuda:0`",
        )
    if option == "cpu" or (option == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    number = int(known[1]) if known[1] else _local_rank(environment)
    _check_gpu(option, number, chosen=bool(known[1]))
    return torch.device("cuda", number)


def choose_dtype(option: str, device: torch.device) -> torch.dtype:
    """What is computed in.

    Args:
        option: ``auto``, ``bfloat16``, ``float16`` or ``float32``. ``auto`` is bfloat16, as the
            official code, on a GPU that computes in it, else float32.
        device: Where.

    Raises:
        JudgeMisconfigured: The option says something else.
    """
    import torch

    if option not in DTYPES:
        raise JudgeMisconfigured(
            f"`dtype={option}` is not known.", hint=f"one of {', '.join(DTYPES)}"
        )
    if option == "auto":
        modern = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
        option = "bfloat16" if modern else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


def choose_attention(
    option: str,
    *,
    device: torch.device,
    dtype: torch.dtype,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> Attention:
    """The way attention is computed.

    Args:
        option: ``flash``, ``sdpa``, or ``auto``: flash where it is there and gives, tried on this
            very device, what it should; else sdpa, and the log says why.
        device: Where.
        dtype: Of keys and values.
        heads: Of queries.
        kv_heads: Of keys and values.
        head_dim: Numbers of a head.

    Raises:
        JudgeMisconfigured: ``flash`` cannot be used here, or the option says something else.
    """
    from mmie_tasks.judges.mmie_score.engine import flash
    from mmie_tasks.judges.mmie_score.engine import flash as flash_check
    from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention

    if option not in ATTENTIONS:
        raise JudgeMisconfigured(
            f"`attention={option}` is not known.", hint=f"one of {', '.join(ATTENTIONS)}"
        )
    if option == "sdpa":
        return SdpaAttention()
    why_not = flash.available(device, dtype, head_dim) or flash_check.self_check(
        device, dtype, heads=heads, kv_heads=kv_heads, head_dim=head_dim
    )
    if why_not is None:
        return flash.FlashAttention()
    if option == "flash":
        raise JudgeMisconfigured(
            f"`attention=flash` cannot be used: {why_not}.", hint="use `attention=auto`"
        )
    logger.log(
        "WARNING" if device.type == "cuda" else "DEBUG",
        f"MMIE-Score computes attention without the flash kernel: {why_not}.",
    )
    return SdpaAttention()


@contextmanager
def exact_fp32() -> Iterator[None]:
    """Within it, products and convolutions of fp32 numbers are computed in fp32 on GPUs too.

    By default cuDNN rounds the factors to TF32, 10 bits. The setting is one of the whole process;
    it is put back afterwards.
    """
    import torch

    backends = torch.backends
    switches: list[tuple[object, str, object]]
    if hasattr(backends.cuda.matmul, "fp32_precision"):  # torch 2.9 and later
        switches = [
            (backends.cuda.matmul, "fp32_precision", "ieee"),
            (backends.cudnn.conv, "fp32_precision", "ieee"),  # type: ignore[attr-defined]
        ]
    else:
        switches = [
            (backends.cuda.matmul, "allow_tf32", False),
            (backends.cudnn, "allow_tf32", False),
        ]
    before = [getattr(owner, name) for owner, name, _ in switches]
    try:
        for owner, name, exact in switches:
            setattr(owner, name, exact)
        yield
    finally:
        for (owner, name, _), old in zip(switches, before, strict=True):
            setattr(owner, name, old)


def _local_rank(environment: Mapping[str, str]) -> int:
    text = environment.get("LOCAL_RANK", "").strip() or "0"
    if not (text.isascii() and text.isdecimal()):
        raise JudgeMisconfigured(
            f"The environment variable `LOCAL_RANK` is `{text}`, not a number.",
            hint="`accelerate launch` and `torchrun` set it; unset it for a single process",
        )
    return int(text)


def _check_gpu(option: str, number: int, *, chosen: bool) -> None:
    """Raise if there is no GPU of this number."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if number < count:
        return
    if not count:
        raise JudgeMisconfigured(
            f"`device={option}` was asked for, and torch finds no GPU it can use.",
            hint="use `device=cpu` (slow), or look at `nvidia-smi` and "
            '`python -c "import torch; print(torch.version.cuda)"`',
        )
    if chosen:
        raise JudgeMisconfigured(
            f"`device={option}` was asked for, and there are {count}: they count from 0.",
            hint="use a smaller number, or `device=cuda`; `CUDA_VISIBLE_DEVICES` hides GPUs",
        )
    raise JudgeMisconfigured(
        f"This is process {number} (from 0) on this machine, and it has {count} GPU(s): "
        "each process judges on its own.",
        hint=f"start at most {count} process(es), or put several on one GPU with `device=cuda:0` "
        "and `max_memory=`",
    )


# How much memory a device has free, asked now.


def free_bytes(device: torch.device) -> int:
    """What this process may take now. On a GPU, torch gives back first what it kept unused.

    This starts CUDA in this process.
    """
    if device.type == "cuda":
        import torch

        torch.cuda.empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # type: ignore[import-untyped]

    available: int = psutil.virtual_memory().available
    left = container_left(Path("/"))
    return available if left is None else min(available, left)


def give_back() -> None:
    """Let the device have what torch keeps for tensors that are gone, if CUDA was started."""
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.empty_cache()


def container_left(root: Path) -> int | None:
    """Bytes that the container of this process may still take; None where nothing limits it.

    Linux's control groups, version 2 and 1. Pages of files that the kernel can drop are free.

    Args:
        root: Of the file system.
    """
    found = []
    for folder, limit, usage in _groups(root):
        allowed, used = _number(folder / limit), _number(folder / usage)
        if allowed is not None and used is not None:
            # Version 1 counts its own alone first, and with the groups below it in the end.
            stat = _text(folder / "memory.stat")
            dropped = re.findall(r"^(?:total_)?inactive_file (\d+)", stat, re.MULTILINE)
            found.append(max(0, allowed - used + int(dropped[-1] if dropped else 0)))
    return min(found, default=None)


def _groups(root: Path) -> list[tuple[Path, str, str]]:
    """Folders of this process's group and those above it, with the names of limit and usage."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, names = root / "sys/fs/cgroup", ("memory.max", "memory.current")
        elif "memory" in controllers.split(","):
            top = root / "sys/fs/cgroup/memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
        else:
            continue
        own = top / path.strip("/")
        found += [
            (folder, *names) for folder in (own, *own.parents) if top in (folder, *folder.parents)
        ]
    return found


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isdecimal() else None  # "max" where there is no limit


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""  # another system, or not allowed to look: then this limits nothing
