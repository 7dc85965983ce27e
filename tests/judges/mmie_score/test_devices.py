"""Device and dtype by option, with simulated GPUs."""

import pytest
import torch

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.devices import (
    choose_device,
    choose_dtype,
    free_share,
    gpus_of_process,
)

FOURTH = {"WORLD_SIZE": "4", "LOCAL_RANK": "3"}


@pytest.mark.parametrize(
    ("count", "option", "environment", "device", "served"),
    [
        pytest.param(0, "auto", {}, "cpu", (), id="no-GPU"),
        pytest.param(4, "auto", {}, "cuda:0", (0, 1, 2, 3), id="one-process"),
        pytest.param(4, "auto", FOURTH, "cuda:3", (3,), id="its-own"),
        pytest.param(4, "cuda:2", FOURTH, "cuda:2", (2,), id="a-number-wins"),
        pytest.param(1, "auto", FOURTH, "cuda:0", (0,), id="the-only-one-that-it-sees"),
    ],
)
def test_a_process_gets_its_gpus(gpus, count, option, environment, device, served):
    gpus(count)
    assert choose_device(option, environment) == torch.device(device)
    assert gpus_of_process(option, environment) == served


@pytest.mark.parametrize(
    ("count", "option", "words"),
    [(0, "cuda", "no GPU"), (2, "cuda:2", "2 GPU"), (2, "auto", "process 3"), (2, "gpu", "gpu")],
)
def test_a_missing_device_is_an_error(gpus, count, option, words):
    gpus(count)
    with pytest.raises(JudgeMisconfigured, match=words):
        choose_device(option, FOURTH)


@pytest.mark.parametrize(
    ("option", "device", "expected"),
    [
        ("auto", "cpu", torch.float32),
        ("auto", "cuda:0", torch.bfloat16),
        ("float32", "cuda:0", torch.float32),
    ],
)
def test_the_dtype_follows_the_option_or_the_device(option, device, expected):
    assert choose_dtype(option, torch.device(device)) is expected


def test_a_server_takes_what_this_process_leaves_of_the_fullest_gpu(gpus, monkeypatch):
    gpus(2)
    free = {0: 90, 1: 62}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[gpu], 100))
    assert free_share([0, 1]) == 0.59
    free[1] = 97
    assert free_share([1]) is None  # vLLM's default fits
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert free_share([0]) is None
