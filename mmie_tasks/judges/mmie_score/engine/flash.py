"""Attention over pages with the flash kernel that torch brings: for GPUs, in half precision.

What the kernel asks for (torch 2.15, ``torch.nn.attention.varlen`` and ``flash_api.cpp``): pages of
a multiple of 256 tokens; starts, lengths and page tables in int32; starts of keys although the
lengths decide. Keys are never split (``num_splits=1``): then a row's result does not depend on its
neighbours, and cuDNN, which would be preferred, is out. Whether all this holds on a GPU is tried
there, when the judge is loaded: `flash_check.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attend, Rows

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.static import Static

Kernel: TypeAlias = Callable[..., torch.Tensor]
"""Called as ``torch.nn.attention.varlen.varlen_attn`` is."""

_NEEDED = {"window_size", "enable_gqa", "seqused_k", "block_table", "num_splits"}
_DTYPES = (torch.bfloat16, torch.float16)


def _pinned(*tensors: torch.Tensor, **options: object) -> torch.Tensor:
    """Torch's kernel, and no other that it might prefer."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.varlen import varlen_attn

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        found: torch.Tensor = varlen_attn(*tensors, **options)  # type: ignore[arg-type, assignment]
    return found


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """All rows in one call of a kernel that reads the pages where they are."""

    page_tokens: int = 256
    name: str = "flash"
    kernel: Kernel = _pinned

    def plan(self, rows: Rows, device: torch.device) -> Attend:
        """As `Attention.plan`; everything goes to the device in one transfer."""
        count = len(rows.lengths)
        used = [-(-length // self.page_tokens) for length in rows.lengths]
        width = max(used)
        tables = [
            [*table[:pages], *[0] * (width - pages)]
            for table, pages in zip(rows.tables, used, strict=True)
        ]
        step = width * self.page_tokens
        numbers = [*rows.starts, *range(0, (count + 1) * step, step), *rows.lengths]
        numbers += [page for table in tables for page in table]
        sent = torch.tensor(numbers, dtype=torch.int32).to(device)
        sizes = [count + 1, count + 1, count, count * width]
        starts, key_starts, lengths, table = torch.split(sent, sizes)
        return _Step(
            kernel=self.kernel,
            starts=starts,
            key_starts=key_starts,
            lengths=lengths,
            table=table.view(count, width),
            most_queries=max(stop - start for start, stop in pairwise(rows.starts)),
            most_keys=step,
        ).attend

    def plan_static(self, static: Static) -> Attend:
        """For steps of one query a row, whose numbers stand in tensors that stay where they are.

        What it gives may be captured in a CUDA graph: nothing in it is read on the host.
        """
        count, width = static.table.shape
        step = width * self.page_tokens
        device = static.table.device
        every = torch.arange(count + 1, dtype=torch.int32, device=device)
        return _Step(
            kernel=self.kernel,
            starts=every,
            key_starts=every * step,
            lengths=static.lengths,
            table=static.table,
            most_queries=1,
            most_keys=step,
        ).attend


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """One call for each layer, all alike."""

    kernel: Kernel
    starts: torch.Tensor
    key_starts: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor
    most_queries: int
    most_keys: int

    def attend(
        self, queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        """As `Attend`."""
        # With one query everywhere the kernel may take another way, which rounds differently: a
        # row would then change with what is computed beside it. So it is never told of just one.
        return self.kernel(
            queries,
            keys,
            values,
            self.starts,
            self.key_starts,
            max(2, self.most_queries),
            self.most_keys,
            window_size=(-1, 0),
            enable_gqa=queries.shape[1] != keys.shape[2],
            seqused_k=self.lengths,
            block_table=self.table,
            num_splits=1,
        )


def available(device: torch.device, dtype: torch.dtype, head_dim: int) -> str | None:
    """Why the kernel cannot be used here, in words; None if nothing speaks against it."""
    if device.type != "cuda":
        return f"it needs a GPU, and this is `{device}`"
    if dtype not in _DTYPES:
        return f"it computes in bfloat16 and float16, not in {str(dtype).removeprefix('torch.')}"
    if head_dim % 8 or head_dim > 256:
        return f"it takes heads of a multiple of 8 numbers, up to 256, not of {head_dim}"
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return f"torch {torch.__version__} does not have it"
    if missing := _NEEDED - inspect.signature(varlen_attn).parameters.keys():
        return f"torch {torch.__version__} has it without {', '.join(sorted(missing))}"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"it needs compute capability 8.0, and the GPU has {major}.{minor}"
    return None
