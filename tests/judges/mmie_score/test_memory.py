"""Amounts of memory that users write, and free memory of devices."""

import pytest
import torch

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.memory import free_bytes, parse_bytes, release_memory


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
