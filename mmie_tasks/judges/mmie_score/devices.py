"""Where the judge runs: device and dtype by its options, free memory, torch's switches.

`choose_device` does not start CUDA in this process, nor does `is_modern` before something else has:
the tested model may still have to fork. The other functions are called when the weights are loaded.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from loguru import logger
from pydantic import ByteSize, TypeAdapter, ValidationError

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeMisconfigured

if TYPE_CHECKING:
    import torch

DtypeOption: TypeAlias = Literal["auto", "bfloat16", "float16", "float32"]
AttentionOption: TypeAlias = Literal["auto", "flash", "triton", "sdpa"]

TWO_STEPS = (
    "judge in a second command, which has the memory to itself: run the model with `--predict_only "
    "--output_path OUT`, then score its answers with `--model predictions --model_args path=OUT` "
    "and the same `--tasks`"
)
"""Hint for a judge and a tested model that do not fit into memory together."""

GIB = 2**30


class DeviceFull(JudgeMisconfigured):
    """The device has too little free memory now; later it may have more."""


def choose_device(option: str, environment: Mapping[str, str]) -> torch.device:
    """The device of this process.

    Args:
        option: ``auto``, ``cpu``, ``cuda`` or ``cuda:N``. ``cuda`` is the only GPU that this
            process sees, or of several the one with the process's number on the machine, so that
            each of several processes takes its own. ``auto`` is the same if there is a GPU, else
            the CPU.
        environment: With that number, ``LOCAL_RANK``, if a launcher has set it.

    Raises:
        JudgeMisconfigured: There is no such device.
    """
    import torch

    parsed = re.fullmatch(r"auto|cpu|cuda(?::(\d+))?", option, re.ASCII)
    if parsed is None:
        raise JudgeMisconfigured(
            f"`device={option}` is not a known device.",
            hint="write `device=auto`, `device=cpu`, `device=cuda` or `device=cuda:0`",
        )
    # Not `is_available`, after which a forked process could not use CUDA.
    count = torch.cuda.device_count() if option != "cpu" else 0
    if option == "cpu" or (option == "auto" and not count):
        return torch.device("cpu")
    rank = environment.get("LOCAL_RANK", "").strip() if count > 1 else ""
    number = int(parsed[1] or rank or 0)
    if number < count:
        return torch.device("cuda", number)
    process = f" in process {rank} of this machine, each of which judges on its own" if rank else ""
    raise JudgeMisconfigured(
        f"`device={option}` was requested{process}, and torch finds {count or 'no'} GPU(s) that it "
        "can use; they count from 0.",
        hint="start no more processes than GPUs, or put several on one with `device=cuda:0` and "
        "`max_memory=`; or use `device=cpu` (slow); or look at `nvidia-smi` and "
        "`CUDA_VISIBLE_DEVICES`",
    )


def start(device: torch.device) -> None:
    """Start CUDA on a GPU; raises `JudgeMisconfigured` if it does not work."""
    import torch

    if device.type != "cuda":
        return
    try:
        torch.cuda.get_device_properties(device)
    except (RuntimeError, AssertionError) as error:
        raise JudgeMisconfigured(
            f"`{device}` cannot be used: {first_line(error)}",
            hint='look at `nvidia-smi` and `python -c "import torch; torch.cuda.init()"`; '
            "`device=cpu` is slow",
        ) from error


def is_modern(device: torch.device) -> bool:
    """Whether a GPU computes in bfloat16 (compute capability 8.0); before CUDA is started, assumed
    of any.
    """
    import torch

    if device.type != "cuda":
        return False
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return True
    major, _ = torch.cuda.get_device_capability(device)
    return major >= 8


def choose_dtype(option: DtypeOption, device: torch.device) -> torch.dtype:
    """The dtype; ``auto`` is bfloat16, as in the official code, on a GPU that supports it, else
    float32.
    """
    import torch

    if option == "auto":
        option = "bfloat16" if is_modern(device) else "float32"
    dtype: torch.dtype = getattr(torch, option)
    return dtype


def describe(device: torch.device) -> str:
    """The device and the versions that may change tokens: ``NVIDIA H200, torch 2.12.0``; starts
    CUDA.
    """
    import torch

    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return f"{name}, torch {torch.__version__}"


@contextmanager
def exact_arithmetic() -> Iterator[None]:
    """Set every switch of torch that changes the bits of results, whatever a tested model has left.

    Matrix products, convolutions and recurrent layers of fp32 numbers are computed in fp32: by
    default cuDNN rounds the factors to TF32, 10 bits, and a tested model may have allowed more. The
    other switches are as torch has them at first, and so as the official code has them.

    The switches belong to the whole process. From 2.9 on torch has two sets of them for fp32, and
    raises an error when an old one is read that a new one contradicts. Inside, the two agree.
    Afterwards all switches are as before, so a reading that raised before raises again.
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
        except RuntimeError:  # it contradicts the new ones, which do not allow TF32
            cudnn_tf32 = True
        restore.callback(setattr, cudnn, "allow_tf32", cudnn_tf32)
        restore.callback(torch.set_float32_matmul_precision, torch.get_float32_matmul_precision())
        cudnn.allow_tf32 = False
        torch.set_float32_matmul_precision("highest")
        if torch.get_default_device().type != "cpu":
            restore.enter_context(torch.device("cpu"))
        yield


def _exact_attributes() -> list[tuple[Any, str, object]]:
    """Attributes of torch's modules with the values that `exact_arithmetic` sets, in order."""
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
        # The first two are inherited. With `none` there, a reading of the others shows their own
        # values.
        attributes += [(owner, "fp32_precision", "none") for owner in (backends, cudnn)]
        attributes += [(operation, "fp32_precision", "ieee") for operation in operations]
    return attributes


def free_bytes(device: torch.device) -> int:
    """Bytes that this process may take now. On a GPU, starts CUDA, and torch first returns what it
    keeps unused.
    """
    if device.type == "cuda":
        import torch

        _empty_cache()
        return torch.cuda.mem_get_info(device)[0]
    import psutil  # type: ignore[import-untyped]

    available: int = psutil.virtual_memory().available
    return available


def device_bytes(device: torch.device) -> int:
    """Bytes of the device in all, used or not; starts CUDA like `free_bytes`."""
    if device.type == "cuda":
        import torch

        return torch.cuda.mem_get_info(device)[1]
    import psutil

    total: int = psutil.virtual_memory().total
    return total


def release_memory() -> None:
    """Return the memory that torch keeps for deleted tensors to the device, if CUDA was started.
    Raises nothing.
    """
    import torch

    gc.collect()
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        _empty_cache()


def _empty_cache() -> None:
    """Have torch return unused memory; after some errors of CUDA, every call of it fails."""
    import torch

    try:
        torch.cuda.empty_cache()
    except RuntimeError as error:
        logger.warning(f"Unused memory could not be returned to the device: {first_line(error)}")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device, or the machine, had no memory left; torch has no class for the latter.

    After a failed capture, torch before 2.13 raises an internal error that names
    ``captures_underway`` when memory runs out.
    """
    import torch

    texts = ("not enough memory", "can't allocate memory", "captures_underway")
    return isinstance(error, torch.OutOfMemoryError) or any(text in str(error) for text in texts)


def parse_bytes(text: str) -> int:
    """A number of bytes, from a text with GiB, GB, MiB or MB; `JudgeMisconfigured` if it is none,
    or 0.

    >>> parse_bytes("20 GiB"), parse_bytes("1.5GB")
    (21474836480, 1500000000)
    """
    with suppress(ValidationError):
        if size := TypeAdapter(ByteSize).validate_python(text):
            return int(size)
    message = f"`max_memory={text}` is not an amount of memory."
    raise JudgeMisconfigured(
        message, hint="write it like `max_memory=20GiB`; GB, MiB and MB are known too"
    )
