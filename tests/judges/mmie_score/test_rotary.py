"""LongRoPE one token at a time, against transformers' own for one row a call."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support.mmie_engine import CPU, LONG_AFTER, model
from transformers.models.phi3.modeling_phi3 import Phi3RotaryEmbedding, apply_rotary_pos_emb

from mmie_tasks.judges.mmie_score.engine.attention import (
    Rotary,
    generated_is_long,
    prompt_is_long,
    rotated,
)


def config() -> object:
    return model().model.language_model.config


def of_prompt(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """As the engine asks for the tokens of a prompt."""
    is_long = torch.full((count,), prompt_is_long([1] * count, LONG_AFTER))
    return Rotary(config(), CPU)(torch.arange(count), is_long, torch.float32)


def of_generated(position: int) -> tuple[torch.Tensor, torch.Tensor]:
    is_long = torch.tensor([generated_is_long(position, LONG_AFTER)])
    return Rotary(config(), CPU)(torch.tensor([position]), is_long, torch.float32)


def official(positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Transformers, in one call for one row."""
    cos, sin = Phi3RotaryEmbedding(config())(torch.zeros(1), positions[None])
    return cos[0, :, None], sin[0, :, None]


AROUND = [1, 2, LONG_AFTER - 1, LONG_AFTER, LONG_AFTER + 1, LONG_AFTER + 2, 1000]


@pytest.mark.parametrize("count", AROUND)
def test_a_prompts_tokens_all_follow_its_length(count: int) -> None:
    for found, expected in zip(of_prompt(count), official(torch.arange(count)), strict=True):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("count", AROUND)
def test_a_generated_token_follows_its_own_position(count: int) -> None:
    position = torch.tensor([count - 1])
    for found, expected in zip(of_generated(count - 1), official(position), strict=True):
        assert torch.equal(found, expected)


def test_the_two_kinds_of_factors_differ() -> None:
    """Or the tests above would not tell them apart."""
    short, long = (of_prompt(count)[0][:LONG_AFTER] for count in (LONG_AFTER, LONG_AFTER + 1))
    assert (short - long).abs().amax() > 0.5


@pytest.mark.parametrize(
    ("count", "is_long"), [(LONG_AFTER - 1, False), (LONG_AFTER, False), (LONG_AFTER + 1, True)]
)
def test_the_border_belongs_to_the_short_side(count: int, is_long: bool) -> None:
    assert prompt_is_long([1] * count, LONG_AFTER) is is_long
    assert generated_is_long(count - 1, LONG_AFTER) is is_long


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 2000), st.booleans()), min_size=1, max_size=20))
def test_a_token_gets_the_same_bits_whoever_else_is_in_the_batch(
    tokens: list[tuple[int, bool]],
) -> None:
    rotary = Rotary(config(), CPU)
    positions, flags = (torch.tensor(each) for each in zip(*tokens, strict=True))
    together = torch.stack(rotary(positions, flags, torch.float32))
    alone = [
        torch.stack(rotary(positions[index, None], flags[index, None], torch.float32))
        for index in range(len(tokens))
    ]
    assert torch.equal(together, torch.cat(alone, dim=1))


def test_the_factors_are_kept_in_fp32_and_rounded_at_the_end() -> None:
    rotary, positions, flags = Rotary(config(), CPU), torch.arange(300), torch.ones(300).bool()
    exact = rotary(positions, flags, torch.float32)
    for found, expected in zip(rotary(positions, flags, torch.bfloat16), exact, strict=True):
        assert torch.equal(found, expected.to(torch.bfloat16))


def test_states_are_turned_as_transformers_turns_them() -> None:
    torch.manual_seed(0)
    queries, keys = torch.randn(300, 4, 16), torch.randn(300, 2, 16)
    cos, sin = of_prompt(300)
    expected = apply_rotary_pos_emb(
        queries.transpose(0, 1)[None],
        keys.transpose(0, 1)[None],
        cos.transpose(0, 1),
        sin.transpose(0, 1),
    )
    for states, turned in zip((queries, keys), expected, strict=True):
        found = rotated(states, cos, sin)
        torch.testing.assert_close(found, turned[0].transpose(0, 1), atol=1e-6, rtol=1e-6)
