from __future__ import annotations

import gc
import types
import weakref

from lmms_eval.api.model import lmms
from torch import nn

from mmie_tasks.runner.model_memory import free_tested_models


class Model(lmms):
    """A model under evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self._model = nn.Linear(2, 2)

    def loglikelihood(self, requests): ...
    def generate_until(self, requests): ...
    def generate_until_multi_round(self, requests): ...


def test_a_model_is_freed_and_what_the_runner_reads_later_stays() -> None:
    """Only a garbage collection deletes a cycle, and none that is frozen."""
    model = Model()
    alive = weakref.ref(model._model)
    model._model.itself = [model._model]
    model.accelerator = types.SimpleNamespace(_models=[nn.Linear(2, 2)])
    model.model = "vllm's name of a model"
    gc.freeze()
    free_tested_models(weakref.WeakSet([model]))
    assert alive() is None
    assert {"accelerator", "model", "_rank"} <= vars(model).keys()
    assert model.rank == 0
