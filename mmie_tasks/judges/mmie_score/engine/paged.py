"""Attention over pages with torch's flash kernel, for GPUs and half precision, and its self-check.

Requirements of the kernel (torch 2.15, ``torch.nn.attention.varlen`` and ``flash_api.cpp``): pages of a multiple of 256
tokens; starts, lengths and page tables in int32; starts of keys although the lengths decide. Keys are never split
(``num_splits=1``): a row's result then does not depend on its neighbours, and cuDNN, which torch would prefer, is
excluded. `self_check` tries all this on the GPU itself when the judge is loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attend, Attention, BatchLayout, SdpaAttention

Kernel: TypeAlias = Callable[..., torch.Tensor]
"""A function with the parameters of ``torch.nn.attention.varlen.varlen_attn``."""

_REQUIRED = {"window_size", "enable_gqa", "seqused_k", "block_table", "num_splits"}
_DTYPES = (torch.bfloat16, torch.float16)


def _torch_kernel(*tensors: torch.Tensor, **options: object) -> torch.Tensor:
    """Torch's flash kernel, and no other that torch might prefer."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.varlen import varlen_attn

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        output: torch.Tensor = varlen_attn(*tensors, **options)  # type: ignore[arg-type, assignment]
    return output


@dataclass(frozen=True, slots=True)
class PagedAttention:
    """All rows in one call of a kernel that reads the pages in place."""

    page_tokens: int = 256
    name: str = "flash"
    kernel: Kernel = _torch_kernel

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """See `Attention.plan`; its numbers go to the device in one transfer."""
        count = len(layout.lengths)
        pages_used = [-(-length // self.page_tokens) for length in layout.lengths]
        width = max(pages_used)
        numbers = [*layout.starts, *layout.lengths]
        for table, pages in zip(layout.tables, pages_used, strict=True):
            numbers += [*table[:pages], *[0] * (width - pages)]
        on_device = torch.tensor(numbers, dtype=torch.int32).to(device)
        starts, lengths, table_numbers = torch.split(on_device, [count + 1, count, count * width])
        max_queries = max(stop - start for start, stop in pairwise(layout.starts))
        return self._attend(starts, lengths, table_numbers.view(count, width), max_queries)

    def plan_decoding(self, lengths: torch.Tensor, table: torch.Tensor) -> Attend:
        """For steps of one query a row, whose numbers are in tensors at fixed addresses.

        The function reads nothing on the host, so it can be captured in a CUDA graph.

        Args:
            lengths: Keys that each row sees, (rows,), int32.
            table: Pages of each row, (rows, pages of the longest row), int32.
        """
        starts = torch.arange(len(lengths) + 1, dtype=torch.int32, device=table.device)
        return self._attend(starts, lengths, table, max_queries=1)

    def _attend(self, starts: torch.Tensor, lengths: torch.Tensor, table: torch.Tensor, max_queries: int) -> Attend:
        rows, width = table.shape
        max_keys = width * self.page_tokens
        key_starts = max_keys * torch.arange(rows + 1, dtype=torch.int32, device=table.device)

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            return self.kernel(
                queries,
                keys,
                values,
                starts,
                key_starts,
                # For a single query in every row the kernel may take another path, which rounds
                # differently; a row would then depend on its neighbours. So 2 are announced.
                max(2, max_queries),
                max_keys,
                window_size=(-1, 0),
                enable_gqa=queries.shape[1] != keys.shape[2],
                seqused_k=lengths,
                block_table=table,
                num_splits=1,
            )

        return attend


def available(device: torch.device, dtype: torch.dtype, head_dim: int) -> str | None:
    """Why torch's kernel cannot be used here; None if it can."""
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
    if missing := _REQUIRED - inspect.signature(varlen_attn).parameters.keys():
        return f"torch {torch.__version__} has it without {', '.join(sorted(missing))}"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"it needs compute capability 8.0, and the GPU has {major}.{minor}"
    return None


_CHECKED_ROWS = ((1, 1), (1, 256), (300, 300), (1, 257), (77, 600), (256, 512), (1, 700), (5, 261))
"""Queries and keys of each row of the self-check."""
_TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 4e-3}  # of results of about 1
_QUERY_SCALE = 3  # peaked weights: with even ones a missing or surplus key hardly shows
_BEYOND_LAST_KEY = 100  # content of the last page behind a row's last key
_KERNEL_ERRORS = (RuntimeError, TypeError, ValueError, AssertionError, ImportError)


def self_check(
    device: torch.device,
    dtype: torch.dtype,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    attention: PagedAttention | None = None,
) -> str | None:
    """Compute attention on random numbers: chunks of prompts and single queries, shuffled pages.

    Returns:
        What is wrong: the kernel raises, differs from `SdpaAttention` in fp32, or gives a row
        other bits among other rows than alone. None if nothing is wrong.
    """
    attention = attention or PagedAttention()
    try:
        trial = _Trial(device, dtype, heads, kv_heads, head_dim, attention.page_tokens)
        plain = SdpaAttention(page_tokens=attention.page_tokens)
        together = trial.computed(attention, range(len(_CHECKED_ROWS)))
        for index, (queries, length) in enumerate(_CHECKED_ROWS):
            output = together[index]
            which = f"of {queries} queries on {length} keys"
            (expected,) = trial.computed(plain, [index], torch.float32)
            gap = (output.float() - expected).abs()
            allowed = _TOLERANCES[dtype] * (1 + output.float().abs())
            if not bool((gap <= allowed).all()):  # NaN is not <= anything
                return f"its results {which} differ from sdpa in fp32, by {gap.max().item():.2g}"
            if not torch.equal(output, trial.computed(attention, [index])[0]):
                return f"its results {which} are other bits among other rows than alone"
    except _KERNEL_ERRORS as error:
        first = str(error).strip().partition("\n")[0]
        return f"it fails with {type(error).__name__}: {first}"
    return None


class _Trial:
    """Queries of `_CHECKED_ROWS` and pages of keys and values: the same numbers every time."""

    def __init__(
        self, device: torch.device, dtype: torch.dtype, heads: int, kv_heads: int, head_dim: int, page_tokens: int
    ) -> None:
        random = torch.Generator().manual_seed(0)  # not the global random state
        pages_used = [-(-length // page_tokens) for _, length in _CHECKED_ROWS]
        order = iter(torch.randperm(sum(pages_used), generator=random).tolist())
        self.tables = [[next(order) for _ in range(pages)] for pages in pages_used]
        pool = (sum(pages_used), page_tokens, kv_heads, head_dim)
        counts = [count for count, _ in _CHECKED_ROWS]
        queries = _QUERY_SCALE * torch.randn(sum(counts), heads, head_dim, generator=random)
        keys, values = (torch.randn(pool, generator=random) for _ in range(2))
        for (_, length), table in zip(_CHECKED_ROWS, self.tables, strict=True):
            if unused := -length % page_tokens:
                keys[table[-1], -unused:] = values[table[-1], -unused:] = _BEYOND_LAST_KEY
        self.queries = torch.split(queries.to(device, dtype), counts)
        self.keys, self.values = keys.to(device, dtype), values.to(device, dtype)

    def computed(
        self, attention: Attention, indices: Sequence[int], dtype: torch.dtype | None = None
    ) -> list[torch.Tensor]:
        """Some rows in one call, by default in the dtype of the trial."""
        counts = [_CHECKED_ROWS[index][0] for index in indices]
        layout = BatchLayout(
            starts=[sum(counts[:row]) for row in range(len(counts) + 1)],
            lengths=[_CHECKED_ROWS[index][1] for index in indices],
            tables=[self.tables[index] for index in indices],
        )
        queries = torch.cat([self.queries[index] for index in indices])
        states = (tensor.to(dtype or tensor.dtype) for tensor in (queries, self.keys, self.values))
        attend = attention.plan(layout, self.keys.device)
        return list(torch.split(attend(*states), counts))
