"""Attention over pages: row by row on any device, or with a kernel for GPUs and half precision.

There are two kernels: torch's own flash kernel, whose function takes pages from torch 2.12 on, and ours in Triton.
`self_check` tries a kernel on the GPU itself when the judge is loaded.

Requirements of torch's (torch 2.15, ``torch.nn.attention.varlen`` and ``flash_api.cpp``): pages of a multiple of 256
tokens; starts, lengths and page tables in int32; starts of keys although the lengths decide. Keys are never split
(``num_splits=1``): a row's result then does not depend on its neighbours, and cuDNN, which torch would prefer, is
excluded.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from subprocess import SubprocessError
from typing import Literal, Protocol, TypeAlias

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.nn.utils.rnn import pad_sequence

Attend: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Takes queries (tokens, heads, head_dim), and keys and values of one layer (pages, page_tokens,
kv_heads, head_dim); returns the attention output in the shape of the queries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLayout:
    """The rows of a step: where their queries are, and which keys these see.

    The queries of a row are its last tokens: the last query sees all keys of the row, the one
    before all but the last key, and so on.

    Attributes:
        starts: Index of each row's first query in the flat batch, and at the end the number of queries.
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
            index = slice(stretch.start, stretch.stop) if is_stretch else torch.tensor(pages, device=device)
            mask = None
            if count not in (1, length):  # the last query sees every key
                mask = torch.ones(count, length, dtype=torch.bool, device=device).tril(length - count)
            rows.append((length, index, mask))

        def attend(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
            outputs = []
            for own, (length, index, mask) in zip(torch.split(queries, counts), rows, strict=True):
                own_keys, own_values = (
                    states[index].flatten(0, 1)[:length].transpose(0, 1)[None] for states in (keys, values)
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


KernelName: TypeAlias = Literal["flash", "triton"]

UNPAGED_PREFILL_CAPABILITIES: frozenset[tuple[int, int]] = frozenset()
"""Compute capabilities of the GPUs on which torch's kernel computes prefill steps faster without pages, by what
``make gpu`` measures: not run yet on any. A constant, because a choice by a timing would change the bits of replies
from run to run. The keys that are gathered need memory, which `text_step_bytes` of the budget does not count yet."""

_REQUIRED = {"window_size", "enable_gqa", "seqused_k", "block_table", "num_splits"}
_DTYPES = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedRows:
    """The rows of a step on the device, planned once for all layers. Integers are int32 unless noted.

    Attributes:
        starts: Index of each row's first query in the flat batch, and at the end the number of queries, (rows + 1,).
        key_starts: The same of keys, as if each row had as many as the table has room for, (rows + 1,).
        lengths: Keys that each row sees, (rows,).
        table: Pages of each row, in order, (rows, pages of the longest row).
        max_queries: The most queries of a row.
        decoding: Whether the step decodes, one query a row. Kernels may choose the sizes of their blocks by it.
        key_slots: Slots (page times page_tokens plus offset) of the keys of all rows, (keys,), int64, for a kernel that
            gathers them; `key_starts` then counts these. None: the kernel reads pages.
    """

    starts: torch.Tensor
    key_starts: torch.Tensor
    lengths: torch.Tensor
    table: torch.Tensor
    max_queries: int
    decoding: bool
    key_slots: torch.Tensor | None = None


Kernel: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, PagedRows], torch.Tensor]
"""As `Attend`, with the rows of the step; causal: the queries of a row
are its last tokens."""


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
    """Torch's own kernel. Without pages it does not take its split path, which is slower in prefill steps.

    See `Kernel`; `varlen_attn` has the parameters of ``torch.nn.attention.varlen.varlen_attn``.
    """
    max_keys = rows.table.shape[1] * keys.shape[1]
    paging = {"seqused_k": rows.lengths, "block_table": rows.table}
    if rows.key_slots is not None:
        keys, values = (states.flatten(0, 1)[rows.key_slots] for states in (keys, values))
        paging = {}
    return varlen_attn(
        queries,
        keys,
        values,
        rows.starts,
        rows.key_starts,
        # For a single query in every row the kernel may take another path, which rounds
        # differently; a row would then depend on its neighbours. So 2 are announced.
        max(2, rows.max_queries),
        max_keys,
        window_size=(-1, 0),
        enable_gqa=queries.shape[1] != keys.shape[-2],
        num_splits=1,
        **paging,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedAttention:
    """All rows in one call of a kernel, whose title stands in sentences.

    With `unpaged_prefill` the keys of prefill steps are gathered into one batch without pages.
    """

    name: str = "flash"
    kernel: Kernel = flash_kernel
    title: str = "the kernel"
    page_tokens: int = 256
    unpaged_prefill: bool = False

    def plan(self, layout: BatchLayout, device: torch.device) -> Attend:
        """For prefill steps, even if no row has more than one query; its numbers go to the device in one transfer."""
        count = len(layout.lengths)
        pages_used = [-(-length // self.page_tokens) for length in layout.lengths]
        width = max(pages_used)
        key_counts = layout.lengths if self.unpaged_prefill else [width * self.page_tokens] * count
        numbers = [*layout.starts, *accumulate(key_counts, initial=0), *layout.lengths]
        for row_pages, used in zip(layout.tables, pages_used, strict=True):
            numbers += [*row_pages[:used], *[0] * (width - used)]
        on_device = torch.tensor(numbers, dtype=torch.int32).to(device)
        starts, key_starts, lengths, pages = torch.split(on_device, [count + 1, count + 1, count, count * width])
        table, key_slots = pages.view(count, width), None
        if self.unpaged_prefill:
            every_row = torch.arange(count, device=device)
            row = every_row.repeat_interleave(lengths, output_size=sum(layout.lengths))
            position = torch.arange(len(row), device=device) - key_starts[row]
            key_slots = table[row, position // self.page_tokens] * self.page_tokens + position % self.page_tokens
        rows = PagedRows(
            starts=starts,
            key_starts=key_starts,
            lengths=lengths,
            table=table,
            max_queries=max(stop - start for start, stop in pairwise(layout.starts)),
            decoding=False,
            key_slots=key_slots,
        )
        return lambda queries, keys, values: self.kernel(queries, keys, values, rows)

    def plan_decoding(self, lengths: torch.Tensor, table: torch.Tensor) -> Attend:
        """For steps of one query a row, whose numbers are in tensors at fixed addresses, as in `PagedRows`.

        The function reads nothing on the host, so it can be captured in a CUDA graph.
        """
        starts = torch.arange(len(lengths) + 1, dtype=torch.int32, device=table.device)
        key_starts = table.shape[1] * self.page_tokens * starts
        rows = PagedRows(
            starts=starts, key_starts=key_starts, lengths=lengths, table=table, max_queries=1, decoding=True
        )
        return lambda queries, keys, values: self.kernel(queries, keys, values, rows)


def _flash_attention(device: torch.device) -> PagedAttention | str:
    no_kernel = f"torch {torch.__version__} has no kernel that takes pages"
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return no_kernel
    if missing := _REQUIRED - inspect.signature(varlen_attn).parameters.keys():
        return f"{no_kernel}: `varlen_attn` is without {', '.join(sorted(missing))}"
    title = f"the paged kernel of torch {torch.__version__}"
    if torch.cuda.get_device_capability(device) in UNPAGED_PREFILL_CAPABILITIES:
        return PagedAttention(name="flash-unpaged-prefill", title=title, unpaged_prefill=True)
    return PagedAttention(title=title)


def _triton_attention(_device: torch.device) -> PagedAttention | str:
    try:
        import triton

        from mmie_tasks.judges.mmie_score.engine.triton_kernel import paged_attention
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    return PagedAttention(name="triton", title=f"our kernel in Triton {triton.__version__}", kernel=paged_attention)


KERNELS: Mapping[KernelName, Callable[[torch.device], PagedAttention | str]] = {
    "flash": _flash_attention,
    "triton": _triton_attention,
}
"""Attention with each kernel, the preferred one first, or why this machine does not have it."""


def unsupported(device: torch.device, dtype: torch.dtype, head_dim: int) -> str | None:
    """Why no kernel can be used here; None if one may."""
    if device.type != "cuda":
        return f"paged kernels need a GPU, and this is `{device}`"
    if dtype not in _DTYPES:
        return f"paged kernels compute in bfloat16 and float16, not in {str(dtype).removeprefix('torch.')}"
    if head_dim % 8 or head_dim > 256:
        return f"paged kernels take heads of a multiple of 8 numbers, up to 256, not of {head_dim}"
    major, minor = torch.cuda.get_device_capability(device)
    if major < 8:
        return f"paged kernels need compute capability 8.0, and the GPU has {major}.{minor}"
    return None


def checked_attention(name: KernelName, device: torch.device, dtype: torch.dtype, **sizes: int) -> PagedAttention | str:
    """Attention with a kernel that has passed its `self_check`, or why it cannot be used; `sizes` as there."""
    attention = KERNELS[name](device)
    if isinstance(attention, str):
        return attention
    problem = self_check(attention, device, dtype, **sizes)
    return attention if problem is None else f"{attention.title} fails its check on {device}: {problem}"


_CHECKED_ROWS = ((1, 1), (1, 256), (300, 300), (1, 257), (77, 600), (256, 512), (1, 700), (5, 261))
"""Queries and keys of each row of the self-check."""
_TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 4e-3}  # of results of about 1
_QUERY_SCALE = 3  # peaked weights: with even ones a missing or surplus key hardly shows
_BEYOND_LAST_KEY = 100  # content of the last page behind a row's last key


def self_check(
    attention: PagedAttention, device: torch.device, dtype: torch.dtype, *, heads: int, kv_heads: int, head_dim: int
) -> str | None:
    """Compute attention on random numbers: chunks of prompts, single queries, decoding steps; shuffled pages.

    Returns:
        What is wrong: it raises, differs from `SdpaAttention` in fp32, or gives a row other bits among others. Or None.
    """
    try:
        trial = _Trial(device, dtype, heads, kv_heads, head_dim, attention.page_tokens)
        plain = SdpaAttention(page_tokens=attention.page_tokens)
        all_rows = range(len(_CHECKED_ROWS))
        expected = [trial.prefilled(plain, [row], torch.float32)[0] for row in all_rows]
        for kind, compute in (("prefill", trial.prefilled), ("decoding", trial.decoded)):
            for row, output in zip(all_rows, compute(attention, all_rows), strict=True):
                which = f"in {kind}, of {len(output)} queries on {_CHECKED_ROWS[row][1]} keys,"
                gap = (output.float() - expected[row][-len(output) :]).abs()
                allowed = _TOLERANCES[dtype] * (1 + output.float().abs())
                if not bool((gap <= allowed).all()):  # NaN is not <= anything
                    return f"its results {which} differ from sdpa in fp32, by {gap.max().item():.2g}"
                if not torch.equal(output, compute(attention, [row])[0]):
                    return f"its results {which} are other bits among other rows than alone"
    except _kernel_errors() as error:
        first = str(error).strip().partition("\n")[0]
        return f"it fails with {type(error).__name__}: {first}"
    return None


def _kernel_errors() -> tuple[type[Exception], ...]:
    """What kernels raise where they do not work. Triton starts a C compiler and an assembler on first use."""
    errors = (RuntimeError, TypeError, ValueError, AssertionError, ImportError, LookupError, OSError, SubprocessError)
    try:
        from triton.errors import TritonError
    except ImportError:
        return errors
    return (*errors, TritonError)


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

    def prefilled(
        self, attention: Attention, indices: Sequence[int], dtype: torch.dtype | None = None
    ) -> list[torch.Tensor]:
        """Some rows in one prefill step, by default in the dtype of the trial."""
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

    def decoded(self, attention: PagedAttention, indices: Sequence[int]) -> list[torch.Tensor]:
        """The last queries of some rows in one decoding step."""
        tables = [torch.tensor(self.tables[index], dtype=torch.int32) for index in indices]
        lengths = torch.tensor([_CHECKED_ROWS[index][1] for index in indices], dtype=torch.int32)
        device = self.keys.device
        attend = attention.plan_decoding(lengths.to(device), pad_sequence(tables, batch_first=True).to(device))
        queries = torch.cat([self.queries[index][-1:] for index in indices])
        return list(torch.split(attend(queries, self.keys, self.values), 1))
