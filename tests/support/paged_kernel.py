"""Attention over pages on the CPU, called and as strict as torch's flash kernel."""

import torch


def paged_kernel(
    queries,
    keys,
    values,
    starts,
    key_starts,
    most_queries,
    most_keys,
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
    assert {each.dtype for each in (starts, key_starts, seqused_k, block_table)} == {torch.int32}
    assert all(each.is_contiguous() for each in (starts, key_starts, seqused_k, block_table))
    assert starts.shape == key_starts.shape == (rows + 1,)
    assert seqused_k.shape == (rows,)
    assert keys.shape[1] % 256 == 0
    assert most_keys == width * keys.shape[1]
    assert key_starts.tolist() == [row * most_keys for row in range(rows + 1)]
    assert enable_gqa == (queries.shape[1] != keys.shape[2])
    assert most_queries >= max(2, starts.diff().max().item())
    assert starts[-1] == len(queries)
    found = torch.empty_like(queries)
    for row in range(rows):
        span = slice(starts[row].item(), starts[row + 1].item())
        pages = block_table[row].long()
        seen, held = (each[pages].flatten(0, 1) for each in (keys, values))
        found[span] = one_row(queries[span], seen, held, seqused_k[row].item(), causal)
    return found


def one_row(queries, keys, values, length, causal):
    """The queries are the last of so many tokens; keys and values lie in order."""
    group = queries.shape[1] // keys.shape[1]
    seen, held = (
        each[:length].float().repeat_interleave(group, dim=1).transpose(0, 1)
        for each in (keys, values)
    )
    scores = queries.float().transpose(0, 1) @ seen.transpose(1, 2) * queries.shape[-1] ** -0.5
    place = torch.arange(length - len(queries), length)
    if causal:
        scores[:, place[:, None] < torch.arange(length)] = float("-inf")
    return (scores.softmax(-1) @ held).transpose(0, 1).to(queries.dtype)
