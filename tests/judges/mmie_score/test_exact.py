"""Torch's switches inside and after exact arithmetic, whatever a tested model has left."""

from contextlib import suppress

import pytest
import torch

from mmie_tasks.judges.mmie_score.exact import exact_arithmetic

BACKENDS = torch.backends
OPERATIONS = (
    BACKENDS.cuda.matmul,
    BACKENDS.cudnn.conv,
    BACKENDS.cudnn.rnn,
    BACKENDS.mkldnn.matmul,
    BACKENDS.mkldnn.conv,
    BACKENDS.mkldnn.rnn,
)
LEFT = {
    "nothing": lambda: None,
    "TF32 in cuDNN": lambda: setattr(BACKENDS.cudnn, "allow_tf32", True),
    "no TF32 in cuDNN": lambda: setattr(BACKENDS.cudnn, "allow_tf32", False),
    "TF32 in products": lambda: setattr(BACKENDS.cuda.matmul, "allow_tf32", True),
    "medium products": lambda: torch.set_float32_matmul_precision("medium"),
    "TF32 everywhere": lambda: setattr(BACKENDS, "fp32_precision", "tf32"),
    "fp32 everywhere": lambda: setattr(BACKENDS, "fp32_precision", "ieee"),
    "TF32 in all of cuDNN": lambda: setattr(BACKENDS.cudnn, "fp32_precision", "tf32"),
    "fp32 in convolutions": lambda: setattr(BACKENDS.cudnn.conv, "fp32_precision", "ieee"),
    "TF32 in new products": lambda: setattr(BACKENDS.cuda.matmul, "fp32_precision", "tf32"),
}
"""What a tested model may have set, with the old switches and with those of torch 2.9."""


OLD = (
    lambda: BACKENDS.cudnn.allow_tf32,
    lambda: BACKENDS.cuda.matmul.allow_tf32,
    torch.get_float32_matmul_precision,
)


def readings():
    values = [owner.fp32_precision for owner in (BACKENDS, BACKENDS.cudnn, *OPERATIONS)]
    for read in OLD:
        with suppress(RuntimeError):  # a new switch contradicts it
            values.append((read, read()))
    return values


@pytest.fixture(autouse=True)
def default_precision():
    def reset():
        BACKENDS.cudnn.allow_tf32 = True
        torch.set_float32_matmul_precision("highest")
        for owner in (BACKENDS, BACKENDS.cudnn, *OPERATIONS):
            is_cudnn = owner in (BACKENDS.cudnn.conv, BACKENDS.cudnn.rnn)
            owner.fp32_precision = "tf32" if is_cudnn else "none"

    reset()
    yield
    reset()


@pytest.mark.parametrize("second", LEFT)
@pytest.mark.parametrize("first", LEFT)
def test_fp32_is_exact_inside_and_all_switches_are_as_before_afterwards(first, second):
    LEFT[first]()
    LEFT[second]()
    before = readings()
    with suppress(KeyError), exact_arithmetic():
        assert [read() for read in OLD] == [False, False, "highest"]
        assert {operation.fp32_precision for operation in OPERATIONS} <= {"ieee", "none"}
        raise KeyError
    assert readings() == before
