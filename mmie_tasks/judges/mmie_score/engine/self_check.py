"""A trial of a kernel on the GPU itself: right numbers, and the same bits whatever is computed
beside a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import torch
from torch.nn.utils.rnn import pad_sequence

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.mmie_score.engine.attention import (
    Attention,
    BatchLayout,
    PagedAttention,
    SdpaAttention,
)
from mmie_tasks.judges.mmie_score.memory import is_out_of_memory

_CHECKED_ROWS = ((1, 1), (1, 256), (300, 300), (1, 257), (77, 600), (256, 512), (1, 700), (5, 261))
"""Queries and keys of each row of the self-check."""
_TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 4e-3}  # of results of about 1
_QUERY_SCALE = 3  # peaked weights: with even ones a missing or surplus key hardly shows
_BEYOND_LAST_KEY = 100  # content of the last page after a row's last key
_CUT_ROW = 2  # a whole prompt, which is also computed in two parts


def self_check(
    attention: PagedAttention,
    device: torch.device,
    dtype: torch.dtype,
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
) -> str | None:
    """Compute attention on random numbers: chunks of prompts, single queries, decoding steps;
    shuffled pages.

    Returns:
        What is wrong: it raises, differs from `SdpaAttention` in fp32, or gives a row other bits
        among others, or a prompt that is cut in two. Or None.

    Raises:
        RuntimeError: The device has no memory for the trial, which says nothing about the kernel.
    """
    try:
        trial = _Trial(device, dtype, heads, kv_heads, head_dim, attention.page_tokens)
        plain = SdpaAttention(page_tokens=attention.page_tokens)
        all_rows = range(len(_CHECKED_ROWS))
        expected = [trial.prefilled(plain, [row], dtype=torch.float32)[0] for row in all_rows]
        for kind, compute in (("prefill", trial.prefilled), ("decoding", trial.decoded)):
            for row, output in zip(all_rows, compute(attention, all_rows), strict=True):
                which = f"in {kind}, of {len(output)} queries on {_CHECKED_ROWS[row][1]} keys,"
                gap = (output.float() - expected[row][-len(output) :]).abs()
                allowed = _TOLERANCES[dtype] * (1 + output.float().abs())
                if not bool((gap <= allowed).all()):  # NaN is not <= anything
                    return (
                        f"its results {which} differ from sdpa in fp32, by {gap.max().item():.2g}"
                    )
                if not torch.equal(output, compute(attention, [row])[0]):
                    return f"its results {which} are other bits among other rows than alone"
        # On a CPU the position of a row within a matrix rounds differently, so blocks stay whole.
        cut = 100 if device.type == "cuda" else 128
        whole, first, second = (
            trial.prefilled(attention, [_CUT_ROW], part=part)[0]
            for part in (slice(None), slice(cut), slice(cut, None))
        )
        if not torch.equal(torch.cat([first, second]), whole):
            return "a prompt that is cut in two has other bits than a whole one"
    except Exception as error:  # of torch, Triton or its compilers
        if is_out_of_memory(error):
            raise
        return f"it fails with {type(error).__name__}: {first_line(error)}"
    return None


class _Trial:
    """Queries of `_CHECKED_ROWS` and pages of keys and values: the same numbers every time."""

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        heads: int,
        kv_heads: int,
        head_dim: int,
        page_tokens: int,
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

    def prefilled(
        self,
        attention: Attention,
        indices: Sequence[int],
        *,
        dtype: torch.dtype | None = None,
        part: slice = slice(None),
    ) -> list[torch.Tensor]:
        """Some rows in one prefill step, or a part of their queries; by default in the dtype of the
        trial.
        """
        queries = [self.queries[index][part] for index in indices]
        counts = [len(own) for own in queries]
        ends = [part.indices(len(self.queries[index]))[1] for index in indices]
        lengths = [
            _CHECKED_ROWS[index][1] - len(self.queries[index]) + end
            for index, end in zip(indices, ends, strict=True)
        ]
        layout = BatchLayout(
            starts=list(accumulate(counts, initial=0)),
            lengths=lengths,
            tables=[self.tables[index] for index in indices],
        )
        tensors = (torch.cat(queries), self.keys, self.values)
        attend = attention.plan(layout, self.keys.device)
        return list(
            torch.split(attend(*(tensor.to(dtype or tensor.dtype) for tensor in tensors)), counts)
        )

    def decoded(self, attention: PagedAttention, indices: Sequence[int]) -> list[torch.Tensor]:
        """The last queries of some rows in one decoding step."""
        tables = [torch.tensor(self.tables[index], dtype=torch.int32) for index in indices]
        lengths = torch.tensor([_CHECKED_ROWS[index][1] for index in indices], dtype=torch.int32)
        device = self.keys.device
        attend = attention.plan_decoding(
            lengths.to(device), pad_sequence(tables, batch_first=True).to(device)
        )
        queries = torch.cat([self.queries[index][-1:] for index in indices])
        return list(torch.split(attend(queries, self.keys, self.values), 1))
