"""Is attention with the flash kernel right, on this very GPU? Tried before it is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from mmie_tasks.judges.mmie_score.engine.attention import Rows
from mmie_tasks.judges.mmie_score.engine.flash import FlashAttention

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
