"""The choice of the attention that computes, with simulated GPUs and kernels."""

from types import SimpleNamespace

import pytest
import torch
from loguru import logger
from support.paged_kernel import paged_kernel

from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score.devices import choose_dtype
from mmie_tasks.judges.mmie_score.engine import kernels as kernels_module
from mmie_tasks.judges.mmie_score.engine.attention import PagedAttention
from mmie_tasks.judges.mmie_score.engine.kernels import choose_attention, likely_attention
from mmie_tasks.judges.mmie_score.memory import DeviceFull

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
TEXT = SimpleNamespace(num_attention_heads=4, kv_heads=2, head_dim=8)


@pytest.fixture
def log():
    messages = []
    handle = logger.add(
        lambda message: messages.append(str(message)), level="INFO", format="{level} {message}"
    )
    yield messages
    logger.remove(handle)


def test_without_a_gpu_attention_is_plain_and_kernels_are_refused(log):
    where = {"device": CPU, "dtype": torch.float32, "config": TEXT}
    automatic = choose_attention("auto", **where)
    assert (automatic.attention.name, automatic.reason) == (
        "sdpa",
        "paged kernels need a GPU, and this is `cpu`",
    )
    requested = choose_attention("sdpa", **where)
    assert (requested.attention.name, requested.reason) == (
        "sdpa",
        "`attention=sdpa` was requested",
    )
    for option in ("flash", "triton"):
        with pytest.raises(
            JudgeMisconfigured,
            match=rf"(?s){option}. cannot .*this is `cpu`.*hint: .*attention=auto",
        ):
            choose_attention(option, **where)
    assert not log


@pytest.fixture
def kernels(monkeypatch):
    """Kernels that are as the test says: None is good, a text is a reason why it is missing or
    wrong.
    """

    def simulate(missing, wrong):
        def opened(name):
            reason = missing.get(name)
            return lambda: (
                reason or PagedAttention(name=name, title=f"the {name} kernel", kernel=paged_kernel)
            )

        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
        monkeypatch.setattr(kernels_module.torch, "ones", lambda *_, **__: torch.zeros(1))
        monkeypatch.setattr(
            kernels_module, "KERNELS", {name: opened(name) for name in ("flash", "triton")}
        )
        monkeypatch.setattr(
            kernels_module, "self_check", lambda attention, *_, **__: wrong.get(attention.name)
        )

    return simulate


NO_PAGES, NO_TRITON = {"flash": "torch has no kernel"}, {"triton": "there is no Triton"}
BAD_FLASH, BAD_TRITON = {"flash": "its results differ"}, {"triton": "it fails with OutOfResources"}


@pytest.mark.parametrize(
    ("missing", "wrong", "chosen", "reason"),
    [
        pytest.param(
            {}, {}, "flash", "the flash kernel passed its check on cuda:0", id="all is well"
        ),
        pytest.param(
            NO_PAGES,
            {},
            "triton",
            "the triton kernel passed its check on cuda:0; torch has no kernel",
            id="an older torch",
        ),
        pytest.param(
            {},
            BAD_FLASH,
            "triton",
            "the triton kernel passed its check on cuda:0; "
            "the flash kernel fails its check on cuda:0: its results differ",
            id="torch's kernel is wrong",
        ),
        pytest.param(
            NO_PAGES | NO_TRITON,
            {},
            "sdpa",
            "torch has no kernel; there is no Triton",
            id="none is available",
        ),
        pytest.param(
            NO_PAGES,
            BAD_TRITON,
            "sdpa",
            "torch has no kernel; the triton kernel fails its check on cuda:0: it fails with "
            "OutOfResources",
            id="Triton's compiler fails",
        ),
    ],
)
def test_the_first_kernel_that_is_available_and_correct_is_chosen(
    kernels, log, missing, wrong, chosen, reason
):
    kernels(missing, wrong)
    choice = choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)
    assert (choice.attention.name, choice.reason) == (chosen, reason)
    assert len(log) == len(wrong) + (chosen == "sdpa")
    assert all(line.startswith("WARNING") for line in log)
    for line, problem in zip(log, wrong.values(), strict=False):
        assert problem in line
        assert "bits may differ" in line
    for line in log[len(wrong) :]:
        assert reason in line
        assert "8.7 h against 1.9 h" in line
        assert "hint: use torch 2.12 or newer, or install Triton" in line


def test_no_memory_for_the_check_is_no_verdict_on_a_kernel_and_is_not_remembered(
    kernels, monkeypatch
):
    kernels({}, {})
    problems = iter([torch.OutOfMemoryError("CUDA out of memory."), None])

    def self_check(*_, **__):
        if (problem := next(problems)) is not None:
            raise problem

    monkeypatch.setattr(kernels_module, "self_check", self_check)
    with pytest.raises(DeviceFull, match=r"(?s)no memory to try the flash kernel.*--predict_only"):
        choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)
    choice = choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)
    assert choice.attention.name == "flash"


def test_a_kernel_that_makes_the_gpu_unusable_is_an_error_that_says_so(kernels, monkeypatch):
    kernels({}, {"flash": "it fails with AcceleratorError: an illegal memory access"})

    def fail(*_, **__):
        raise RuntimeError("CUDA error: an illegal memory access was encountered\nmore")

    monkeypatch.setattr(kernels_module.torch, "ones", fail)
    with pytest.raises(
        JudgeMisconfigured, match=r"(?s)flash kernel fails .*cannot be used by this.*attention=sdpa"
    ):
        choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)


@pytest.mark.parametrize(
    ("missing", "expected"), [({}, "flash"), (NO_PAGES, "triton"), (NO_PAGES | NO_TRITON, "sdpa")]
)
def test_the_likely_kernel_is_named_without_starting_cuda(kernels, monkeypatch, missing, expected):
    kernels(missing, BAD_FLASH | BAD_TRITON)  # nothing is tried

    def fail(*_):
        raise AssertionError("CUDA is started")

    monkeypatch.setattr(torch.cuda, "get_device_capability", fail)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    dtype = choose_dtype("auto", GPU)
    assert dtype == torch.bfloat16
    assert likely_attention("auto", device=GPU, dtype=dtype, config=TEXT) == expected
    assert likely_attention("sdpa", device=GPU, dtype=dtype, config=TEXT) == "sdpa"


def test_kernels_are_compared_with_exact_results_whatever_a_tested_model_has_allowed(
    kernels, monkeypatch
):
    kernels({}, {})
    precisions = []
    monkeypatch.setattr(
        kernels_module,
        "self_check",
        lambda *_, **__: precisions.append(torch.get_float32_matmul_precision()),
    )
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        choose_attention("auto", device=GPU, dtype=torch.bfloat16, config=TEXT)
    finally:
        torch.set_float32_matmul_precision(before)
    assert precisions == ["highest"]


@pytest.mark.parametrize("option", ["flash", "triton"])
@pytest.mark.parametrize(
    ("missing", "wrong"), [(NO_PAGES | NO_TRITON, {}), ({}, BAD_FLASH | BAD_TRITON)]
)
def test_a_requested_kernel_that_cannot_be_used_is_an_error_with_the_reason(
    kernels, option, missing, wrong
):
    kernels(missing, wrong)
    with pytest.raises(JudgeMisconfigured, match=(missing or wrong)[option]):
        choose_attention(option, device=GPU, dtype=torch.bfloat16, config=TEXT)


@pytest.mark.parametrize(
    ("dtype", "capability", "level", "words"),
    [
        pytest.param(torch.float32, (9, 0), "INFO", "not in float32", id="fp32"),
        pytest.param(torch.float16, (7, 5), "WARNING", "the GPU has 7.5", id="an old GPU"),
    ],
)
def test_where_no_kernel_can_help_there_is_no_hint(gpus, log, dtype, capability, level, words):
    gpus(1, capability)
    choice = choose_attention("auto", device=GPU, dtype=dtype, config=TEXT)
    [line] = log
    assert choice.attention.name == "sdpa"
    assert words in choice.reason
    assert line.startswith(level)
    assert ("8.7 h" in line) == (level == "WARNING")
    assert "hint" not in line
