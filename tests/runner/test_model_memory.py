from __future__ import annotations

import gc
import types
import weakref

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


@pytest.fixture(autouse=True)
def _no_object_of_another_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """No model of another test, and older objects frozen: collecting them would take seconds."""
    tested.clear()
    gc.freeze()
    monkeypatch.setattr(gc, "unfreeze", lambda: None)


def space(**attributes: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(**attributes)


def held_by(model: Model) -> weakref.ref[nn.Module]:
    """A weak reference to a module that the model holds."""
    model._model = nn.Linear(2, 2)
    return weakref.ref(model._model)


def test_modules_are_freed_and_what_the_runner_reads_later_stays() -> None:
    model = Model()
    alive = held_by(model)
    model.accelerator, model.model = space(_models=[nn.Linear(2, 2)]), "vllm's name of a model"
    free()
    assert alive() is None
    assert {"accelerator", "model", "_rank"} <= vars(model).keys()
    assert model.rank == 0


def test_a_model_among_frozen_objects_is_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a garbage collection deletes a cycle, and none that is frozen."""
    monkeypatch.setattr(gc, "unfreeze", UNFREEZE)
    model = Model()
    alive = held_by(model)
    model._model.itself = [model._model]
    gc.freeze()
    free()
    assert alive() is None


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
    assert line.startswith("5.0 of 8.0 GiB")
    assert f"; {allocated_gib}.0 GiB are still allocated in this process." in line
    assert ("--predict_only" in line) == (level == "WARNING")
