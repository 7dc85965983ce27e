"""Frees the memory of a tested model, so that a judge in the same process can use the device.

The runner's own cleaning (lmms-eval 0.7.3, ``api/model.py:164-174``) deletes attributes that are
modules. A model stays in memory if something else refers to it: the engine in ``client`` (vLLM,
SGLang), the ``inferencer`` of Bagel, the ``pipeline`` of diffusers, a list of workers. `free_model`
deletes these attributes, too, by their names, and the log says what stays.
"""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from loguru import logger

from mmie_tasks.core.errors import first_line

MODEL_ATTRIBUTES: Mapping[str, str] = {
    "_complementary_model": "simple/qwen_image_edit.py:483",
    "_generator": "simple/plm.py:82",
    "_model": "chat/huggingface.py:99; an engine in simple/whisper_vllm.py:28",
    "_pipe": "simple/diffusers_wm_base.py:245, simple/cosmos_wm.py:520",
    "_transformers_reasoner_model": "simple/cosmos_wm.py:1151",
    "_understanding_model": "simple/qwen_image_edit.py:309",
    "_workers": "chat/async_hf_model.py:75, chat/nanovlm.py:73",
    "diffusion_decoder_pipe": "simple/illume_plus.py:570",
    "inferencer": "chat/bagel_lmms_engine.py:158, simple/bagel.py:425, simple/bagel_unig2u.py:373",
    "model": "chat/nanovlm.py:76, simple/mmada.py:199; a name in simple/vllm.py:171",
    "model_encoder": "chat/longvila.py:65",
    "pipeline": "simple/qwen_image_edit.py:137",
    "vision_tower": "simple/video_chatgpt.py:61",
    "vq_model": "simple/mmada.py:193, simple/illume_plus.py:558",
}
"""Attributes with weights in models of lmms-eval 0.7.3, to file and line below
``lmms_eval/models``. Engines are found by their packages: `_ENGINE_PACKAGES`.
"""

# They are in ``client`` (simple/vllm.py:235, chat/sglang.py:133), ``generator``
# (chat/fastvideo.py:274) and ``omni`` (chat/aero_realtime_vllm.py:401), where other models have
# clients of a server.
_ENGINE_PACKAGES = ("vllm", "vllm_omni", "sglang", "fastvideo")
_GIB = 2**30
_WARN_ABOVE_GIB = 0.1


@runtime_checkable
class ModelPair(Protocol):
    """A model made of a writer and a drawer.

    `writer` is the current model, since it is freed for drawing and created again.
    """

    tested_model: str

    @property
    def writer(self) -> object: ...  # noqa: D102 - above


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedModel:
    """The names of the deleted attributes, and sentences for a log; empty if none were deleted."""

    freed: tuple[str, ...]
    sentences: tuple[str, ...]


def free_tested_models(models: Iterable[object]) -> str:
    """Free tested models and the writers of pairs, and return the text that is logged.

    Call it after the runner's ``lm.clean()``, just before a judge loads its weights. The text is a
    warning if GPU memory stays allocated. Never raises.
    """
    models = list(models)
    models += [model.writer for model in models if isinstance(model, ModelPair)]
    sentences = [text for model in models for text in free_model(model).sentences]
    sentences = sentences or ["No tested model holds memory in this process."]
    text = " ".join([*sentences, _device_memory()]).strip()
    logger.log("WARNING" if _allocated_gib() > _WARN_ABOVE_GIB else "INFO", text)
    return text


def free_model(model: object) -> FreedModel:
    """Delete the attributes of an ``lmms`` that hold weights, and free the memory.

    These are the names in `MODEL_ATTRIBUTES`, and inference engines, which are shut down first. The
    runner can still read rank, world size and accelerator after generation (``evaluator.py:1249``).
    """
    gc.unfreeze()  # vLLM freezes all objects, and frozen reference cycles are not collected
    name_of_model, attributes = type(model).__name__, vars(model)
    freed: dict[str, Callable[[], object | None]] = {}
    sentences: list[str] = []
    for name, value in list(attributes.items()):
        is_engine = type(value).__module__.partition(".")[0] in _ENGINE_PACKAGES
        is_setting = value is None or isinstance(value, (str, int, float))
        if not is_engine and (is_setting or name not in MODEL_ATTRIBUTES):
            continue
        if is_engine and (error := _shut_down(value)):
            sentences.append(f"`{name}`: its shutdown failed ({error}).")
        freed[name] = lambda: None
        with suppress(TypeError):  # a type without weak references
            freed[name] = weakref.ref(value)
        del attributes[name], value
    gc.collect()
    if cuda := _cuda():
        with suppress(RuntimeError):  # a broken device is reported where it is used next
            cuda.empty_cache()
    if freed:
        names = ", ".join(f"`{name}`" for name in freed)
        sentences.insert(0, f"Freed of the tested model `{name_of_model}`: {names}.")
    if held := [f"`{name}`" for name, value in freed.items() if value() is not None]:
        sentences.append(f"Something else still refers to {', '.join(held)}.")
    return FreedModel(freed=tuple(freed), sentences=tuple(sentences))


def _shut_down(engine: object) -> str:
    """Shut down an engine by its own method or that of its core (vLLM's ``LLM``); returns why it
    failed.
    """
    core = getattr(getattr(engine, "llm_engine", None), "engine_core", None)
    shutdown = getattr(engine, "shutdown", None) or getattr(core, "shutdown", None)
    try:
        if shutdown is not None:
            shutdown()
    except Exception as error:  # noqa: BLE001 - an engine; the judge can run nevertheless
        return f"{type(error).__name__}: {error}"
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
        return f"The free memory of the GPU is unknown ({first_line(error)})."
    sizes = f"{free / _GIB:.1f} of {total / _GIB:.1f} GiB of the GPU are free"
    return f"{sizes}; {_allocated_gib():.1f} GiB are still allocated in this process."
