"""Freeing the tested model, so that a judge in this process has the memory of the device.

The runner's own cleaning (lmms-eval 0.7.3, ``api/model.py:164-174``) deletes attributes that are
modules. It leaves the model wherever something else holds it: the engine in ``client`` (vLLM,
SGLang), the ``inferencer`` of Bagel, the ``pipeline`` of diffusers, a list of modules, a method of
the model. Here every attribute goes through which a module, an engine or memory of a device is
reached. Nothing of what is looked at is called, but an engine's own shutdown.
"""

from __future__ import annotations

import contextlib
import gc
import operator
import os
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

SWITCH = "MMIE_TASKS_FREE"

# What the runner reads of a model after its cleaning (`evaluator.py:1249` to the end).
_KEPT = {"accelerator", "cache_hook", "task_dict", "_rank", "_world_size", "_device", "batch_sizes"}

_ENGINES = ("vllm", "sglang")
_SHUTDOWNS = ("shutdown", "llm_engine.engine_core.shutdown")  # the first that an engine has
_MOST_OBJECTS = 200_000  # are looked at behind one attribute
_GIB = 2**30

# Another package's shutdown may fail in any of these ways, and the judge can go on all the same.
_FAILURES = (
    AssertionError,
    AttributeError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)

_NOT_FOLLOWED = (type, types.ModuleType, types.CodeType, types.FrameType, types.TracebackType)


@dataclass(slots=True)
class _Freed:
    """What was let go of one model, and what it held, weakly."""

    model: str
    attributes: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    held: dict[str, weakref.ref[object]] = field(default_factory=dict)


def free_tested_models(environment: Mapping[str, str] | None = None) -> str:
    """Let go of every tested model in this process; a sentence or more for the log.

    To be called after the runner's ``lm.clean()``, right before a judge loads its own weights.
    Raises nothing. A judge's model is never touched: only attributes of the runner's models are.

    Args:
        environment: ``MMIE_TASKS_FREE=0`` leaves the models alone. By default, the process's.
    """
    if (os.environ if environment is None else environment).get(SWITCH) == "0":
        return f"The tested model is left as it is (`{SWITCH}=0`). {_device_memory()}".strip()
    gc.unfreeze()  # vLLM freezes what there is, and frozen objects are not listed
    all_freed = [_freed(model) for model in _models()]
    gc.collect()
    _empty_cache()
    told = [sentence for freed in all_freed for sentence in _told(freed)]
    told = told or ["No tested model holds memory in this process."]
    return " ".join([*told, _device_memory()]).strip()


def _models() -> list[object]:
    """Every model of the runner that is alive.

    By exact type, because asking an object for its class may run code of it.
    """
    module = sys.modules.get("lmms_eval.api.model")
    base = getattr(module, "lmms", None)
    if base is None:
        return []
    kinds = {id(kind) for kind in _subclasses(base)}
    return [thing for thing in gc.get_objects() if id(type(thing)) in kinds]


def _subclasses(kind: type[object]) -> Iterator[type[object]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _subclasses(below)


def _freed(model: object) -> _Freed:
    freed = _Freed(type(model).__name__)
    attributes = vars(model)
    for name in list(attributes):
        value = attributes[name]
        if (found := _held_by(value)) is None:
            continue
        if name in _KEPT:
            freed.kept.append(name)
            continue
        if failure := _shut_down(found):
            freed.failures.append(f"`{name}`: {failure}")
        del attributes[name]
        freed.attributes.append(name)
        with contextlib.suppress(TypeError):  # a kind of object that cannot be watched
            freed.held[name] = weakref.ref(found)
    return freed


def _held_by(value: object) -> object | None:
    """The first module, engine or memory of a device that is reached through a value."""
    seen: set[int] = set()
    waiting = [value]
    while waiting and len(seen) < _MOST_OBJECTS:
        thing = waiting.pop()
        if id(thing) in seen or _is_boundary(thing):
            continue
        seen.add(id(thing))
        if _is_module(thing) or _is_engine(thing) or _is_on_device(thing):
            return thing
        waiting.extend(_parts(thing))
    return None


def _parts(thing: object) -> Iterable[object]:
    """What an object refers to; of a function, only what it was made with, not its module."""
    if type(thing) is types.FunctionType:
        return [*(thing.__closure__ or ()), *(thing.__defaults__ or ())]
    return filter(gc.is_tracked, gc.get_referents(thing))  # the rest holds nothing: text, numbers


def _is_boundary(thing: object) -> bool:
    """What is not looked into: code, classes, and other models, which are freed themselves."""
    module = sys.modules.get("lmms_eval.api.model")
    models = getattr(module, "lmms", types.ModuleType)
    return any(base is models or base in _NOT_FOLLOWED for base in type(thing).__mro__)


def _is_module(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and any(base is torch.nn.Module for base in type(thing).__mro__)


def _is_on_device(thing: object) -> bool:
    torch = sys.modules.get("torch")
    if torch is None or not any(base is torch.Tensor for base in type(thing).__mro__):
        return False
    device: str = torch.Tensor.device.__get__(thing).type
    return device != "cpu"


def _is_engine(thing: object) -> bool:
    """Whether it is an inference engine, whose model may live in another process."""
    package = str(getattr(type(thing), "__module__", "")).partition(".")[0]
    return package in _ENGINES and _shutdown_of(thing) is not None


def _shutdown_of(engine: object) -> Callable[[], object] | None:
    for path in _SHUTDOWNS:
        with contextlib.suppress(*_FAILURES):
            found = operator.attrgetter(path)(engine)
            if callable(found):
                shutdown: Callable[[], object] = found
                return shutdown
    return None


def _shut_down(value: object) -> str:
    """Stop an engine, if it is one; what went wrong, in words."""
    shutdown = _shutdown_of(value) if _is_engine(value) else None
    if shutdown is None:
        return ""
    try:
        shutdown()
    except _FAILURES as error:
        return f"its shutdown failed ({type(error).__name__}: {error})"
    return ""


def _told(freed: _Freed) -> Iterator[str]:
    if freed.attributes:
        yield f"Freed of the tested model `{freed.model}`: {_listed(freed.attributes)}."
    if freed.kept:
        yield f"`{freed.model}` still holds {_listed(freed.kept)}, which the runner needs."
    for failure in freed.failures:
        yield f"{failure}."
    if still := [name for name, watched in freed.held.items() if watched() is not None]:
        yield f"Something else still holds what was in {_listed(still)}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _cuda() -> types.ModuleType | None:
    """CUDA as PyTorch has it, if this process uses it already."""
    torch = sys.modules.get("torch")
    cuda: types.ModuleType | None = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def _empty_cache() -> None:
    if cuda := _cuda():
        try:
            cuda.empty_cache()
        except RuntimeError:
            return  # a device that failed before says so where it is used next


def _device_memory() -> str:
    """What is free of the device, and what this process still holds; empty without one."""
    if (cuda := _cuda()) is None:
        return ""
    try:
        free, total = cuda.mem_get_info()
        held = cuda.memory_allocated()
    except RuntimeError as error:
        return f"The device does not say what is free ({str(error).partition(chr(10))[0]})."
    words = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB of the GPU are free"
    return f"{words}; {held / _GIB:.1f} GiB are still held in this process."
