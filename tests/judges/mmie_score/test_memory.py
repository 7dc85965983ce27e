"""Memory plans for the sizes of the real model, against figures computed by hand; free memory."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from support.random_checkpoint import REAL, config_content

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.checkpoint.config import read_config
from mmie_tasks.judges.mmie_score.engine.attention import SdpaAttention
from mmie_tasks.judges.mmie_score.engine.budget import Placement, kv_token_bytes, plan
from mmie_tasks.judges.mmie_score.memory import GIB, free_bytes, parse_bytes, release_memory

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CONFIG = read_config(config_content(REAL), Path("config.json"))
PAGE_BYTES = 256 * 393_216


def planned(
    free_bytes, *, device_bytes=None, rows=64, device=GPU, dtype=torch.bfloat16, name="flash"
):
    checkpoint = SimpleNamespace(config=CONFIG, weight_bytes=8_294_000_000, dtype="bfloat16")
    placement = Placement(
        device=device,
        dtype=dtype,
        attention=SdpaAttention(256, name=name),
        attention_reason="a test",
        max_memory_bytes=None,
        max_rows=rows,
        graphs=True,
        fixed=device == GPU,
    )
    memory = {"free_bytes": int(free_bytes), "device_bytes": int(device_bytes or free_bytes)}
    return plan(checkpoint, placement, **memory)


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


@pytest.mark.parametrize(
    ("gigabytes", "pages"),
    [
        pytest.param(24, 86, id="L4"),
        pytest.param(80, 598, id="H100"),
        pytest.param(141, 1155, id="H200"),
    ],
)
def test_a_gpu_holds_the_computed_number_of_tokens(gigabytes, pages):
    """By hand: 92 % of the memory, less weights (8.29 GB), steps and reserve (4.97)."""
    assert planned(0.92 * gigabytes * 1e9).pages == pytest.approx(pages, abs=1)


def test_weights_are_counted_in_the_dtype_of_the_computation():
    half, full = (planned(80e9, dtype=dtype) for dtype in (torch.bfloat16, torch.float32))
    assert half.pages - 2 * full.pages > 8_294_000_000 / PAGE_BYTES


def test_there_are_no_more_pages_than_all_rows_can_use():
    assert planned(1e12, rows=4).pages == 4 * 131_072 // 256
    assert planned(1e12, rows=4).rows == 4


@pytest.mark.parametrize(
    ("device_bytes", "chunk_tokens"),
    [(18e9, 256), (19.4e9, 2048), (26e9, 4096), (85e9, 4096), (150e9, 4096)],
)
@pytest.mark.parametrize("share", [0.9, 1])
def test_a_step_on_a_gpu_has_the_size_that_its_whole_memory_allows(
    device_bytes, chunk_tokens, share
):
    budget = planned(share * device_bytes, device_bytes=device_bytes)
    assert budget.chunk_tokens == chunk_tokens


def test_attention_without_pages_needs_more():
    assert planned(26e9, name="sdpa").pages < planned(26e9).pages


def test_steps_get_smaller_with_a_warning_if_too_little_of_a_gpu_is_free(warnings):
    assert planned(14.2e9, device_bytes=150e9).chunk_tokens < 4096
    [message] = warnings
    assert "smaller steps than usual on `cuda:0`" in message
    assert "instead of 4,096 tokens and 64 tiles" in message
    assert "13.2 GiB are free" in message


def test_the_error_for_a_small_gpu_names_the_memory_that_is_enough_and_what_to_do():
    with pytest.raises(JudgeMisconfigured) as caught:
        planned(11 * GIB)
    words = str(caught.value)
    for word in ("free on `cuda:0`", "11.0 GiB are free", "--predict_only", "max_memory="):
        assert word in words
    needed = float(words.split("needs ")[1].split(" GiB")[0])
    assert planned((needed + 0.05) * GIB).pages * 256 == 4096
    with pytest.raises(JudgeMisconfigured):
        planned((needed - 0.1) * GIB)


def test_on_a_cpu_steps_are_small_and_half_of_the_remaining_memory_stays_free():
    whole, half = planned(100e9, device=GPU), planned(100e9, device=CPU)
    assert half.chunk_tokens == 2048
    assert half.pages == pytest.approx(whole.pages / 2, rel=0.05)
    assert planned(20e9, device=CPU).pages * 256 == 17_408  # one long request, not half of it


@given(
    free=st.integers(min_value=10 * GIB, max_value=200 * GIB),
    rows=st.integers(min_value=1, max_value=128),
    device=st.sampled_from([CPU, GPU]),
)
def test_every_plan_fits_and_holds_a_request(free, rows, device):
    try:
        budget = planned(free, rows=rows, device=device)
    except JudgeMisconfigured:
        assume(False)
    assert 8_294_000_000 + (budget.pages + 1) * PAGE_BYTES <= free
    assert budget.pages * 256 >= 4096
    assert 1 <= budget.rows <= rows


def test_shrinking_halves_steps_then_rows_and_ends():
    sizes, budget = [], planned(140e9)
    while budget is not None:
        sizes.append((budget.chunk_tokens, budget.vision_tiles, budget.rows))
        assert budget.pages == planned(140e9).pages
        budget = budget.smaller()
    assert sizes[:2] == [(4096, 64, 64), (2048, 32, 64)]
    assert sizes[6:8] == [(256, 1, 64), (256, 1, 32)]
    assert sizes[-1] == (256, 1, 1)


def test_a_gpu_is_queried_after_torch_has_released_its_cache(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: calls.append(device) or (7, 9))
    assert free_bytes(torch.device("cuda", 1)) == 7
    assert calls == ["empty", torch.device("cuda", 1)]


def test_errors_of_cuda_while_memory_is_freed_are_logged_and_not_raised(monkeypatch, logs):
    def fail():
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore of it")

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "empty_cache", fail)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (7, 9))
    release_memory()
    assert free_bytes(torch.device("cuda", 1)) == 7
    assert len([line for line in logs if "an illegal memory access" in line]) == 2
