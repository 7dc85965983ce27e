from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Callable

import pytest
from lmms_eval.api.model import lmms
from torch import nn

from mmie_tasks.runner import model_memory
from mmie_tasks.runner.model_memory import free_tested_models

UNFREEZE = gc.unfreeze

tested: weakref.WeakSet[object] = weakref.WeakSet()
"""The models of a test."""


def free() -> str:
    return free_tested_models(tested)


class Model(lmms):
    """A model under evaluation."""

    def __init__(self) -> None:
        super().__init__()
        tested.add(self)

    def loglikelihood(self, requests): ...
    def generate_until(self, requests): ...
    def generate_until_multi_round(self, requests): ...


class Engine:
    """Like vLLM's engine: its weights are in another process."""

    __module__ = "vllm.entrypoints.llm"

    def __init__(self, failure: Exception | None = None) -> None:
        self.stopped = 0
        self._failure = failure
        self.llm_engine = types.SimpleNamespace(
            engine_core=types.SimpleNamespace(shutdown=self._stop)
        )

    def _stop(self) -> None:
        self.stopped += 1
        if self._failure is not None:
            raise self._failure


@pytest.fixture(autouse=True)
def _no_object_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model of another test, and older objects frozen: collecting them would take seconds."""
    tested.clear()
    gc.freeze()
    monkeypatch.setattr(gc, "unfreeze", lambda: None)


def holding(build: Callable[[Model, nn.Module], object]) -> tuple[Model, weakref.ref[nn.Module]]:
    """A model that the runner has cleaned, and a weak reference to the module it held."""
    model, module = Model(), nn.Linear(2, 2)
    build(model, module)
    alive = weakref.ref(module)
    del module
    model.clean()
    return model, alive


def space(**attributes: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(**attributes)


HOLDERS = {  # as the models of lmms-eval 0.7.3 hold what they run: see `MODEL_ATTRIBUTES`
    "bagel": lambda lm, m: (setattr(lm, "_model", m), setattr(lm, "inferencer", space(model=m))),
    "qwen-image-edit": lambda lm, m: setattr(lm, "pipeline", space(transformer=m)),
    "plm": lambda lm, m: setattr(lm, "_generator", space(model=m)),
    "nanovlm": lambda lm, m: (setattr(lm, "_workers", [space(model=m)]), setattr(lm, "model", m)),
    "a-ring": lambda lm, m: setattr(lm, "inferencer", space(lm=lm, m=m)),
}


@pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in HOLDERS.items()])
def test_a_module_is_freed_wherever_the_model_holds_it(
    build: Callable[[Model, nn.Module], object],
) -> None:
    model, alive = holding(build)
    assert alive() is not None, "the runner's own cleaning is enough: this proves nothing"
    text = free()
    assert alive() is None
    assert text.startswith("Freed of the tested model `Model`: `")
    assert model.rank == 0


def test_the_writer_of_a_pair_is_freed() -> None:
    writer, alive = holding(HOLDERS["qwen-image-edit"])
    text = free_tested_models([space(writer=writer, tested_model="a + b")])
    assert text == "Freed of the tested model `Model`: `pipeline`."
    assert alive() is None


def test_settings_and_what_the_runner_reads_later_stay_and_what_is_still_held_is_said() -> None:
    model = Model()
    model.accelerator, model.model = space(_models=[nn.Linear(2, 2)]), "vllm's name of a model"
    pipeline = model.pipeline = nn.Linear(2, 2)
    text = free()
    assert {"accelerator", "model", "_rank"} <= vars(model).keys()
    assert isinstance(pipeline, nn.Module)
    assert text.endswith("`pipeline`. Something else still refers to `pipeline`.")


def test_an_engine_is_shut_down_once_and_freed() -> None:
    model, engine = Model(), Engine()
    model.client = engine
    assert "Freed of the tested model `Model`: `client`." in free()
    assert engine.stopped == 1
    assert not hasattr(model, "client")


def test_an_engine_whose_shutdown_fails_is_reported() -> None:
    model = Model()
    model.client = Engine(RuntimeError("the core is gone"))
    text = free()
    assert "`client`: its shutdown failed (RuntimeError: the core is gone)." in text


def test_a_client_of_a_server_is_left_alone() -> None:
    model = Model()
    model.client = space(shutdown=lambda: pytest.fail("not an engine"))
    assert free() == "No tested model holds memory in this process."
    assert hasattr(model, "client")


def _hold_in_cycle(model: Model, module: nn.Module) -> None:
    """Only a garbage collection deletes a cycle, and none that is frozen."""
    holder = space(module=module)
    holder.itself = holder
    model.pipeline = holder


def test_a_model_among_frozen_objects_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "unfreeze", UNFREEZE)
    model, alive = holding(_hold_in_cycle)
    gc.freeze()
    free()
    assert alive() is None
    assert model.rank == 0


@pytest.mark.parametrize(
    ("allocated_gib", "level"), [pytest.param(0, "INFO"), pytest.param(3, "WARNING")]
)
def test_memory_that_stays_allocated_is_a_warning_with_its_size(
    monkeypatch: pytest.MonkeyPatch, logs, allocated_gib: int, level: str
) -> None:
    gib = 2**30
    cuda = space(
        mem_get_info=lambda: (5 * gib, 8 * gib),
        memory_allocated=lambda: allocated_gib * gib,
        empty_cache=lambda: None,
    )
    monkeypatch.setattr(model_memory, "_cuda", lambda: cuda)
    free()
    (line,) = logs
    assert line.record["level"].name == level
    assert line.startswith("No tested model holds memory in this process. 5.0 of 8.0 GiB")
    assert f"; {allocated_gib}.0 GiB are still allocated in this process." in line
