"""Arguments of torch's flash kernel, and that a wrong kernel is detected; torch's kernel is not
run.
"""

import sys
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from support.paged_kernel import paged_kernel, varlen_attn
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.errors import TritonError

from mmie_tasks.judges.mmie_score.engine.attention import (
    BatchLayout,
    PagedAttention,
    SdpaAttention,
    flash_kernel,
)
from mmie_tasks.judges.mmie_score.engine.kernels import KERNELS, unsupported
from mmie_tasks.judges.mmie_score.engine.self_check import self_check

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ROWS = BatchLayout(
    starts=[0, 1, 8, 9, 309],
    lengths=[257, 520, 1, 300],
    tables=[[4, 0, 9, 6], [7, 2, 5], [1], [8, 3]],
)


def numbers(*, heads=4, kv_heads=2, head_dim=16, pages=10):
    random = torch.Generator().manual_seed(3)
    shapes = [(309, heads), (pages, 256, kv_heads), (pages, 256, kv_heads)]
    return [torch.randn(*shape, head_dim, generator=random) for shape in shapes]


def flash(function):
    """Attention with another function in place of torch's."""
    return PagedAttention(kernel=partial(flash_kernel, varlen_attn=function))


def check(function, dtype=torch.bfloat16):
    return self_check(flash(function), CPU, dtype, heads=4, kv_heads=2, head_dim=8)


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_flash_and_sdpa_give_the_same_results(kv_heads):
    tensors = numbers(kv_heads=kv_heads)
    output = flash(varlen_attn).plan(ROWS, CPU)(*tensors)
    plain = SdpaAttention(page_tokens=256).plan(ROWS, CPU)(*tensors)
    torch.testing.assert_close(output, plain)


def test_the_kernel_gets_at_least_two_as_the_longest_query():
    announced = []

    def function(*tensors, **options):
        announced.append(tensors[5])
        return varlen_attn(*tensors, **options)

    queries, keys, values = numbers()
    single = BatchLayout(starts=[0, 1, 2], lengths=[3, 300], tables=[[2], [1, 0]])
    flash(function).plan(single, CPU)(queries[:2], keys, values)
    assert announced == [2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_torchs_own_function_accepts_the_arguments(dtype):
    with (
        FakeTensorMode()
    ):  # checks names, shapes, dtypes and the choice of kernel; computes nothing
        queries, keys, values = (tensor.to(GPU, dtype) for tensor in numbers(head_dim=96))
        output = PagedAttention().plan(ROWS, GPU)(queries, keys, values)
        assert (output.shape, output.dtype, output.device) == (queries.shape, dtype, GPU)


def test_other_kernels_are_disabled_only_during_the_call():
    before = torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
    with pytest.raises((RuntimeError, NotImplementedError)):  # there is none for the CPU
        PagedAttention().plan(ROWS, CPU)(*[tensor.bfloat16() for tensor in numbers()])
    assert before == (
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_correct_kernel_passes_the_check(dtype):
    assert check(varlen_attn, dtype) is None


def no_mask(*tensors, **options):
    return varlen_attn(*tensors, **options, causal=False)


def wrong_order(*tensors, **options):
    table = options["block_table"].flip(1).contiguous()
    return varlen_attn(*tensors, **options | {"block_table": table})


def one_key_less(*tensors, **options):
    fewer = (options["seqused_k"] - 1).clamp(min=1)
    return varlen_attn(*tensors, **options | {"seqused_k": fewer})


def whole_pages(*tensors, **options):
    return varlen_attn(*tensors, **options | {"seqused_k": -(-options["seqused_k"] // 256) * 256})


def other_scale(queries, *rest, **options):
    return varlen_attn(queries * 1.1, *rest, **options)


def neighbours_matter(queries, *rest, **options):
    return varlen_attn(queries, *rest, **options) * (1 + 2**-7 * (len(queries) > 600))


def nothing_written(queries, *_, **__):
    return torch.full_like(queries, float("nan"))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        pytest.param(no_mask, "differ from sdpa in fp32", id="later keys visible"),
        pytest.param(wrong_order, "differ from sdpa in fp32", id="pages in another order"),
        pytest.param(one_key_less, "differ from sdpa in fp32", id="own key not visible"),
        pytest.param(nothing_written, "differ from sdpa in fp32", id="nothing is written"),
        pytest.param(neighbours_matter, "other bits among other rows", id="neighbours matter"),
    ],
)
def test_a_wrong_kernel_fails_the_check(kernel, words):
    assert words in check(kernel)


def test_the_check_tries_decoding_steps_too():
    def wrong_in_decoding(queries, keys, values, rows):
        return paged_kernel(queries, keys, values, rows) * (1.1 if rows.decoding else 1)

    def neighbours_matter_in_decoding(queries, keys, values, rows):
        return paged_kernel(queries, keys, values, rows) * (
            1 + 2**-7 * (rows.decoding and len(queries) > 1)
        )

    problems = [
        self_check(
            PagedAttention(kernel=kernel), CPU, torch.bfloat16, heads=4, kv_heads=2, head_dim=8
        )
        for kernel in (wrong_in_decoding, neighbours_matter_in_decoding)
    ]
    assert "in decoding, of 1 queries on 1 keys, differ from sdpa in fp32" in problems[0]
    assert (
        "in decoding, of 1 queries on 1 keys, are other bits among other rows than alone"
        in problems[1]
    )


class OutOfResources(TritonError):
    """As Triton raises where a kernel needs more shared memory than the GPU has."""


@pytest.mark.parametrize("kind", [NotImplementedError, OutOfResources])
def test_the_error_of_a_kernel_is_reported_in_one_line(kind):
    def function(*_, **__):
        raise kind("no kernel image\nfor this device\n")

    assert check(function) == f"it fails with {kind.__name__}: no kernel image"


def test_no_memory_is_raised_and_no_fault_of_the_kernel():
    def function(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        check(function)


def test_a_prompt_that_is_cut_in_two_must_have_the_bits_of_a_whole_one():
    def position_matters(queries, *rest, **options):
        output = varlen_attn(queries, *rest, **options)
        return output * (1 + 2**-7 * (len(queries) in (128, 172)))

    assert "cut in two has other bits" in check(position_matters)


@pytest.mark.parametrize(
    ("device", "dtype", "head_dim", "words"),
    [
        pytest.param(CPU, torch.bfloat16, 96, "need a GPU, and this is `cpu`", id="CPU"),
        pytest.param(GPU, torch.float32, 96, "not in float32", id="fp32"),
        pytest.param(GPU, torch.bfloat16, 100, "not of 100", id="odd heads"),
    ],
)
def test_an_unavailable_kernel_has_a_reason(device, dtype, head_dim, words):
    assert words in unsupported(device, dtype, head_dim)


@pytest.mark.parametrize(
    ("capability", "words"),
    [((7, 5), "the GPU has 7.5"), ((8, 0), None), ((9, 0), None), ((12, 1), None)],
)
def test_old_gpus_have_no_kernel(monkeypatch, capability, words):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert (unsupported(GPU, torch.bfloat16, 96) or "").endswith(words or "")
    assert (unsupported(GPU, torch.bfloat16, 96) is None) == (words is None)


def test_an_older_torch_without_an_option_is_a_reason(monkeypatch):
    older = SimpleNamespace(varlen_attn=lambda *, window_size, seqused_k: (window_size, seqused_k))
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", older)
    assert "is without block_table, enable_gqa, num_splits" in KERNELS["flash"]()


@pytest.mark.parametrize(
    ("kernel", "module", "words"),
    [
        pytest.param(
            "flash", "torch.nn.attention.varlen", "has no kernel that takes pages", id="torch"
        ),
        pytest.param("triton", "triton", "Triton cannot be imported: ", id="Triton"),
    ],
)
def test_a_module_that_cannot_be_imported_is_a_reason(monkeypatch, kernel, module, words):
    monkeypatch.setitem(sys.modules, module, None)
    assert words in KERNELS[kernel]()
