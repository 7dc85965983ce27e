"""Attention over pages on a CPU: torch's flash kernel, with a stand-in for torch's function and its
requirements.
"""

from functools import partial

import torch

from mmie_tasks.judges.mmie_score.engine.attention import flash_kernel


def varlen_attn(
    queries,
    keys,
    values,
    starts,
    key_starts,
    max_queries,
    max_keys,
    *,
    window_size,
    enable_gqa,
    num_splits,
    seqused_k,
    block_table,
    causal=True,
):
    rows = len(starts) - 1
    assert window_size == (-1, 0)
    assert num_splits == 1
    numbers = (starts, key_starts, seqused_k, block_table)
    assert {tensor.dtype for tensor in numbers} == {torch.int32}
    assert all(tensor.is_contiguous() for tensor in numbers)
    assert starts.shape == key_starts.shape == (rows + 1,)
    assert enable_gqa == (queries.shape[1] != keys.shape[-2])
    assert max_queries >= max(2, starts.diff().max().item())
    assert starts[-1] == len(queries)
    row_states = paged_states(keys, values, key_starts, max_keys, seqused_k, block_table)
    output = torch.empty_like(queries)
    for row, (row_keys, row_values, length) in enumerate(row_states):
        span = slice(starts[row].item(), starts[row + 1].item())
        output[span] = row_attention(queries[span], row_keys, row_values, length, causal)
    return output


paged_kernel = partial(flash_kernel, varlen_attn=varlen_attn)
"""The engine's call of torch's kernel, of which only torch's function itself is replaced."""


def paged_states(keys, values, key_starts, max_keys, seqused_k, block_table):
    rows = len(key_starts) - 1
    assert seqused_k.shape == (rows,)
    assert keys.shape[1] % 256 == 0
    assert len(block_table) == rows
    assert max_keys == block_table.shape[1] * keys.shape[1]
    assert key_starts.tolist() == [row * max_keys for row in range(rows + 1)]
    return [
        (keys[pages].flatten(0, 1), values[pages].flatten(0, 1), length)
        for pages, length in zip(block_table.long(), seqused_k.tolist(), strict=True)
    ]


def row_attention(queries, keys, values, length, causal):
    """Attention of one row: its queries are the last of `length` tokens."""
    group = queries.shape[1] // keys.shape[1]
    keys, values = (
        tensor[:length].double().repeat_interleave(group, dim=1).transpose(0, 1)
        for tensor in (keys, values)
    )
    scores = queries.double().transpose(0, 1) @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
    if causal:
        positions = torch.arange(length - len(queries), length)
        scores[:, positions[:, None] < torch.arange(length)] = float("-inf")
    return (scores.softmax(-1) @ values).transpose(0, 1).to(queries.dtype)
