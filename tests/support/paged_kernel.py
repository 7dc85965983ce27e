"""Attention over pages on a CPU, with the parameters and requirements of torch's flash kernel."""

import torch


def paged_kernel(
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
    seqused_k,
    block_table,
    num_splits,
    causal=True,
):
    rows, width = block_table.shape
    assert window_size == (-1, 0)
    assert num_splits == 1
    numbers = (starts, key_starts, seqused_k, block_table)
    assert {tensor.dtype for tensor in numbers} == {torch.int32}
    assert all(tensor.is_contiguous() for tensor in numbers)
    assert starts.shape == key_starts.shape == (rows + 1,)
    assert seqused_k.shape == (rows,)
    assert keys.shape[1] % 256 == 0
    assert max_keys == width * keys.shape[1]
    assert key_starts.tolist() == [row * max_keys for row in range(rows + 1)]
    assert enable_gqa == (queries.shape[1] != keys.shape[2])
    assert max_queries >= max(2, starts.diff().max().item())
    assert starts[-1] == len(queries)
    output = torch.empty_like(queries)
    for row in range(rows):
        span = slice(starts[row].item(), starts[row + 1].item())
        pages = block_table[row].long()
        row_keys, row_values = (tensor[pages].flatten(0, 1) for tensor in (keys, values))
        length = seqused_k[row].item()
        output[span] = row_attention(queries[span], row_keys, row_values, length, causal)
    return output


def row_attention(queries, keys, values, length, causal):
    """Attention of one row: its queries are the last of `length` tokens."""
    group = queries.shape[1] // keys.shape[1]
    keys, values = (
        tensor[:length].float().repeat_interleave(group, dim=1).transpose(0, 1) for tensor in (keys, values)
    )
    scores = queries.float().transpose(0, 1) @ keys.transpose(1, 2) * queries.shape[-1] ** -0.5
    if causal:
        positions = torch.arange(length - len(queries), length)
        scores[:, positions[:, None] < torch.arange(length)] = float("-inf")
    return (scores.softmax(-1) @ values).transpose(0, 1).to(queries.dtype)
