"""Device, dtype and attention by option, with simulated GPUs, and free memory."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from loguru import logger

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import devices
from mmie_tasks.judges.mmie_score.devices import (
    choose_attention,
    choose_device,
    choose_dtype,
    container_free_bytes,
    exact_fp32,
    free_bytes,
)
from mmie_tasks.judges.mmie_score.engine import paged

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
TEXT = SimpleNamespace(num_attention_heads=4, kv_heads=2, head_dim=8)


@pytest.fixture
def gpus(monkeypatch):
    def simulate(count, capability=(9, 0)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)

    return simulate


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
        pytest.param(0, "cpu", "what", "cpu", id="cpu reads no variable"),
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
        pytest.param(2, "gpu", "0", "`device=gpu`", id="another name"),
        pytest.param(2, "cuda:-1", "0", "`device=cuda:-1`", id="negative"),
        pytest.param(2, "cuda:", "0", "`device=cuda:`", id="no number"),
        pytest.param(2, "cuda:٣", "0", "is not a known device", id="another script"),
        pytest.param(2, "mps", "0", "is not a known device", id="mps"),
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
        pytest.param("auto", GPU, (8, 0), torch.bfloat16, id="A100"),
        pytest.param("auto", GPU, (7, 5), torch.float32, id="old GPU"),
        pytest.param("float32", GPU, (9, 0), torch.float32, id="as requested"),
        pytest.param("bfloat16", CPU, None, torch.bfloat16, id="as requested on a CPU"),
        pytest.param("float16", GPU, (7, 5), torch.float16, id="half"),
    ],
)
def test_the_dtype_follows_the_option_or_the_device(gpus, option, device, capability, expected):
    gpus(1, capability)
    assert choose_dtype(option, device) is expected


def test_without_a_gpu_attention_is_plain_and_flash_is_refused():
    where = {"device": CPU, "dtype": torch.float32, "config": TEXT}
    assert choose_attention("auto", **where).name == "sdpa"
    assert choose_attention("sdpa", **where).name == "sdpa"
    with pytest.raises(JudgeMisconfigured, match=r"(?s)this is `cpu`.*hint: .*attention=auto"):
        choose_attention("flash", **where)


@pytest.mark.parametrize(
    ("missing", "wrong", "chosen"),
    [
        pytest.param(None, None, "flash", id="all is well"),
        pytest.param("it is not available", None, "sdpa", id="not available"),
        pytest.param(None, "its results differ", "sdpa", id="wrong results"),
    ],
)
def test_flash_is_chosen_if_it_is_available_and_correct(monkeypatch, missing, wrong, chosen):
    monkeypatch.setattr(paged, "available", lambda *_: missing)
    monkeypatch.setattr(paged, "self_check", lambda *_, **__: wrong)
    messages = []
    handle = logger.add(lambda message: messages.append(str(message)), level="WARNING")
    try:
        attention = choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)
    finally:
        logger.remove(handle)
    assert attention.name == chosen
    assert len(messages) == (chosen == "sdpa")
    assert all((missing or wrong) in line for line in messages)


def switches():
    backends = torch.backends
    return backends.cuda.matmul.fp32_precision, backends.cudnn.conv.fp32_precision


@pytest.fixture
def precision():
    before = switches()
    yield
    torch.backends.cuda.matmul.fp32_precision, torch.backends.cudnn.conv.fp32_precision = before


def test_convolutions_are_rounded_by_default():
    assert switches()[1] == "tf32"


@pytest.mark.usefixtures("precision")
@pytest.mark.parametrize("before", [("none", "tf32"), ("tf32", "tf32"), ("ieee", "ieee")])
def test_fp32_is_exact_inside_and_restored_afterwards(before):
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


V2, V1 = "sys/fs/cgroup", "sys/fs/cgroup/memory"


def machine(root, group, files):
    contents = {"proc/self/cgroup": group} | files
    for name, text in contents.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("group", "files", "free"),
    [
        pytest.param("", {}, None, id="no groups"),
        pytest.param("0::/\n", {}, None, id="the top group has no limit"),
        pytest.param("0::/\n", {f"{V2}/memory.max": "max\n", f"{V2}/memory.current": "5\n"}, None, id="max"),
        pytest.param("0::/\n", {f"{V2}/memory.max": "1000\n", f"{V2}/memory.current": "600\n"}, 400, id="version 2"),
        pytest.param(
            "0::/\n",
            {
                f"{V2}/memory.max": "1000\n",
                f"{V2}/memory.current": "600\n",
                f"{V2}/memory.stat": "anon 1\nfile 9\ninactive_file 150\n",
            },
            550,
            id="files that can be dropped",
        ),
        pytest.param(
            "0::/a/b\n",
            {
                f"{V2}/a/b/memory.max": "max\n",
                f"{V2}/a/b/memory.current": "1\n",
                f"{V2}/a/memory.max": "100\n",
                f"{V2}/a/memory.current": "130\n",
            },
            0,
            id="the group above is full",
        ),
        pytest.param(
            "3:cpu:/x\n2:hugetlb,memory:/x\n",
            {
                f"{V1}/x/memory.limit_in_bytes": "9223372036854771712\n",
                f"{V1}/x/memory.usage_in_bytes": "5\n",
                f"{V1}/memory.limit_in_bytes": "800\n",
                f"{V1}/memory.usage_in_bytes": "500\n",
                f"{V1}/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n",
            },
            400,
            id="version 1",
        ),
    ],
)
def test_the_free_memory_of_a_container_follows_its_limits(tmp_path, group, files, free):
    assert container_free_bytes(machine(tmp_path, group, files)) == free


@pytest.mark.parametrize(("free", "limited"), [(None, False), (2**60, False), (2**20, True)])
def test_a_container_limits_the_free_memory(monkeypatch, free, limited):
    monkeypatch.setattr(devices, "container_free_bytes", lambda _: free)
    assert free_bytes(CPU) > 0
    assert (free_bytes(CPU) == 2**20) == limited


def test_the_container_of_this_machine_can_be_read():
    free = container_free_bytes(Path("/"))
    assert free is None or free >= 0


def test_a_gpu_is_queried_after_torch_has_released_its_cache(monkeypatch):
    calls = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: calls.append("empty"))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: calls.append(device) or (7, 9))
    assert free_bytes(torch.device("cuda", 1)) == 7
    assert calls == ["empty", torch.device("cuda", 1)]
