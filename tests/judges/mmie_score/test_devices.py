"""Device and dtype by option, with simulated GPUs."""

import pytest
import torch

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.devices import choose_device, choose_dtype, start

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize(
    ("count", "option", "rank", "expected"),
    [
        pytest.param(0, "auto", None, "cpu", id="auto without a GPU"),
        pytest.param(2, "auto", None, "cuda:0", id="auto"),
        pytest.param(2, "auto", "1", "cuda:1", id="auto, second process"),
        pytest.param(2, "cuda", "", "cuda:0", id="cuda, an empty variable"),
        pytest.param(2, "cuda:0", "1", "cuda:0", id="a number wins"),
        pytest.param(
            1, "auto", "3", "cuda:0", id="auto, the only GPU that the fourth process sees"
        ),
        pytest.param(1, "cuda", "one", "cuda:0", id="the only GPU needs no variable"),
        pytest.param(2, "cpu", "1", "cpu", id="cpu"),
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
    ("option", "device", "capability", "expected"),
    [
        pytest.param("auto", CPU, None, torch.float32, id="CPU"),
        pytest.param("auto", GPU, (9, 0), torch.bfloat16, id="GPU"),
        pytest.param("auto", GPU, (7, 5), torch.float32, id="old GPU"),
        pytest.param("float32", GPU, (9, 0), torch.float32, id="as requested"),
        pytest.param("bfloat16", CPU, None, torch.bfloat16, id="as requested on a CPU"),
    ],
)
def test_the_dtype_follows_the_option_or_the_device(gpus, option, device, capability, expected):
    gpus(1, capability)
    assert choose_dtype(option, device) is expected


def test_a_gpu_that_cannot_be_started_is_an_error_with_a_hint(monkeypatch):
    def fail(_):
        raise RuntimeError("The NVIDIA driver on your system is too old\nmore")

    monkeypatch.setattr(torch.cuda, "get_device_properties", fail)
    with pytest.raises(JudgeMisconfigured, match=r"(?s)`cuda:0` cannot be used: .*too old\n.*hint"):
        start(GPU)
    start(CPU)
