"""Freeing the memory of a tested model, so that a judge in the same process can use the device.

The runner's own cleaning (lmms-eval 0.7.3, ``api/model.py:164-174``) deletes attributes that are
modules. It leaves a model in memory wherever something else refers to it: the engine in ``client``
(vLLM, SGLang), the ``inferencer`` of Bagel, the ``pipeline`` of diffusers, a list of workers.
`free_model` deletes those attributes too, by their names, and says what stays.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from loguru import logger

SWITCH = "MMIE_TASKS_FREE"

MODEL_ATTRIBUTES: Mapping[str, str] = {
    "_complementary_model": "simple/qwen_image_edit.py:483",
    "_generator": "simple/plm.py:82",
    "_model": "chat/huggingface.py:99; an engine in simple/whisper_vllm.py:28",
    "_pipe": "simple/diffusers_wm_base.py:245, simple/cosmos_wm.py:520",
    "_transformers_reasoner_model": "simple/cosmos_wm.py:1151",
    "_understanding_model": "simple/qwen_image_edit.py:309",
    "_workers": "chat/async_hf_model.py:75, chat/nanovlm.py:73",
    "client": "simple/vllm.py:235, chat/sglang.py:133",
    "diffusion_decoder_pipe": "simple/illume_plus.py:570",
    "generator": "chat/fastvideo.py:274",
    "inferencer": "chat/bagel_lmms_engine.py:158, simple/bagel.py:425, simple/bagel_unig2u.py:373",
    "model": "chat/nanovlm.py:76, simple/mmada.py:199, simple/video_chatgpt.py:61",
    "model_encoder": "chat/longvila.py:65",
    "omni": "chat/aero_realtime_vllm.py:401",
    "pipeline": "simple/qwen_image_edit.py:137",
    "vision_tower": "simple/video_chatgpt.py:61",
    "vq_model": "simple/mmada.py:193, simple/illume_plus.py:558",
}
"""Names under which models of lmms-eval 0.7.3 hold what they run, and where: file and line below
``lmms_eval/models``.
"""

_ENGINE_PACKAGES = ("vllm", "vllm_omni", "sglang", "fastvideo")
_DEPTH = 2  # the model of a worker in a list
_GIB = 2**30
_WARN_ABOVE_GIB = 0.1

_tested_models: weakref.WeakSet[object] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedModel:
    """The result of `free_model`.

    Attributes:
        model: Class name of the model.
        freed: Attributes that were deleted.
        remaining: Attributes that still hold weights, under names that `free_model` does not know.
        referenced: Attributes that were deleted, but whose weights something else refers to.
        errors: Why engines could not be shut down.
    """

    model: str
    freed: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    referenced: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The result as sentences for a log; none if the model held nothing."""
        freed, remaining, referenced = (
            ", ".join(f"`{name}`" for name in names)
            for names in (self.freed, self.remaining, self.referenced)
        )
        return (
            *((f"Freed of the tested model `{self.model}`: {freed}.",) if freed else ()),
            *((f"`{self.model}` still holds {remaining}.",) if remaining else ()),
            *(f"{error}." for error in self.errors),
            *((f"The weights in {referenced} are still referenced.",) if referenced else ()),
        )


def record_tested_model(model: object) -> None:
    """Note the model of an evaluation, weakly, so that `free_tested_models` can free it."""
    _tested_models.add(model)


def free_tested_models(environment: Mapping[str, str] | None = None) -> str:
    """Free the models that evaluations in this process have tested, and log the result.

    To be called after the runner's ``lm.clean()``, just before a judge loads its own weights.
    Memory of a GPU that stays allocated is a warning, with its size in GiB. Raises nothing.

    Args:
        environment: ``MMIE_TASKS_FREE=0`` leaves the models alone. By default, the process's.

    Returns:
        The logged text.
    """
    if (os.environ if environment is None else environment).get(SWITCH) == "0":
        text = f"The tested model is not freed (`{SWITCH}=0`). {_device_memory()}".strip()
        logger.info(text)
        return text
    sentences = [text for model in list(_tested_models) for text in free_model(model).sentences]
    sentences = sentences or ["No tested model holds memory in this process."]
    text = " ".join([*sentences, _device_memory()]).strip()
    logger.log("WARNING" if _allocated_gib() > _WARN_ABOVE_GIB else "INFO", text)
    return text


def free_model(model: object) -> FreedModel:
    """Delete the attributes of a model object that hold weights, and return the memory.

    An attribute in `MODEL_ATTRIBUTES` is deleted if it is a module or an inference engine, or holds
    one; an engine is shut down first. Nothing else of the objects is called. The model object stays
    usable for what the runner reads of it after generation (``evaluator.py:1249``): rank, world
    size, accelerator.

    Args:
        model: An ``lmms`` of lmms-eval.
    """
    gc.unfreeze()  # vLLM freezes all objects, and frozen reference cycles are not collected
    freed: dict[str, weakref.ref[object] | None] = {}
    remaining: list[str] = []
    errors: list[str] = []
    attributes = vars(model)
    for name in list(attributes):
        weights = _weights_in(attributes[name])
        if weights is None:
            continue
        if name not in MODEL_ATTRIBUTES:
            remaining.append(name)
            continue
        if error := _shut_down(weights):
            errors.append(f"`{name}`: {error}")
        freed[name] = None
        with contextlib.suppress(TypeError):  # of a type without weak references
            freed[name] = weakref.ref(weights)
        del attributes[name]
        del weights
    gc.collect()
    if cuda := _cuda():
        with contextlib.suppress(RuntimeError):  # a broken device is reported where it is used next
            cuda.empty_cache()
    return FreedModel(
        model=type(model).__name__,
        freed=tuple(freed),
        remaining=tuple(remaining),
        referenced=tuple(name for name, weights in freed.items() if weights and weights()),
        errors=tuple(errors),
    )


def _weights_in(value: object, depth: int = _DEPTH) -> object | None:
    """The first module or engine among a value, its elements and its attributes.

    Only types are looked at: asking a lazy proxy for an attribute may load what it stands for.
    """
    kind, torch = type(value), sys.modules.get("torch")
    if _is_engine(value) or (torch is not None and issubclass(kind, torch.nn.Module)):
        return value
    if depth == 0 or issubclass(kind, (type, types.ModuleType)) or _is_tested(value):
        return None
    for part in _parts(value):
        if (weights := _weights_in(part, depth - 1)) is not None:
            return weights
    return None


def _parts(value: object) -> Iterable[object]:
    if issubclass(type(value), dict):
        return list(value.values())  # type: ignore[attr-defined]  # a dict
    if issubclass(type(value), (list, tuple)):
        return value  # type: ignore[return-value]  # a list or tuple
    try:
        attributes: dict[str, object] = object.__getattribute__(value, "__dict__")
    except AttributeError:  # numbers, texts, objects with slots
        return ()
    return list(attributes.values())


def _is_tested(value: object) -> bool:
    """Whether it is a model that is freed by itself: the writer of `interleaved`."""
    return any(value is model for model in _tested_models)


def _is_engine(candidate: object) -> bool:
    """Whether it is an inference engine, whose weights may be in another process."""
    package = type(candidate).__module__.partition(".")[0]
    return package in _ENGINE_PACKAGES and _shutdown_method(candidate) is not None


def _shutdown_method(engine: object) -> Callable[[], object] | None:
    """The engine's own method; of vLLM's ``LLM``, that of its core."""
    core = getattr(getattr(engine, "llm_engine", None), "engine_core", None)
    method: Callable[[], object] | None = getattr(engine, "shutdown", None)
    return method or getattr(core, "shutdown", None)


def _shut_down(candidate: object) -> str:
    """Shut down an engine; returns why that failed. Anything else is left alone."""
    shutdown = _shutdown_method(candidate) if _is_engine(candidate) else None
    if shutdown is None:
        return ""
    try:
        shutdown()
    except Exception as error:  # noqa: BLE001 - an engine; the judge can run nevertheless
        return f"its shutdown failed ({type(error).__name__}: {error})"
    return ""


def _cuda() -> types.ModuleType | None:
    """PyTorch's CUDA module, if this process uses CUDA already."""
    torch = sys.modules.get("torch")
    cuda: types.ModuleType | None = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _allocated_gib() -> float:
    cuda = _cuda()
    return 0.0 if cuda is None else float(cuda.memory_allocated()) / _GIB


def _device_memory() -> str:
    """Free and allocated memory of the GPU, as a sentence; empty without a GPU."""
    if (cuda := _cuda()) is None:
        return ""
    try:
        free, total = cuda.mem_get_info()
    except RuntimeError as error:
        return f"The free memory of the GPU is unknown ({str(error).partition(chr(10))[0]})."
    sizes = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB of the GPU are free"
    return f"{sizes}; {_allocated_gib():.1f} GiB are still allocated in this process."
