"""Attention over pages: row by row on any device, or with a kernel for GPUs and half precision.

There are two kernels: torch's own flash kernel, whose function takes pages from torch 2.12 on, and
ours in Triton (`triton_kernel`). `kernels` chooses between them.

Requirements of torch's (torch 2.15, ``torch.nn.attention.varlen`` and ``flash_api.cpp``): pages of
a multiple of 256 tokens; starts, lengths and page tables in int32; starts of keys although the
lengths decide. Keys are never split (``num_splits=1``): a row's result then does not depend on its
neighbours, and cuDNN, which torch would prefer, is excluded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol, TypeAlias

import torch
from torch.nn.functional import scaled_dot_product_attention

Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes queries (tokens, heads, head_dim), and keys and values of one layer (pages, page_tokens,
kv_heads, head_dim); returns the attention output in the shape of the queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLayout:
    """The rows of a step: where their queries are, and which keys these see.

    The queries of a row are its last tokens: the last query sees all keys of the row, the one
    before all but the last key, and so on.

    Attributes:
        starts: Index of each row's first query in the flat batch, and at the end the number of
            queries.
        lengths: Keys of each row, those of this step included.
        tables: Pages of each row, in order.
    """

    starts: list[int]
    lengths: list[int]
    tables: list[list[int]]


class Attention(Protocol):
    """A way to compute attention over pages."""

    @property
    def name(self) -> str:
        """As it stands in the judge's signature."""
        ...

    @property
    def page_tokens(self) -> int:
        """Tokens of a page."""
        ...

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """The function that every layer of a step calls."""
        ...


@dataclass(frozen=True, slots=True)
class SdpaAttention:
    """Row by row through torch's ``scaled_dot_product_attention``: any device, any dtype.

    The keys of a row are gathered in every layer unless its pages are consecutive, so this is for
    CPUs, for fp32, and as the reference for other kernels.
    """

    page_tokens: int = 64
    name: str = "sdpa"

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """See `Attention.plan`."""
        rows: list[tuple[int, slice | torch.Tensor, torch.Tensor | None]] = []
        counts = [stop - start for start, stop in pairwise(layout.starts)]
        for count, length, table in zip(counts, layout.lengths, layout.tables, strict=True):
            pages = table[: -(-length // self.page_tokens)]
            stretch = range(pages[0], pages[0] + len(pages))
            is_stretch = pages == list(stretch)  # a slice copies nothing
            index = (
                slice(stretch.start, stretch.stop)
                if is_stretch
                else torch.tensor(pages, device=device)
            )
            mask = None
            if count not in (1, length):  # the last query sees every key
                mask = torch.ones(count, length, dtype=torch.bool, device=device).tril(
                    length - count
                )
            rows.append((length, index, mask))

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            outputs = []
            for own, (length, index, mask) in zip(torch.split(queries, counts), rows, strict=True):
                own_keys, own_values = (
                    states[index].flatten(0, 1)[:length].transpose(0, 1)[None]
                    for states in (keys, values)
                )
                output = scaled_dot_product_attention(
                    own.transpose(0, 1)[None],
                    own_keys,
                    own_values,
                    attn_mask=mask,
                    is_causal=1 < len(own) == length,
                    enable_gqa=keys.shape[2] != queries.shape[1],
                )
                outputs.append(output[0].transpose(0, 1))
            return torch.cat(outputs)

        return attend


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedRows:
    """The rows of a step on the device, planned once for all layers. Integers are int32 unless
    noted.

    Attributes:
        starts: Index of each row's first query in the flat batch, and at the end the number of
            queries, (rows + 1,).
        key_starts: The same of keys, as if each row had as many as the table has room for, (rows +
            1,).
        lengths: Keys that each row sees, (rows,).
        table: Pages of each row, in order, (rows, pages of the longest row).
        max_queries: The most queries of a row.
        decoding: Whether the step decodes, one query a row. Kernels may choose the sizes of their
            blocks by it.
    """

    starts: torch.Tensor
    key_starts: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor
    max_queries: int
    decoding: bool


Kernel: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, PagedRows], torch.Tensor]
"""As `Attend`, with the rows of the step; causal: the queries of a row are its last tokens."""


def _varlen_attn(*tensors: torch.Tensor, **options: object) -> torch.Tensor:
    """Torch's flash kernel, and no other that torch might prefer."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.varlen import varlen_attn

    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        output: torch.Tensor = varlen_attn(*tensors, **options)  # type: ignore[arg-type, assignment]
    return output


def flash_kernel(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    rows: PagedRows,
    *,
    varlen_attn: Callable[..., torch.Tensor] = _varlen_attn,
) -> torch.Tensor:
    """Torch's own kernel: see `Kernel`.

    `varlen_attn` has the parameters of ``torch.nn.attention.varlen.varlen_attn``.
    """
    return varlen_attn(
        queries,
        keys,
        values,
        rows.starts,
        rows.key_starts,
        # For a single query in every row the kernel may take another path, which rounds
        # differently; a row would then depend on its neighbours. So 2 are announced.
        max(2, rows.max_queries),
        rows.table.shape[1] * keys.shape[1],
        window_size=(-1, 0),
        enable_gqa=queries.shape[1] != keys.shape[-2],
        num_splits=1,
        seqused_k=rows.lengths,
        block_table=rows.table,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedAttention:
    """All rows in one call of a kernel, whose title stands in sentences."""

    name: str = "flash"
    kernel: Kernel = flash_kernel
    title: str = "the kernel"
    page_tokens: int = 256

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """For prefill steps, even if no row has more than one query; its numbers go to the device
        in one transfer.
        """
        count = len(layout.lengths)
        pages_used = [-(-length // self.page_tokens) for length in layout.lengths]
        width = max(pages_used)
        key_starts = range(0, (count + 1) * width * self.page_tokens, width * self.page_tokens)
        numbers = [*layout.starts, *key_starts, *layout.lengths]
        for row_pages, used in zip(layout.tables, pages_used, strict=True):
            numbers += [*row_pages[:used], *[0] * (width - used)]
        on_device = torch.tensor(numbers, dtype=torch.int32).to(device)
        sizes = [count + 1, count + 1, count, count * width]
        starts, device_key_starts, lengths, pages = torch.split(on_device, sizes)
        rows = PagedRows(
            starts=starts,
            key_starts=device_key_starts,
            lengths=lengths,
            table=pages.view(count, width),
            max_queries=max(stop - start for start, stop in pairwise(layout.starts)),
            decoding=False,
        )
        return lambda queries, keys, values: self.kernel(queries, keys, values, rows)

    def plan_decoding(self, lengths: torch.Tensor, table: torch.Tensor) -> Attend:
        """For steps of one query a row, whose numbers are in tensors at fixed addresses, as in
        `PagedRows`.

        The function reads nothing on the host, so it can be captured in a CUDA graph.
        """
        starts = torch.arange(len(lengths) + 1, dtype=torch.int32, device=table.device)
        key_starts = table.shape[1] * self.page_tokens * starts
        rows = PagedRows(
            starts=starts,
            key_starts=key_starts,
            lengths=lengths,
            table=table,
            max_queries=1,
            decoding=True,
        )
        return lambda queries, keys, values: self.kernel(queries, keys, values, rows)
