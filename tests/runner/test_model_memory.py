from __future__ import annotations

import gc
import types
import weakref

import pytest
from lmms_eval.api.model import lmms
from torch import nn

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
