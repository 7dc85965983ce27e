"""Attention over pages, against plain arithmetic on keys that lie in a row."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import CPU, one_thread

from mmie_tasks.judges.mmie_score.engine.attention import Rows, SdpaAttention

HEAD_DIM = 8


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    with one_thread():
        yield


class Drawn:
    """Rows of random numbers, and the pages their keys lie in: anywhere, in any order."""

    def __init__(self, spans: list[tuple[int, int]], page_tokens: int, kv_heads: int) -> None:
        torch.manual_seed(len(spans))
        self.spans, self.page_tokens = spans, page_tokens
        needed = [-(-length // page_tokens) for _, length in spans]
        pages = torch.randperm(sum(needed) + 5)
        self.tables = [table.tolist() for table in pages[: sum(needed)].split(needed)]
        shape = (len(pages), page_tokens, kv_heads, HEAD_DIM)
        self.keys, self.values = torch.randn(shape), torch.randn(shape)
        self.queries = [torch.randn(count, 4, HEAD_DIM) for count, _ in spans]

    def attended(self, chosen: list[int]) -> list[torch.Tensor]:
        counts = [self.spans[index][0] for index in chosen]
        rows = Rows(
            starts=[sum(counts[:index]) for index in range(len(counts) + 1)],
            lengths=[self.spans[index][1] for index in chosen],
            tables=[[*self.tables[index], 0, 1] for index in chosen],  # more than are used yet
        )
        attend = SdpaAttention(self.page_tokens).plan(rows, CPU)
        flat = torch.cat([self.queries[index] for index in chosen])
        return list(attend(flat, self.keys, self.values).split(counts))

    def expected(self, index: int) -> torch.Tensor:
        count, length = self.spans[index]
        repeats = 4 // self.keys.shape[2]
        keys, values = (
            pages[self.tables[index]].flatten(0, 1)[:length].repeat_interleave(repeats, dim=1)
            for pages in (self.keys, self.values)
        )
        rows = []
        for number, query in enumerate(self.queries[index]):
            seen = length - count + number + 1
            weights = torch.einsum("hd,khd->hk", query, keys[:seen]) / HEAD_DIM**0.5
            rows.append(torch.einsum("hk,khd->hd", weights.softmax(-1), values[:seen]))
        return torch.stack(rows)


SPANS = st.lists(
    st.integers(1, 40).flatmap(lambda length: st.tuples(st.integers(1, length), st.just(length))),
    min_size=1,
    max_size=5,
)


@settings(max_examples=40)
@given(spans=SPANS, page_tokens=st.sampled_from([1, 4, 16]), kv_heads=st.sampled_from([1, 2, 4]))
def test_each_query_sees_the_keys_up_to_its_own(
    spans: list[tuple[int, int]], page_tokens: int, kv_heads: int
) -> None:
    drawn = Drawn(spans, page_tokens, kv_heads)
    for index, found in enumerate(drawn.attended(list(range(len(spans))))):
        torch.testing.assert_close(found, drawn.expected(index), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_row_alone_gets_the_same_bits_as_among_others(index: int) -> None:
    drawn = Drawn([(1, 9), (7, 7), (3, 20)], page_tokens=4, kv_heads=4)
    [alone] = drawn.attended([index])
    assert torch.equal(alone, drawn.attended([2, 0, 1])[[2, 0, 1].index(index)])


def test_what_lies_behind_a_rows_last_key_is_not_seen() -> None:
    drawn = Drawn([(2, 6)], page_tokens=4, kv_heads=4)
    [before] = drawn.attended([0])
    drawn.keys[drawn.tables[0][1], 2:] = 1000
    drawn.values[drawn.tables[0][1], 2:] = torch.nan
    assert torch.equal(before, drawn.attended([0])[0])
