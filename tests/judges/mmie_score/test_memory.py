"""Memory plans for the sizes of the real model, against figures computed by hand."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from loguru import logger
from support.random_checkpoint import REAL, config_content

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.config import read_config
from mmie_tasks.judges.mmie_score.devices import GIB, parse_bytes
from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.budget import (
    Placement,
    kv_token_bytes,
    plan,
    shrink,
    text_step_bytes,
    vision_bytes,
)


@pytest.fixture
def warnings():
    messages = []
    handle = logger.add(lambda message: messages.append(str(message)), level="WARNING")
    yield messages
    logger.remove(handle)


CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CONFIG = read_config(config_content(REAL), Path("config.json"))
CHECKPOINT = SimpleNamespace(config=CONFIG, weight_bytes=8_294_000_000, dtype="bfloat16")


def planned(
    free_bytes,
    *,
    device_bytes=None,
    tokens=15_600,
    rows=64,
    device=GPU,
    dtype_bytes=2,
    page_tokens=256,
    checkpoint=CHECKPOINT,
):
    placement = Placement(
        device=device,
        dtype={2: torch.bfloat16, 4: torch.float32}[dtype_bytes],
        attention=SdpaAttention(page_tokens, name="sdpa" if dtype_bytes == 4 else "flash"),
        attention_reason="a test",
        max_memory_bytes=None,
        max_rows=rows,
        graphs=True,
        fixed=device == GPU,
    )
    memory = {"free_bytes": int(free_bytes), "device_bytes": int(device_bytes or free_bytes)}
    return plan(checkpoint, placement, rows=rows, tokens=tokens, **memory)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("20GiB", 20 * 2**30),
        ("1.5GB", 1_500_000_000),
        ("512MiB", 512 * 2**20),
        ("512MB", 512_000_000),
        ("1048576", 2**20),
    ],
)
def test_an_amount_of_memory_is_parsed_in_its_unit(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "lots", "20 GiBs", "-1GiB", "0", "0GB", "1e9", "1 2GB"])
def test_a_text_that_is_no_amount_of_memory_is_refused(text):
    with pytest.raises(JudgeMisconfigured, match=r"(?s)max_memory=.*hint: .*20GiB"):
        parse_bytes(text)


def test_a_token_has_393216_bytes_of_keys_and_values():
    assert kv_token_bytes(CONFIG, 2) == 393_216
    assert kv_token_bytes(CONFIG, 4) == 2 * 393_216


def test_weights_are_counted_in_the_dtype_of_the_computation():
    assert planned(80e9).weight_bytes == CHECKPOINT.weight_bytes
    assert planned(80e9, dtype_bytes=4).weight_bytes == 2 * CHECKPOINT.weight_bytes
    in_fp32 = SimpleNamespace(config=CONFIG, weight_bytes=CHECKPOINT.weight_bytes, dtype="float32")
    assert planned(80e9, checkpoint=in_fp32).weight_bytes == CHECKPOINT.weight_bytes // 2


def test_attention_without_pages_needs_more():
    sizes = {"chunk_tokens": 2048, "longest_tokens": 5900}
    more = text_step_bytes(CONFIG, 4, **sizes, plain=True)
    assert more > text_step_bytes(CONFIG, 4, **sizes, plain=False)
    budget = planned(140e9, tokens=5900, dtype_bytes=4)  # fp32 on a GPU has no kernel for pages
    assert budget.step_bytes > vision_bytes(CONFIG, 4, tiles=64) + text_step_bytes(
        CONFIG, 4, chunk_tokens=budget.chunk_tokens, longest_tokens=5900, plain=False
    )


@pytest.mark.parametrize(
    ("prompt", "output", "rows"),
    [
        pytest.param(1_200, 300, 195, id="text only"),
        pytest.param(4_900, 300, 56, id="15 tiles"),
        pytest.param(9_000, 300, 31, id="30 tiles"),
        pytest.param(14_600, 1_024, 18, id="52 tiles, runaway"),
    ],
)
def test_a_gpu_of_141_gb_holds_the_computed_number_of_rows(prompt, output, rows):
    """The figures ignore partly used pages, and count 92 % of the GPU's memory."""
    budget = planned(0.92 * 141e9, tokens=prompt + output, rows=256, page_tokens=16)
    assert budget.longest_rows == pytest.approx(rows, rel=0.1, abs=1)


def test_there_are_no_more_pages_than_all_rows_can_use():
    assert (
        planned(1e12, tokens=2_000, rows=4).pages == 4 * 131_072 // 256
    )  # all positions of the model
    assert planned(1e12, tokens=2_000, rows=4, device=CPU).pages == 4 * 8


def test_about_18_gb_are_the_least_for_the_longest_requests():
    with pytest.raises(JudgeMisconfigured):
        planned(16e9)
    assert planned(18.5e9).longest_rows == 1


@pytest.mark.parametrize("fixed", [True, False])
def test_steps_get_smaller_only_to_hold_one_long_request(fixed):
    device = GPU if fixed else CPU
    plans = {
        free: planned(free * 1e9, tokens=17_408, device=device).chunk_tokens
        for free in (18.0, 19, 20, 20.5, 24, 66)
    }
    largest = {18.0: 256, 19: 1024, 20: 2048, 20.5: 4096, 24: 4096, 66: 4096}
    assert plans == (largest if fixed else dict.fromkeys(largest, 2048))


@pytest.mark.parametrize("tokens", [300, 4_096])
@pytest.mark.parametrize("share", [0.9, 1])
@pytest.mark.parametrize(
    ("device_bytes", "chunk_tokens"),
    [(16e9, 256), (19.4e9, 2048), (26e9, 4096), (85e9, 4096), (150e9, 4096)],
)
def test_a_step_on_a_gpu_has_the_size_that_its_whole_memory_allows(
    device_bytes, chunk_tokens, share, tokens
):
    assert (
        planned(share * device_bytes, device_bytes=device_bytes, tokens=tokens).chunk_tokens
        == chunk_tokens
    )


def test_steps_get_smaller_with_a_warning_if_too_little_of_a_gpu_is_free(warnings):
    budget = planned(14.2e9, device_bytes=150e9, tokens=4_096)
    assert budget.chunk_tokens < 4096
    assert budget.longest_rows == 1
    [message] = warnings
    assert "smaller steps than usual on `cuda:0`" in message
    assert "instead of 4,096 tokens and 64 tiles" in message
    assert "13.2 GiB are free" in message


def test_the_error_for_a_small_gpu_says_how_much_is_needed_and_what_to_do():
    with pytest.raises(JudgeMisconfigured) as caught:
        planned(12 * GIB)
    words = str(caught.value)
    for word in ("free on `cuda:0`", "15,600 tokens", "12.0 GiB are free", "--predict_only"):
        assert word in words
    assert all(option in words for option in ("device=", "max_memory="))


def test_the_memory_named_in_the_error_is_enough():
    with pytest.raises(JudgeMisconfigured) as caught:
        planned(1 * GIB)
    needed = float(str(caught.value).split("needs ")[1].split(" GiB")[0])
    assert planned((needed + 0.05) * GIB).longest_rows == 1
    with pytest.raises(JudgeMisconfigured):
        planned((needed - 0.1) * GIB)


def test_on_a_cpu_half_of_the_remaining_memory_stays_free():
    budget = planned(100 * GIB, device=CPU, dtype_bytes=4, page_tokens=64)
    remaining = 100 * GIB - budget.weight_bytes - budget.step_bytes
    assert budget.longest_rows > 1
    assert budget.pages * budget.page_bytes <= remaining / 2


@given(
    free=st.integers(min_value=10 * GIB, max_value=200 * GIB),
    tokens=st.integers(min_value=1, max_value=131_072),
    rows=st.integers(min_value=1, max_value=128),
    on_gpu=st.booleans(),
    page_tokens=st.sampled_from([16, 64, 256]),
)
def test_every_plan_fits_and_holds_the_longest_request(free, tokens, rows, on_gpu, page_tokens):
    device = GPU if on_gpu else CPU
    try:
        budget = planned(free, tokens=tokens, rows=rows, device=device, page_tokens=page_tokens)
    except JudgeMisconfigured:
        assume(False)
    used = budget.weight_bytes + budget.step_bytes + (budget.pages + 1) * budget.page_bytes
    assert used <= free
    assert budget.pages * page_tokens >= tokens
    assert 1 <= budget.rows <= rows


def test_shrinking_halves_steps_then_rows_and_ends():
    sizes, budget = [], planned(140e9, tokens=5_924)
    while budget is not None:
        sizes.append((budget.chunk_tokens, budget.vision_tiles, budget.rows))
        assert budget.pages == planned(140e9, tokens=5_924).pages
        budget = shrink(budget)
    assert sizes[:2] == [(4096, 64, 64), (2048, 32, 64)]
    assert sizes[6:8] == [(256, 1, 64), (256, 1, 32)]
    assert sizes[-1] == (256, 1, 1)
