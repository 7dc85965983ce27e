"""How much memory a device has free, asked now."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


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
