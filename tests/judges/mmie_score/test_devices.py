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

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("count", "option", "rank", "expected"),
    [
        pytest.param(0, "auto", None, "cpu", id="auto without a GPU"),
        pytest.param(2, "auto", None, "cuda:0", id="auto"),
        pytest.param(2, "auto", "1", "cuda:1", id="auto, second process"),
        pytest.param(2, "cuda:0", "1", "cuda:0", id="a number wins"),
        pytest.param(
            1, "auto", "3", "cuda:0", id="auto, the only GPU that the fourth process sees"
        ),
    ],
)
def test_a_process_gets_its_device(gpus, count, option, rank, expected):
    gpus(count)
    environment = {} if rank is None else {"LOCAL_RANK": rank}
    assert choose_device(option, environment) == torch.device(expected)


@pytest.mark.parametrize(
    ("count", "option", "rank", "words"),
    [
        pytest.param(0, "cuda", "0", "finds no GPU", id="no GPU"),
        pytest.param(2, "cuda:2", "0", "finds 2 GPU.*count from 0", id="number too high"),
        pytest.param(2, "auto", "2", "process 2 .* 2 GPU", id="more processes than GPUs"),
        pytest.param(2, "gpu", "0", "`device=gpu`", id="another name"),
    ],
)
def test_a_missing_device_is_an_error_with_a_hint(gpus, count, option, rank, words):
    gpus(count)
    with pytest.raises(JudgeMisconfigured, match=rf"(?s){words}.*hint: "):
        choose_device(option, {"LOCAL_RANK": rank})


@pytest.mark.parametrize(
    ("option", "device", "expected"),
    [
        pytest.param("auto", CPU, torch.float32, id="CPU"),
        pytest.param("auto", GPU, torch.bfloat16, id="GPU"),
        pytest.param("float32", GPU, torch.float32, id="as requested"),
    ],
)
def test_the_dtype_follows_the_option_or_the_device(option, device, expected):
    assert choose_dtype(option, device) is expected


@pytest.mark.parametrize(
    ("count", "option", "environment", "expected"),
    [
        pytest.param(0, "auto", {}, (), id="no GPU"),
        pytest.param(4, "auto", {}, (0, 1, 2, 3), id="all that one process sees"),
        pytest.param(4, "cuda:2", {}, (2,), id="a number"),
        pytest.param(4, "auto", {"WORLD_SIZE": "4", "LOCAL_RANK": "3"}, (3,), id="its own"),
        pytest.param(1, "auto", {"WORLD_SIZE": "4", "LOCAL_RANK": "3"}, (0,), id="the only one"),
    ],
)
def test_a_server_gets_the_gpus_of_its_process(gpus, count, option, environment, expected):
    gpus(count)
    assert gpus_of_process(option, environment) == expected


def test_a_server_takes_what_this_process_leaves_of_the_fullest_gpu(gpus, monkeypatch):
    gpus(2)
    free = {0: 90, 1: 62}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda gpu: (free[gpu], 100))
    assert free_share([0, 1]) == 0.59
    free[1] = 97
    assert free_share([1]) is None  # vLLM's default fits
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert free_share([0]) is None
