"""Attention over pages against plain arithmetic, and LongRoPE against transformers' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import CPU, LONG_AFTER, model, one_thread, text_prompt
from support.transformers_5 import needs_transformers_5
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding, apply_rotary_pos_emb

from mmie_tasks.judges.mmie_score.engine.attention import BatchLayout, SdpaAttention
from mmie_tasks.judges.mmie_score.engine.model import Rotary, rotated
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk, LiveRow

pytestmark = needs_transformers_5

HEAD_DIM = 8


@pytest.fixture(autouse=True, scope="module")
def single_thread() -> Iterator[None]:
    with one_thread():
        yield


class RandomRows:
    """Rows of random numbers whose keys are in random pages."""

    def __init__(self, spans: list[tuple[int, int]], page_tokens: int, kv_heads: int) -> None:
        torch.manual_seed(len(spans))
        self.spans, self.page_tokens = spans, page_tokens
        needed = [-(-length // page_tokens) for _, length in spans]
        pages = torch.randperm(sum(needed) + 5)
        self.tables = [table.tolist() for table in pages[: sum(needed)].split(needed)]
        shape = (len(pages), page_tokens, kv_heads, HEAD_DIM)
        self.keys, self.values = torch.randn(shape), torch.randn(shape)
        self.queries = [torch.randn(count, 4, HEAD_DIM) for count, _ in spans]

    def attended(self, indices: list[int]) -> list[torch.Tensor]:
        counts = [self.spans[index][0] for index in indices]
        layout = BatchLayout(
            starts=[sum(counts[:index]) for index in range(len(counts) + 1)],
            lengths=[self.spans[index][1] for index in indices],
            tables=[[*self.tables[index], 0, 1] for index in indices],  # more than are used yet
        )
        attend = SdpaAttention(self.page_tokens).plan(layout, CPU)
        flat = torch.cat([self.queries[index] for index in indices])
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
            visible = length - count + number + 1
            weights = torch.einsum("hd,khd->hk", query, keys[:visible]) / HEAD_DIM**0.5
            rows.append(torch.einsum("hk,khd->hd", weights.softmax(-1), values[:visible]))
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
    rows = RandomRows(spans, page_tokens, kv_heads)
    for index, output in enumerate(rows.attended(list(range(len(spans))))):
        torch.testing.assert_close(output, rows.expected(index), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_row_has_the_same_bits_alone_and_among_others(index: int) -> None:
    rows = RandomRows([(1, 9), (7, 7), (3, 20)], page_tokens=4, kv_heads=4)
    [alone] = rows.attended([index])
    assert torch.equal(alone, rows.attended([2, 0, 1])[[2, 0, 1].index(index)])


def test_keys_behind_the_last_one_of_a_row_are_not_visible() -> None:
    rows = RandomRows([(2, 6)], page_tokens=4, kv_heads=4)
    [before] = rows.attended([0])
    rows.keys[rows.tables[0][1], 2:] = 1000
    rows.values[rows.tables[0][1], 2:] = torch.nan
    assert torch.equal(before, rows.attended([0])[0])


def config() -> object:
    return model().model.language_model.config


def of_prompt(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of the tokens of a prompt, as in the engine."""
    row = LiveRow(prompt=text_prompt(0, [1] * count), pages=[])
    flags = torch.full((count,), is_long(Chunk(row=row, start=0, stop=(count + 1) // 2)))
    return Rotary(config(), CPU)(torch.arange(count), flags, torch.float32)


def of_generated(position: int) -> tuple[torch.Tensor, torch.Tensor]:
    row = LiveRow(prompt=text_prompt(0, [1]), pages=[], output=[1] * position)
    return Rotary(config(), CPU)(
        torch.tensor([position]), torch.tensor([is_long(row.last_token())]), torch.float32
    )


def is_long(chunk: Chunk) -> bool:
    return chunk.takes_long_factors(LONG_AFTER)


def official_rotary(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Transformers, for one row a call."""
    cos, sin = Phi3RotaryEmbedding(config())(torch.zeros(1), positions[None])
    return cos[0, :, None], sin[0, :, None]


AROUND = [1, 2, LONG_AFTER - 1, LONG_AFTER, LONG_AFTER + 1, LONG_AFTER + 2, 1000]


@pytest.mark.parametrize("count", AROUND)
def test_all_tokens_of_a_prompt_follow_its_length(count: int) -> None:
    for values, expected in zip(
        of_prompt(count), official_rotary(torch.arange(count)), strict=True
    ):
        assert torch.equal(values, expected)


@pytest.mark.parametrize("count", AROUND)
def test_a_generated_token_follows_its_own_position(count: int) -> None:
    position = torch.tensor([count - 1])
    for values, expected in zip(of_generated(count - 1), official_rotary(position), strict=True):
        assert torch.equal(values, expected)


def test_rotary_values_are_rounded_only_at_the_end() -> None:
    rotary, positions, flags = Rotary(config(), CPU), torch.arange(300), torch.ones(300).bool()
    exact = rotary(positions, flags, torch.float32)
    for values, expected in zip(rotary(positions, flags, torch.bfloat16), exact, strict=True):
        assert torch.equal(values, expected.to(torch.bfloat16))


def test_states_are_rotated_as_in_transformers() -> None:
    torch.manual_seed(0)
    queries, keys = torch.randn(300, 4, 16), torch.randn(300, 2, 16)
    cos, sin = of_prompt(300)
    expected = apply_rotary_pos_emb(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        cos.transpose(0, 1),
        sin.transpose(0, 1),
    )
    for states, official_states in zip((queries, keys), expected, strict=True):
        expected_states = official_states[0].transpose(0, 1)
        output = rotated(states, cos, sin)
        torch.testing.assert_close(output, expected_states, atol=1e-6, rtol=1e-6)
