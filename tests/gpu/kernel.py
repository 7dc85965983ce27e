"""Attention over pages as a Triton kernel, called as ``torch.nn.attention.varlen.varlen_attn``.

torch 2.12 and later bring such a kernel. On an older torch this one takes its place in `make gpu`,
so that the judge's engine is checked with pages and CUDA graphs there too. It is no part of the
package.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl

BLOCK_QUERIES = 32
"""Queries of one program. The same for prompts and for decoding: with blocks of two sizes the bits
of a row would depend on the longest row beside it."""

BLOCK_KEYS = 64


@triton.jit
def _attend(  # noqa: PLR0915 - one loop; Triton inlines no helper for free
    query_ptr,
    key_ptr,
    value_ptr,
    output_ptr,
    starts_ptr,
    lengths_ptr,
    table_ptr,
    log2_scale,
    heads_per_kv_head,
    table_width,
    query_token_stride,
    query_head_stride,
    page_stride,
    key_token_stride,
    key_head_stride,
    output_token_stride,
    output_head_stride,
    head_dim: tl.constexpr,
    padded_dim: tl.constexpr,
    page_tokens: tl.constexpr,
    block_queries: tl.constexpr,
    block_keys: tl.constexpr,
):
    """One block of queries of one row and head, with a running softmax over the row's keys.

    The queries of a row are its last tokens: the last of them sees every key of the row.
    """
    block, row, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first_query = tl.load(starts_ptr + row)
    query_count = tl.load(starts_ptr + row + 1) - first_query
    length = tl.load(lengths_ptr + row)
    if block * block_queries < query_count:
        query_index = block * block_queries + tl.arange(0, block_queries)
        key_index = tl.arange(0, block_keys)
        dim = tl.arange(0, padded_dim)
        is_query = (query_index < query_count)[:, None] & (dim < head_dim)[None, :]
        token = (first_query + query_index).to(tl.int64)[:, None]
        queries = tl.load(
            query_ptr + token * query_token_stride + head * query_head_stride + dim[None, :], mask=is_query, other=0.0
        )
        position = length - query_count + query_index
        largest = tl.full([block_queries], -float("inf"), tl.float32)
        total = tl.zeros([block_queries], tl.float32)
        summed = tl.zeros([block_queries, padded_dim], tl.float32)
        last_key = tl.minimum(length, length - query_count + (block + 1) * block_queries)
        for start in range(0, last_key, block_keys):
            page = tl.load(table_ptr + row * table_width + start // page_tokens).to(tl.int64)
            slot = (start % page_tokens + key_index).to(tl.int64)[:, None]
            offset = page * page_stride + slot * key_token_stride
            offset += (head // heads_per_kv_head) * key_head_stride + dim[None, :]
            is_key = ((start + key_index) < length)[:, None] & (dim < head_dim)[None, :]
            keys = tl.load(key_ptr + offset, mask=is_key, other=0.0)
            scores = tl.dot(queries, tl.trans(keys)).to(tl.float32) * log2_scale
            is_visible = (start + key_index)[None, :] <= position[:, None]
            scores = tl.where(is_visible, scores, -float("inf"))
            new_largest = tl.maximum(largest, tl.max(scores, 1))
            weights = tl.exp2(scores - new_largest[:, None])
            correction = tl.exp2(largest - new_largest)
            total = total * correction + tl.sum(weights, 1)
            values = tl.load(value_ptr + offset, mask=is_key, other=0.0)
            summed = summed * correction[:, None] + tl.dot(weights.to(values.dtype), values)
            largest = new_largest
        tl.store(
            output_ptr + token * output_token_stride + head * output_head_stride + dim[None, :],
            (summed / total[:, None]).to(output_ptr.dtype.element_ty),
            mask=is_query,
        )


def paged_attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    starts: torch.Tensor,
    _key_starts: torch.Tensor,
    most_queries: int,
    _most_keys: int,
    *,
    window_size: tuple[int, int],
    enable_gqa: bool,
    seqused_k: torch.Tensor,
    block_table: torch.Tensor,
    num_splits: int,
) -> torch.Tensor:
    """Causal attention of rows of different lengths over keys and values in pages.

    Args:
        queries: (tokens, heads, head_dim), float16 or bfloat16.
        keys: (pages, page_tokens, kv_heads, head_dim); page_tokens is a multiple of 64.
        values: As `keys`, with the same strides.
        starts: First query of each row, and at the end their number, (rows + 1,), int32.
        _key_starts: Not used: the table says where keys are.
        most_queries: Queries of a row, at most.
        _most_keys: Not used.
        window_size: ``(-1, 0)``, which is causal.
        enable_gqa: Whether there are fewer heads of keys than of queries.
        seqused_k: Keys of each row, (rows,), int32.
        block_table: Pages of each row, in order, (rows, width), int32.
        num_splits: 1; keys are never split.

    Returns:
        In the shape of `queries`.
    """
    assert window_size == (-1, 0)
    assert num_splits == 1
    assert enable_gqa == (queries.shape[1] != keys.shape[2])
    assert keys.stride() == values.stride()
    assert keys.shape[1] % BLOCK_KEYS == 0
    output = torch.empty_like(queries)
    (row_count, table_width), (_, heads, head_dim) = block_table.shape, queries.shape
    _attend[(triton.cdiv(most_queries, BLOCK_QUERIES), row_count, heads)](
        queries,
        keys,
        values,
        output,
        starts,
        seqused_k,
        block_table,
        head_dim**-0.5 * math.log2(math.e),
        heads // keys.shape[2],
        table_width,
        queries.stride(0),
        queries.stride(1),
        keys.stride(0),
        keys.stride(1),
        keys.stride(2),
        output.stride(0),
        output.stride(1),
        head_dim=head_dim,
        padded_dim=triton.next_power_of_2(head_dim),
        page_tokens=keys.shape[1],
        block_queries=BLOCK_QUERIES,
        block_keys=BLOCK_KEYS,
        num_warps=4,
        num_stages=3,
    )
    return output
