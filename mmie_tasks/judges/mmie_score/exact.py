"""Exact arithmetic: fp32 numbers are computed in fp32."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Compute matrix products, convolutions and recurrent layers of fp32 numbers in fp32.

    By default, cuDNN rounds the factors to TF32, 10 bits, and many model classes of lmms-eval allow
    that in matrix products too.

    The switches belong to the whole process. From 2.9 on, torch has two sets of them, and reading
    an old one that contradicts a new one is an error. Inside, the two agree. Afterwards all
    switches are as before, contradictions included.
    """
    import torch

    backends: Any = torch.backends
    cuda, cudnn, mkldnn = backends.cuda, backends.cudnn, backends.mkldnn
    with ExitStack() as restore:  # in reverse order: an old switch sets new ones too
        if hasattr(backends, "fp32_precision"):  # torch 2.9 and later
            operations = (
                *(cuda.matmul, cudnn.conv, cudnn.rnn),
                *(mkldnn.matmul, mkldnn.conv, mkldnn.rnn),
            )
            # The others inherit the first two unless these are `none`.
            exact = dict.fromkeys((backends, cudnn), "none") | dict.fromkeys(operations, "ieee")
            for owner, precision in exact.items():
                restore.callback(setattr, owner, "fp32_precision", owner.fp32_precision)
                owner.fp32_precision = precision
        try:
            cudnn_tf32 = cudnn.allow_tf32
        except RuntimeError:  # contradicts the new ones, which do not allow TF32
            cudnn_tf32 = True
        restore.callback(setattr, cudnn, "allow_tf32", cudnn_tf32)
        restore.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        yield
