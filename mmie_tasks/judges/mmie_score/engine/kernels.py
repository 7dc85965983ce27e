"""Which attention computes: the kernels that this machine may have, and the choice between them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.mmie_score import devices
from mmie_tasks.judges.mmie_score.checkpoint.config import TextConfig
from mmie_tasks.judges.mmie_score.devices import AttentionOption, DeviceFull, exact_arithmetic
from mmie_tasks.judges.mmie_score.engine.attention import Attention, PagedAttention, SdpaAttention
from mmie_tasks.judges.mmie_score.engine.self_check import self_check

KernelName: TypeAlias = Literal["flash", "triton"]

_REQUIRED = {"window_size", "enable_gqa", "seqused_k", "block_table", "num_splits"}
_DTYPES = (torch.bfloat16, torch.float16)
_SDPA_COST = (
    "A decoding step takes 6 to 7 times as long as with a paged kernel, and a run 4 to 5 times "
    "(computed, not measured: 8.7 h against 1.9 h for 20,000 samples on one H200)."
)
_SDPA_HINT = "use torch 2.12 or newer, or install Triton (`pip install triton`)"


def _flash_attention() -> PagedAttention | str:
    no_kernel = f"torch {torch.__version__} has no kernel that takes pages"
    try:
        from torch.nn.attention.varlen import varlen_attn
    except ImportError:
        return no_kernel
    if missing := _REQUIRED - inspect.signature(varlen_attn).parameters.keys():
        return f"{no_kernel}: `varlen_attn` is without {', '.join(sorted(missing))}"
    title = f"the paged kernel of torch {torch.__version__}"
    return PagedAttention(title=title)


def _triton_attention() -> PagedAttention | str:
    try:
        import triton

        from mmie_tasks.judges.mmie_score.engine.triton_kernel import paged_attention
    except ImportError as error:
        return f"Triton cannot be imported: {error}"
    return PagedAttention(
        name="triton", title=f"our kernel in Triton {triton.__version__}", kernel=paged_attention
    )


KERNELS: Mapping[KernelName, Callable[[], PagedAttention | str]] = {
    "flash": _flash_attention,
    "triton": _triton_attention,
}
"""Attention with each kernel, the preferred one first, or why this machine does not have it."""


def unsupported(device: torch.device, dtype: torch.dtype, head_dim: int) -> str | None:
    """Why no kernel can be used here; None if one may. Does not start CUDA."""
    if device.type != "cuda":
        return f"paged kernels need a GPU, and this is `{device}`"
    if dtype not in _DTYPES:
        return (
            "paged kernels compute in bfloat16 and float16, not in "
            f"{str(dtype).removeprefix('torch.')}"
        )
    if head_dim % 8 or head_dim > 256:
        return f"paged kernels take heads of a multiple of 8 numbers, up to 256, not of {head_dim}"
    if not devices.is_modern(device):
        major, minor = torch.cuda.get_device_capability(device)
        return f"paged kernels need compute capability 8.0, and the GPU has {major}.{minor}"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionChoice:
    """Attention over pages, and why this one: a clause without a full stop."""

    attention: Attention
    reason: str


def likely_attention(
    option: AttentionOption, *, device: torch.device, dtype: torch.dtype, config: TextConfig
) -> str:
    """The name of the attention that `choose_attention` will choose if the kernels pass their
    checks.

    By what can be imported: nothing is computed, and CUDA is not started.
    """
    if option != "auto":
        return option
    if unsupported(device, dtype, config.head_dim) is None:
        for open_kernel in KERNELS.values():
            if isinstance(attention := open_kernel(), PagedAttention):
                return attention.name
    return "sdpa"


def choose_attention(
    option: AttentionOption, *, device: torch.device, dtype: torch.dtype, config: TextConfig
) -> AttentionChoice:
    """The attention implementation, with the reasons against those that would be preferred.

    It is ``flash`` (torch's own kernel), ``triton`` (ours), ``sdpa``, or with ``auto`` the first of
    them that is available and passes its self-check on this device. On a GPU a log line says so if
    it is sdpa, or if a kernel fails its check.

    Raises:
        JudgeMisconfigured: The kernel that the option names cannot be used here, or a kernel has
            made the GPU unusable for this process.
        DeviceFull: There is no memory for the check.
    """
    if option == "sdpa":
        return AttentionChoice(attention=SdpaAttention(), reason="`attention=sdpa` was requested")
    problem = unsupported(device, dtype, config.head_dim)
    reasons = [problem] if problem else []
    names: Sequence[KernelName] = tuple(KERNELS) if option == "auto" else (option,)
    for name in () if problem else names:
        attention = checked_attention(name, device, dtype, config)
        if isinstance(attention, str):
            reasons.append(attention)
            continue
        passed = f"{attention.title} passed its check on {device}"
        return AttentionChoice(attention=attention, reason="; ".join([passed, *reasons]))
    reason = "; ".join(reasons)
    if option != "auto":
        raise JudgeMisconfigured(
            f"`attention={option}` cannot be used: {reason}.", hint="use `attention=auto`"
        )
    if device.type == "cuda":
        row_by_row = f"MMIE-Score computes attention row by row (sdpa): {reason}."
        if dtype.itemsize > 2:
            logger.info(row_by_row)
        else:
            logger.warning(
                f"{row_by_row} {_SDPA_COST}" + ("" if problem else f"\n\nhint: {_SDPA_HINT}")
            )
    return AttentionChoice(attention=SdpaAttention(), reason=reason)


def checked_attention(
    name: KernelName, device: torch.device, dtype: torch.dtype, config: TextConfig
) -> PagedAttention | str:
    """Attention with a kernel that has passed its `self_check`, or why it cannot be used; raises
    like `choose_attention`.
    """
    attention = KERNELS[name]()
    if isinstance(attention, str):
        return attention
    try:
        with exact_arithmetic():  # the results that the kernel is compared with
            problem = self_check(
                attention,
                device,
                dtype,
                heads=config.num_attention_heads,
                kv_heads=config.kv_heads,
                head_dim=config.head_dim,
            )
    except RuntimeError as error:  # no memory, which says nothing about the kernel
        raise DeviceFull(
            f"`{device}` has no memory to try {attention.title}: {first_line(error)}",
            hint=devices.TWO_STEPS,
        ) from error
    if problem is None:
        return attention
    failure = f"{attention.title} fails its check on {device}: {problem}"
    try:
        torch.ones(1, device=device).sum().item()
    except RuntimeError as error:  # an illegal access, after which no kernel runs in this process
        raise JudgeMisconfigured(
            f"{failure}. The GPU cannot be used by this process any more: {first_line(error)}",
            hint="`attention=triton` or `attention=sdpa`, whichever was not tried",
        ) from error
    logger.warning(f"MMIE-Score: {failure}. Another one is used, with which bits may differ.")
    return failure
