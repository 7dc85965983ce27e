"""Arguments of the flash kernel, and that a wrong kernel is detected; the kernel is not run."""

import sys
from types import SimpleNamespace

import pytest
import torch
from support.paged_kernel import paged_kernel
from torch._subclasses.fake_tensor import FakeTensorMode

from mmie_tasks.judges.mmie_score.engine.attention import BatchLayout, SdpaAttention
from mmie_tasks.judges.mmie_score.engine.paged import PagedAttention, available, self_check

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
ROWS = BatchLayout(starts=[0, 1, 8, 9, 309], lengths=[257, 520, 1, 300], tables=[[4, 0, 9, 6], [7, 2, 5], [1], [8, 3]])


def numbers(*, heads=4, kv_heads=2, head_dim=16, pages=10):
    random = torch.Generator().manual_seed(3)
    shapes = [(309, heads), (pages, 256, kv_heads), (pages, 256, kv_heads)]
    return [torch.randn(*shape, head_dim, generator=random) for shape in shapes]


def check(kernel, dtype=torch.bfloat16, **other):
    attention = PagedAttention(kernel=kernel)
    sizes = {"heads": 4, "kv_heads": 2, "head_dim": 8} | other
    return self_check(CPU, dtype, attention=attention, **sizes)


@pytest.mark.parametrize("kv_heads", [2, 4])
def test_flash_and_sdpa_give_the_same_results(kv_heads):
    tensors = numbers(kv_heads=kv_heads)
    flash = PagedAttention(kernel=paged_kernel).plan(ROWS, CPU)(*tensors)
    plain = SdpaAttention(page_tokens=256).plan(ROWS, CPU)(*tensors)
    torch.testing.assert_close(flash, plain)


def test_the_kernel_gets_at_least_two_as_the_longest_query():
    announced = []

    def kernel(*tensors, **options):
        announced.append(tensors[5])
        return paged_kernel(*tensors, **options)

    queries, keys, values = numbers()
    single = BatchLayout(starts=[0, 1, 2], lengths=[3, 300], tables=[[2], [1, 0]])
    PagedAttention(kernel=kernel).plan(single, CPU)(queries[:2], keys, values)
    assert announced == [2]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_torchs_own_function_accepts_the_arguments(dtype):
    with FakeTensorMode():  # checks names, shapes, dtypes and the choice of kernel; computes nothing
        queries, keys, values = (tensor.to(GPU, dtype) for tensor in numbers(head_dim=96))
        output = PagedAttention().plan(ROWS, GPU)(queries, keys, values)
        assert (output.shape, output.dtype, output.device) == (queries.shape, dtype, GPU)


def test_other_kernels_are_disabled_only_during_the_call():
    before = torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
    with pytest.raises((RuntimeError, NotImplementedError)):  # there is none for the CPU
        PagedAttention().plan(ROWS, CPU)(*[tensor.bfloat16() for tensor in numbers()])
    assert before == (torch.backends.cuda.cudnn_sdp_enabled(), torch.backends.cuda.math_sdp_enabled())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_correct_kernel_passes_the_check(dtype):
    assert check(paged_kernel, dtype) is None


def no_mask(*tensors, **options):
    return paged_kernel(*tensors, **options, causal=False)


def wrong_order(*tensors, **options):
    table = options["block_table"].flip(1).contiguous()
    return paged_kernel(*tensors, **options | {"block_table": table})


def one_key_less(*tensors, **options):
    fewer = (options["seqused_k"] - 1).clamp(min=1)
    return paged_kernel(*tensors, **options | {"seqused_k": fewer})


def whole_pages(*tensors, **options):
    return paged_kernel(*tensors, **options | {"seqused_k": -(-options["seqused_k"] // 256) * 256})


def other_scale(queries, *rest, **options):
    return paged_kernel(queries * 1.1, *rest, **options)


def neighbours_matter(queries, *rest, **options):
    return paged_kernel(queries, *rest, **options) * (1 + 2**-7 * (len(queries) > 600))


def nothing_written(queries, *_, **__):
    return torch.full_like(queries, float("nan"))


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        pytest.param(no_mask, "differ from sdpa in fp32", id="later keys visible"),
        pytest.param(wrong_order, "differ from sdpa in fp32", id="pages in another order"),
        pytest.param(one_key_less, "differ from sdpa in fp32", id="own key not visible"),
        pytest.param(whole_pages, "differ from sdpa in fp32", id="unused slots visible"),
        pytest.param(other_scale, "differ from sdpa in fp32", id="another scale"),
        pytest.param(nothing_written, "differ from sdpa in fp32", id="nothing is written"),
        pytest.param(neighbours_matter, "other bits among other rows", id="neighbours matter"),
    ],
)
def test_a_wrong_kernel_fails_the_check(kernel, words):
    assert words in check(kernel)


@pytest.mark.parametrize("kind", [RuntimeError, NotImplementedError, TypeError, ValueError])
def test_the_error_of_a_kernel_is_reported_in_one_line(kind):
    def kernel(*_, **__):
        raise kind("no kernel image\nfor this device\n")

    assert check(kernel) == f"it fails with {kind.__name__}: no kernel image"


def test_the_check_does_not_touch_the_global_random_state():
    before = torch.get_rng_state()
    check(paged_kernel)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("device", "dtype", "head_dim", "words"),
    [
        pytest.param(CPU, torch.bfloat16, 96, "needs a GPU, and this is `cpu`", id="CPU"),
        pytest.param(GPU, torch.float32, 96, "not in float32", id="fp32"),
        pytest.param(GPU, torch.bfloat16, 100, "not of 100", id="odd heads"),
        pytest.param(GPU, torch.bfloat16, 264, "not of 264", id="large heads"),
    ],
)
def test_an_unavailable_kernel_has_a_reason(device, dtype, head_dim, words):
    assert words in available(device, dtype, head_dim)


@pytest.mark.parametrize(
    ("capability", "words"), [((7, 5), "the GPU has 7.5"), ((8, 0), None), ((9, 0), None), ((12, 1), None)]
)
def test_old_gpus_have_no_kernel(monkeypatch, capability, words):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert (available(GPU, torch.bfloat16, 96) or "").endswith(words or "")
    assert (available(GPU, torch.bfloat16, 96) is None) == (words is None)


def test_an_older_torch_without_an_option_is_a_reason(monkeypatch):
    older = SimpleNamespace(varlen_attn=lambda *, window_size, seqused_k: (window_size, seqused_k))
    monkeypatch.setitem(sys.modules, "torch.nn.attention.varlen", older)
    assert "without block_table, enable_gqa, num_splits" in available(GPU, torch.bfloat16, 96)
