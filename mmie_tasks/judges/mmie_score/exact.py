"""Exact arithmetic: torch's switches that change the bits of results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Set every switch of torch that changes the bits of results; a tested model may have changed
    them.

    Matrix products, convolutions and recurrent layers of fp32 numbers are computed in fp32: by
    default, cuDNN rounds the factors to TF32, 10 bits. The other switches get torch's defaults, and
    so those of the official code.

    The switches belong to the whole process. From 2.9 on, torch has two sets of them for fp32, and
    reading an old one that contradicts a new one is an error. Inside, the two agree. Afterwards all
    switches are as before, contradictions included.
    """
    import torch

    cuda, cudnn = torch.backends.cuda, torch.backends.cudnn
    with ExitStack() as restore:  # in reverse order: an old switch sets new ones too
        for kernel in ("flash", "mem_efficient", "math", "cudnn"):
            enable = getattr(cuda, f"enable_{kernel}_sdp")
            restore.callback(enable, getattr(cuda, f"{kernel}_sdp_enabled")())
            enable(True)
        for owner, name, exact in _exact_attributes():
            restore.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, exact)
        try:
            cudnn_tf32 = cudnn.allow_tf32
        except RuntimeError:  # contradicts the new ones, which do not allow TF32
            cudnn_tf32 = True
        restore.callback(setattr, cudnn, "allow_tf32", cudnn_tf32)
        restore.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        if torch.get_default_device().type != "cpu":
            restore.enter_context(torch.device("cpu"))
        yield


def _exact_attributes() -> list[tuple[Any, str, object]]:
    """Attributes of torch's modules and their exact values, in the order of setting."""
    import torch

    backends: Any = torch.backends
    cuda, cudnn, mkldnn = backends.cuda, backends.cudnn, backends.mkldnn
    attributes: list[tuple[Any, str, object]] = [
        (cudnn, "benchmark", False),
        (cuda.matmul, "allow_bf16_reduced_precision_reduction", True),
        (cuda.matmul, "allow_fp16_reduced_precision_reduction", True),
    ]
    if hasattr(backends, "fp32_precision"):  # torch 2.9 and later
        operations = (cuda.matmul, cudnn.conv, cudnn.rnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn)
        # The others inherit the first two unless these are `none`.
        attributes += [(owner, "fp32_precision", "none") for owner in (backends, cudnn)]
        attributes += [(operation, "fp32_precision", "ieee") for operation in operations]
    return attributes
