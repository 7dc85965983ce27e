"""Which device, dtype and attention an option comes to. What torch says of GPUs is put in."""

import pytest
import torch
from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.devices import (
    choose_attention,
    choose_device,
    choose_dtype,
    exact_fp32,
)
from mmie_tasks.judges.mmie_score.engine import flash
from mmie_tasks.judges.mmie_score.engine import flash as flash_check

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
SIZES = {"heads": 4, "kv_heads": 2, "head_dim": 8}


@pytest.fixture
def gpus(monkeypatch):
    def there_are(count, capability=(9, 0)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)

    return there_are


@pytest.mark.parametrize(
    ("count", "option", "rank", "expected"),
    [
        pytest.param(0, "auto", None, "cpu", id="auto without a GPU"),
        pytest.param(0, "auto", "3", "cpu", id="auto without a GPU, fourth process"),
        pytest.param(2, "auto", None, "cuda:0", id="auto"),
        pytest.param(2, "auto", "1", "cuda:1", id="auto, second process"),
        pytest.param(2, "cuda", "1", "cuda:1", id="cuda, second process"),
        pytest.param(2, "cuda", "", "cuda:0", id="cuda, an empty variable"),
        pytest.param(2, "cuda:0", "1", "cuda:0", id="a number wins"),
        pytest.param(2, "cpu", "1", "cpu", id="cpu"),
        pytest.param(0, "cpu", "what", "cpu", id="cpu asks for nothing"),
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
        pytest.param(0, "cuda:1", "0", "finds no GPU", id="no GPU of a number"),
        pytest.param(2, "cuda:2", "0", "there are 2: they count from 0", id="number too high"),
        pytest.param(2, "auto", "2", "process 2 .* 2 GPU", id="more processes than GPUs"),
        pytest.param(2, "cuda", "one", "`LOCAL_RANK` is `one`", id="rank is no number"),
        pytest.param(2, "gpu", "0", "`device=gpu`", id="another word"),
        pytest.param(2, "cuda:-1", "0", "`device=cuda:-1`", id="negative"),
        pytest.param(2, "cuda:", "0", "`device=cuda:`", id="no number"),
        pytest.param(2, "cuda:٣", "0", "no device that is known", id="another script"),
        pytest.param(2, "mps", "0", "no device that is known", id="mps"),
    ],
)
def test_a_device_that_is_not_there_is_told_with_a_hint(gpus, count, option, rank, words):
    gpus(count)
    with pytest.raises(JudgeMisconfigured, match=rf"(?s){words}.*hint: "):
        choose_device(option, {"LOCAL_RANK": rank})


@pytest.mark.parametrize(
    ("option", "device", "capability", "expected"),
    [
        pytest.param("auto", CPU, None, torch.float32, id="CPU"),
        pytest.param("auto", GPU, (9, 0), torch.bfloat16, id="GPU"),
        pytest.param("auto", GPU, (8, 0), torch.bfloat16, id="A100"),
        pytest.param("auto", GPU, (7, 5), torch.float32, id="old GPU"),
        pytest.param("float32", GPU, (9, 0), torch.float32, id="as told"),
        pytest.param("bfloat16", CPU, None, torch.bfloat16, id="as told on a CPU"),
        pytest.param("float16", GPU, (7, 5), torch.float16, id="half"),
    ],
)
def test_the_dtype_follows_the_option_or_the_device(gpus, option, device, capability, expected):
    gpus(1, capability)
    assert choose_dtype(option, device) is expected


@pytest.mark.parametrize("option", ["bf16", "int8", "Tensor", ""])
def test_another_dtype_is_refused(option):
    with pytest.raises(JudgeMisconfigured, match=r"(?s)is not known.*hint: one of auto, bfloat16"):
        choose_dtype(option, CPU)


def test_without_a_gpu_attention_is_plain_and_flash_is_refused():
    place = {"device": CPU, "dtype": torch.float32} | SIZES
    assert choose_attention("auto", **place).name == "sdpa"
    assert choose_attention("sdpa", **place).name == "sdpa"
    with pytest.raises(JudgeMisconfigured, match=r"(?s)this is `cpu`.*hint: .*attention=auto"):
        choose_attention("flash", **place)
    with pytest.raises(JudgeMisconfigured, match="one of auto, flash, sdpa"):
        choose_attention("eager", **place)


@pytest.mark.parametrize(
    ("missing", "wrong", "chosen"),
    [
        pytest.param(None, None, "flash", id="all is well"),
        pytest.param("it is not there", None, "sdpa", id="not there"),
        pytest.param(None, "its results differ", "sdpa", id="wrong results"),
    ],
)
def test_flash_is_taken_where_it_is_there_and_right(monkeypatch, missing, wrong, chosen):
    monkeypatch.setattr(flash, "available", lambda *_: missing)
    monkeypatch.setattr(flash_check, "self_check", lambda *_, **__: wrong)
    said = []
    handle = logger.add(lambda message: said.append(str(message)), level="WARNING")
    try:
        attention = choose_attention("auto", device=GPU, dtype=torch.bfloat16, **SIZES)
    finally:
        logger.remove(handle)
    assert attention.name == chosen
    assert len(said) == (chosen == "sdpa")
    assert all((missing or wrong) in line for line in said)


def switches():
    backends = torch.backends
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision


@pytest.fixture
def precision():
    before = switches()
    yield
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = before


def test_by_default_convolutions_would_be_rounded():
    assert switches()[1] == "tf32"


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("before", [("none", "tf32"), ("tf32", "tf32"), ("ieee", "ieee")])
def test_fp32_is_exact_within_and_as_before_behind(before):
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = before
    within = None

    def judge():
        nonlocal within
        with exact_fp32():
            within = switches()
            raise KeyError

    with pytest.raises(KeyError):
        judge()
    assert within == ("ieee", "ieee")
    assert switches() == before
