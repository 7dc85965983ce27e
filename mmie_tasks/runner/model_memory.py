"""Frees the memory of a tested model, so that a judge in the same process can use the device.

One rule: a model's attributes that are modules are deleted. The runner's own cleaning (lmms-eval
0.7.3, ``api/model.py:164-174``) does the same. Engines, pipelines and workers stay; where memory
stays allocated, one warning names it and the way in two steps.
"""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Iterable
from contextlib import suppress

from loguru import logger

from mmie_tasks.core.errors import first_line

_TWO_STEPS = (
    "if the judge does not fit beside it, run the model with `--predict_only --output_path OUT`, "
    "then score its answers with `--model predictions --model_args path=OUT` and the same `--tasks`"
)
_GIB = 2**30
_WARN_ABOVE_GIB = 0.1


def free_tested_models(models: Iterable[object]) -> str:
    """Free tested models, and return the text that is logged.

    Call it after the runner's ``lm.clean()``, just before a judge loads its weights. The text is a
    warning if GPU memory stays allocated. Never raises.
    """
    for model in models:
        _free(model)
    text = _device_memory()
    if _allocated_gib() > _WARN_ABOVE_GIB:
        logger.warning(text := f"{text} Of the tested model; {_TWO_STEPS}.")
    else:
        logger.info(text)
    return text


def _free(model: object) -> None:
    """Delete the attributes of an ``lmms`` that are modules, and free their memory.

    The runner can still read rank, world size and accelerator after generation
    (``evaluator.py:1249``).
    """
    gc.unfreeze()  # vLLM freezes all objects, and frozen reference cycles are not collected
    if (torch := sys.modules.get("torch")) is not None:
        attributes = vars(model)
        for name in [n for n, value in attributes.items() if isinstance(value, torch.nn.Module)]:
            del attributes[name]
    gc.collect()
    if cuda := _cuda():
        with suppress(RuntimeError):  # a broken device is reported where it is used next
            cuda.empty_cache()


def _cuda() -> types.ModuleType | None:
    """PyTorch's CUDA module, if this process uses CUDA already."""
    torch = sys.modules.get("torch")
    cuda: types.ModuleType | None = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _allocated_gib() -> float:
    cuda = _cuda()
    return 0.0 if cuda is None else float(cuda.memory_allocated()) / _GIB


def _device_memory() -> str:
    """Free and allocated memory of the GPU, as a sentence."""
    if (cuda := _cuda()) is None:
        return "No GPU memory is held in this process."
    try:
        free, total = cuda.mem_get_info()
    except RuntimeError as error:
        return f"The free memory of the GPU is unknown ({first_line(error)})."
    sizes = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB of the GPU are free"
    return f"{sizes}; {_allocated_gib():.1f} GiB are still allocated in this process."
