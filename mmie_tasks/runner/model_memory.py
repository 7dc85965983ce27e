"""Freeing the memory of a tested model, so that a judge in the same process can use the device.

The runner's own cleaning (lmms-eval 0.7.3, ``api/model.py:164-174``) deletes attributes that are
modules. It leaves a model in memory wherever something else refers to it: the engine in ``client``
(vLLM, SGLang), the ``inferencer`` of Bagel, the ``pipeline`` of diffusers, a list of modules, a
method of the model. `free_model` deletes those attributes too, by their names.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loguru import logger

SWITCH = "MMIE_TASKS_FREE"

MODEL_ATTRIBUTES = (
    *("_model", "model", "models", "language_model", "vision_model", "model_encoder", "generate"),
    *("vq_model", "vae", "vae_model", "text_encoder", "reasoner_model", "nim_model"),
    *("_transformers_reasoner_model", "_complementary_model", "_understanding_model"),
    *("client", "engine", "llm"),  # vLLM, SGLang
    *("inferencer", "generator", "_generator", "sampler"),  # Bagel and other unified models
    *("pipeline", "_pipeline", "pipe", "_pipe", "diffusion_decoder_pipe"),  # diffusers
    *("cache", "kv_cache", "past_key_values"),
)
"""Names under which models of lmms-eval 0.7.3, and of packages like it, hold what they run."""

_ENGINE_PACKAGES = ("vllm", "sglang")
_SHUTDOWN_METHODS = ("shutdown", "llm_engine.engine_core.shutdown")  # an engine has one of them
_MAX_OBJECTS = 200_000  # searched behind one attribute
_GIB = 2**30
_WARN_ABOVE_GIB = 0.1

# An engine's shutdown may raise any of these, and the judge can run nevertheless.
_SHUTDOWN_ERRORS = (*(AssertionError, AttributeError, LookupError, OSError), *(RuntimeError, TypeError, ValueError))

_NOT_SEARCHED = (type, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType)

_tested_models: weakref.WeakSet[object] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedModel:
    """The result of `free_model`.

    Attributes:
        model: Class name of the model.
        freed: Attributes that were deleted.
        remaining: Attributes that still hold weights: the runner needs them, or `free_model` does not know their names.
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
            ", ".join(f"`{name}`" for name in names) for names in (self.freed, self.remaining, self.referenced)
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

    An attribute in `MODEL_ATTRIBUTES` is deleted if a module, an inference engine or a tensor on a device is reachable
    through it; an engine is shut down first. Nothing else of the objects is called. The model object stays usable for
    what the runner reads of it after generation (``evaluator.py:1249``): rank, world size, accelerator.

    Args:
        model: Any object, such as an ``lmms`` of lmms-eval, or a loaded image generator.
    """
    gc.unfreeze()  # vLLM freezes all objects, and frozen reference cycles are not collected
    freed: dict[str, weakref.ref[object] | None] = {}
    remaining: list[str] = []
    errors: list[str] = []
    attributes = vars(model)
    for name in list(attributes):
        weights = _weights_behind(attributes[name])
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


def _weights_behind(value: object) -> object | None:
    """The first module, engine or tensor on a device that is reachable through a value."""
    # The search stops at code, classes, and other models of the runner. They are recognised by exact type: asking a
    # lazy proxy for an attribute may load what it stands for.
    runner_model = getattr(sys.modules.get("lmms_eval.api.model"), "lmms", types.ModuleType)
    boundaries = (runner_model, *_NOT_SEARCHED)
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MAX_OBJECTS:
        candidate = waiting.pop()
        if id(candidate) in seen or any(base in boundaries for base in type(candidate).__mro__):
            continue
        seen.add(id(candidate))
        if _is_engine(candidate) or _is_torch(candidate):
            return candidate
        if type(candidate) is types.FunctionType:
            waiting.extend((*(candidate.__closure__ or ()), *(candidate.__defaults__ or ())))
        else:  # untracked: text, numbers
            waiting.extend(filter(gc.is_tracked, gc.get_referents(candidate)))
    return None


def _is_torch(candidate: object) -> bool:
    """Whether it is a module, or a tensor on a device."""
    if (torch := sys.modules.get("torch")) is None:
        return False
    bases = {id(base) for base in type(candidate).__mro__}
    is_tensor = id(torch.Tensor) in bases
    on_device = is_tensor and str(torch.Tensor.device.__get__(candidate).type) != "cpu"
    return on_device or id(torch.nn.Module) in bases


def _is_engine(candidate: object) -> bool:
    """Whether it is an inference engine, whose weights may be in another process."""
    package = str(getattr(type(candidate), "__module__", "")).partition(".")[0]
    return package in _ENGINE_PACKAGES and _shutdown_method(candidate) is not None


def _shutdown_method(engine: object) -> Callable[[], object] | None:
    for path in _SHUTDOWN_METHODS:
        with contextlib.suppress(*_SHUTDOWN_ERRORS):
            method: object = operator.attrgetter(path)(engine)
            if callable(method):
                return method
    return None


def _shut_down(candidate: object) -> str:
    """Shut down an engine; returns why that failed. Anything else is left alone."""
    shutdown = _shutdown_method(candidate) if _is_engine(candidate) else None
    if shutdown is None:
        return ""
    try:
        shutdown()
    except _SHUTDOWN_ERRORS as error:
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
