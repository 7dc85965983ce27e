"""Attention over pages with the flash kernel that torch brings: for GPUs, in half precision.

What the kernel asks for (torch 2.15, ``torch.nn.attention.varlen`` and ``flash_api.cpp``): pages of
a multiple of 256 tokens; starts, lengths and page tables in int32; starts of keys although the
lengths decide. Keys are never split (``num_splits=1``): then a row's result does not depend on its
neighbours, and cuDNN, which would be preferred, is out. Whether all this holds on a GPU is tried
there, when the judge is loaded: `flash_check.py`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Attend, Rows

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.graphs import Static


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


# Is attention with the flash kernel right, on this very GPU? Tried before it is used.

_TRIED = ((1, 1), (1, 256), (300, 300), (1, 257), (77, 600), (256, 512), (1, 700), (5, 261))
_TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 4e-3}  # of results of about 1
_PEAKED = 3  # so much larger are the queries: with even weights a key more or less hardly shows
_FOREIGN = 100  # what lies behind a row's last key
_TROUBLE = (RuntimeError, TypeError, ValueError, AssertionError, ImportError)


def self_check(
    device: torch.device,
    dtype: torch.dtype,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    attention: FlashAttention | None = None,
) -> str | None:
    """Try it on random numbers: parts of prompts and single queries, pages in any order.

    Returns:
        What is wrong, in words: it raises, differs from plain arithmetic in fp32, or gives a row
        among others not the very bits that it gives it alone. None if all is well.
    """
    attention = attention or FlashAttention()
    try:
        trial = _drawn(device, dtype, heads, kv_heads, head_dim, attention.page_tokens)
        together = trial.computed(attention, range(len(_TRIED)))
        for index, (queries, length) in enumerate(_TRIED):
            row = together[trial.span(index)]
            what = f"of {queries} queries on {length} keys"
            gap = (row.float() - trial.expected(index)).abs()
            if not bool((gap <= _TOLERANCES[dtype] * (1 + row.float().abs())).all()):  # or NaN
                return f"its results {what} differ from plain arithmetic, by {gap.max().item():.2g}"
            if not torch.equal(row, trial.computed(attention, [index])):
                return f"its results {what} are other bits among other rows than alone"
    except _TROUBLE as error:
        first = str(error).strip().partition("\n")[0]
        return f"it fails with {type(error).__name__}: {first}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """Queries of `_TRIED`, flat, and pages of keys and values."""

    starts: list[int]
    tables: list[list[int]]
    queries: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor

    def span(self, index: int) -> slice:
        """Where the queries of a row are."""
        return slice(self.starts[index], self.starts[index + 1])

    def computed(self, attention: FlashAttention, chosen: Sequence[int]) -> torch.Tensor:
        """Some rows, together."""
        starts = [0]
        for index in chosen:
            starts.append(starts[-1] + _TRIED[index][0])
        rows = Rows(
            starts=starts,
            lengths=[_TRIED[index][1] for index in chosen],
            tables=[self.tables[index] for index in chosen],
        )
        attend = attention.plan(rows, self.queries.device)
        queries = torch.cat([self.queries[self.span(index)] for index in chosen])
        return attend(queries, self.keys, self.values)

    def expected(self, index: int) -> torch.Tensor:
        """One row by plain arithmetic in fp32."""
        count, length = _TRIED[index]
        queries = self.queries[self.span(index)].float().transpose(0, 1)
        keys, values = (
            pages[self.tables[index]].flatten(0, 1)[:length].float().transpose(0, 1)
            for pages in (self.keys, self.values)
        )
        group = queries.shape[0] // keys.shape[0]
        keys, values = (each.repeat_interleave(group, dim=0) for each in (keys, values))
        scores = queries @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
        hidden = torch.ones(count, length, dtype=torch.bool, device=keys.device)
        scores = scores.masked_fill(hidden.triu(length - count + 1), float("-inf"))
        expected: torch.Tensor = (scores.softmax(-1) @ values).transpose(0, 1)
        return expected


def _drawn(
    device: torch.device,
    dtype: torch.dtype,
    heads: int,
    kv_heads: int,
    head_dim: int,
    page_tokens: int,
) -> _Trial:
    """The same numbers each time; the random numbers of the process are left alone."""
    random = torch.Generator().manual_seed(0)
    needed = [-(-length // page_tokens) for _, length in _TRIED]
    order = iter(torch.randperm(sum(needed), generator=random).tolist())
    tables = [[next(order) for _ in range(pages)] for pages in needed]
    starts = [sum(queries for queries, _ in _TRIED[:row]) for row in range(len(_TRIED) + 1)]
    pool = (sum(needed), page_tokens, kv_heads, head_dim)
    queries = _PEAKED * torch.randn(starts[-1], heads, head_dim, generator=random)
    keys, values = (torch.randn(pool, generator=random) for _ in range(2))
    for (_, length), table in zip(_TRIED, tables, strict=True):
        if behind := -length % page_tokens:
            keys[table[-1], -behind:] = values[table[-1], -behind:] = _FOREIGN
    sent = [each.to(device, dtype) for each in (queries, keys, values)]
    return _Trial(starts=starts, tables=tables, queries=sent[0], keys=sent[1], values=sent[2])
