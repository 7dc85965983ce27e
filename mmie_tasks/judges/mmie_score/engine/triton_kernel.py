"""Attention over pages as a Triton kernel, for a torch whose own kernel takes no pages.

Triton comes with torch's wheels for GPUs and compiles the kernel on first use. With
``TRITON_INTERPRET=1`` it runs on a CPU, slowly, which is how the tests run it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
import triton
import triton.language as tl

if TYPE_CHECKING:
    from mmie_tasks.judges.mmie_score.engine.attention import PagedRows

_BLOCK_KEYS = 64  # keys that are loaded at once; a page is a multiple of them

PREFILL_BLOCK = {"block_keys": _BLOCK_KEYS, "block_queries": 128, "num_warps": 8, "num_stages": 3}
DECODING_BLOCK = {"block_keys": _BLOCK_KEYS, "block_queries": 16, "num_warps": 4, "num_stages": 3}
"""Queries of one program; the least that matrix units take is 16. The kind of the step decides,
never the longest row in it: with blocks of another size a row would have other bits.
"""


@triton.jit  # type: ignore[untyped-decorator]
def _add_keys(
    queries: tl.tensor,
    keys: tl.tensor,
    values: tl.tensor,
    is_visible: tl.tensor,
    log2_scale: tl.tensor,
    largest: tl.tensor,
    total: tl.tensor,
    summed: tl.tensor,
) -> tl.tuple:
    """One step of a running softmax: the largest score, the sum of the weights, the weighted sum of
    the values.
    """
    scores = tl.dot(queries, tl.trans(keys)) * log2_scale
    scores = tl.where(is_visible, scores, -float("inf"))
    new_largest = tl.maximum(largest, tl.max(scores, 1))
    weights = tl.exp2(scores - new_largest[:, None])
    correction = tl.exp2(largest - new_largest)
    total = total * correction + tl.sum(weights, 1)
    summed = summed * correction[:, None] + tl.dot(weights.to(values.dtype), values)
    return new_largest, total, summed


# Triton compiles variants for integers and addresses that are multiples of 16. These depend on the
# number of rows in the step, on which no bit and no compilation may depend.
@triton.jit(do_not_specialize=["starts_ptr", "lengths_ptr", "table_ptr", "table_width"])  # type: ignore[untyped-decorator]
def _attend(  # noqa: PLR0915 - a kernel
    query_ptr: tl.tensor,
    key_ptr: tl.tensor,
    value_ptr: tl.tensor,
    output_ptr: tl.tensor,
    starts_ptr: tl.tensor,
    lengths_ptr: tl.tensor,
    table_ptr: tl.tensor,
    table_width: tl.tensor,
    log2_scale: tl.tensor,
    heads: tl.constexpr,
    kv_heads: tl.constexpr,
    head_dim: tl.constexpr,
    padded_dim: tl.constexpr,
    page_tokens: tl.constexpr,
    block_queries: tl.constexpr,
    block_keys: tl.constexpr,
) -> None:
    """One block of queries of one row and head. The last query of a row sees every key of the
    row.
    """
    block, row, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first_query = tl.load(starts_ptr + row)
    query_count = tl.load(starts_ptr + row + 1) - first_query
    if block * block_queries >= query_count:
        return
    length = tl.load(lengths_ptr + row)
    query_index = block * block_queries + tl.arange(0, block_queries)
    position = (length - query_count + query_index)[:, None]
    dim = tl.arange(0, padded_dim)[None, :]
    query_offset = (
        (first_query + query_index).to(tl.int64)[:, None] * heads + head
    ) * head_dim + dim
    is_query = (query_index < query_count)[:, None] & (dim < head_dim)
    queries = tl.load(query_ptr + query_offset, mask=is_query, other=0.0)
    largest = tl.full([block_queries], -float("inf"), tl.float32)
    total = tl.zeros([block_queries], tl.float32)
    summed = tl.zeros([block_queries, padded_dim], tl.float32)
    visible_keys = tl.minimum(length, length - query_count + (block + 1) * block_queries)
    for page_number in range(tl.cdiv(visible_keys, page_tokens)):
        first_key = page_number * page_tokens
        page = tl.load(table_ptr + row * table_width + page_number).to(tl.int64)
        # Nothing in this loop waits for a page number, so its loads overlap with the arithmetic.
        for offset in range(0, tl.minimum(page_tokens, visible_keys - first_key), block_keys):
            in_page = offset + tl.arange(0, block_keys)
            token = page * page_tokens + in_page
            key_offset = (token[:, None] * kv_heads + head // (heads // kv_heads)) * head_dim + dim
            key_index = first_key + in_page
            is_key = (key_index < length)[:, None] & (dim < head_dim)
            keys = tl.load(key_ptr + key_offset, mask=is_key, other=0.0)
            values = tl.load(value_ptr + key_offset, mask=is_key, other=0.0)
            largest, total, summed = _add_keys(
                queries,
                keys,
                values,
                key_index[None, :] <= position,
                log2_scale,
                largest,
                total,
                summed,
            )
    tl.store(
        output_ptr + query_offset,
        (summed / total[:, None]).to(output_ptr.dtype.element_ty),
        mask=is_query,
    )


def paged_attention(
    queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, rows: PagedRows
) -> torch.Tensor:
    """Causal attention of rows of different lengths over keys and values in pages: see
    `attention.Kernel`.

    Raises:
        ValueError: Keys or values are not contiguous, or their pages not of a multiple of 64
            tokens.
    """
    page_tokens, kv_heads = keys.shape[1:3]
    if page_tokens % _BLOCK_KEYS or not (keys.is_contiguous() and values.is_contiguous()):
        raise ValueError(
            f"pages of {page_tokens} tokens, or keys or values that are not contiguous"
        )
    queries = queries.contiguous()
    output = torch.empty_like(queries)
    (row_count, table_width), (_, heads, head_dim) = rows.table.shape, queries.shape
    block = DECODING_BLOCK if rows.decoding else PREFILL_BLOCK
    grid = (triton.cdiv(rows.max_queries, block["block_queries"]), row_count, heads)
    with torch.cuda.device_of(queries):  # type: ignore[no-untyped-call] # where Triton launches
        _attend[grid](
            *(queries, keys, values, output, rows.starts, rows.lengths, rows.table),
            table_width,
            head_dim**-0.5 * math.log2(math.e),
            *(heads, kv_heads, head_dim, triton.next_power_of_2(head_dim), page_tokens),
            enable_fp_fusion=True,  # Triton 3.10 changes its default, and with it bits
            **block,
        )
    return output
