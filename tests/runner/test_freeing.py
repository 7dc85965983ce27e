from __future__ import annotations

import functools
import gc
import types
import weakref
from collections.abc import Callable, Iterator

import pytest
import torch
from lmms_eval.api.model import lmms
from torch import nn

from mmie_tasks.runner.model_memory import SWITCH, free_tested_models


class Model(lmms):
    def loglikelihood(self, requests): ...
    def generate_until(self, requests): ...
    def generate_until_multi_round(self, requests): ...


class Fine(Model):
    """Two levels below the runner's class."""


class Engine:
    """As an engine of another package: its weights are in another process."""

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


class Pretender:
    """Fails whoever asks it for its class or an attribute, as lazy proxies do."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError(f"asked for {name}")


@pytest.fixture(autouse=True)
def _no_model_of_another_test() -> Iterator[None]:
    gc.collect()
    yield
    gc.collect()


def holding(build: Callable[[Model, nn.Module], object]) -> tuple[Model, weakref.ref[nn.Module]]:
    """A model that was cleaned by the runner, and a weak look at the module it held."""
    model, module = Fine(), nn.Linear(2, 2)
    build(model, module)
    alive = weakref.ref(module)
    del module
    model.clean()
    return model, alive


def space(**attributes: object) -> types.SimpleNamespace:
    return types.SimpleNamespace(**attributes)


HOLDERS = {
    "client": lambda lm, m: setattr(lm, "client", space(model=m)),
    "inferencer": lambda lm, m: (setattr(lm, "_model", m), setattr(lm, "inferencer", space(m=m))),
    "pipeline": lambda lm, m: setattr(lm, "pipeline", space(transformer=m)),
    "list": lambda lm, m: setattr(lm, "models", [m]),
    "dict": lambda lm, m: setattr(lm, "models", {"vae": (m,)}),
    "bound-method": lambda lm, m: setattr(lm, "generate", m.forward),
    "partial": lambda lm, m: setattr(lm, "generate", functools.partial(print, m)),
    "closure": lambda lm, m: setattr(lm, "generate", lambda: m),
    "default-value": lambda lm, m: setattr(lm, "generate", lambda m=m: m),
    "far-behind": lambda lm, m: setattr(lm, "a", space(b=[{"c": space(d=m.forward)}])),
    "a-ring": lambda lm, m: setattr(lm, "a", space(lm=lm, m=m)),
}


@pytest.mark.parametrize("build", [pytest.param(b, id=name) for name, b in HOLDERS.items()])
def test_a_module_goes_wherever_the_model_holds_it(
    build: Callable[[Model, nn.Module], object],
) -> None:
    model, alive = holding(build)
    assert alive() is not None, "the runner's own cleaning is enough: this proves nothing"
    said = free_tested_models({})
    assert alive() is None
    assert said.startswith("Freed of the tested model `Fine`: `")
    assert model.rank == 0


def test_what_the_runner_reads_later_stays() -> None:
    model = Model()
    module = nn.Linear(2, 2)
    model.accelerator = space(_models=[module])
    model.client = space(model=module)
    model.answer = "red"
    said = free_tested_models({})
    assert set(vars(model)) == {
        *("_rank", "_world_size", "cache_hook", "task_dict", "accelerator", "answer")
    }
    assert "`Model` still holds `accelerator`, which the runner needs." in said
    assert "Something else still holds what was in `client`." in said


def test_memory_of_a_device_counts_as_the_model() -> None:
    model = Model()
    model.cache, model.ids = [torch.empty(1, device="meta")], [torch.empty(1)]
    free_tested_models({})
    assert not hasattr(model, "cache")
    assert hasattr(model, "ids")


def test_an_engine_is_shut_down_once_and_let_go() -> None:
    model, engine = Model(), Engine()
    model.client = engine
    assert "Freed of the tested model `Model`: `client`." in free_tested_models({})
    assert engine.stopped == 1
    assert not hasattr(model, "client")


def test_an_engine_that_will_not_stop_is_told() -> None:
    model = Model()
    model.client = Engine(RuntimeError("the core is gone"))
    said = free_tested_models({})
    assert "`client`: its shutdown failed (RuntimeError: the core is gone)." in said


def test_a_client_of_a_server_is_left_alone() -> None:
    model = Model()
    model.client = space(shutdown=lambda: pytest.fail("this is nobody's engine"))
    assert free_tested_models({}) == "No tested model holds memory in this process."
    assert hasattr(model, "client")


def test_modules_of_others_are_not_touched() -> None:
    judge, model = space(model=nn.Linear(2, 2)), Model()
    model.models = [nn.Linear(2, 2)]
    free_tested_models({})
    assert isinstance(judge.model, nn.Linear)
    assert not hasattr(model, "models")


def test_an_object_that_answers_nothing_is_passed_over() -> None:
    model, pretender = Model(), Pretender()
    model.lazy, model.models = pretender, [pretender, nn.Linear(2, 2)]
    assert "`models`" in free_tested_models({})
    assert "lazy" in vars(model)


def test_a_model_is_found_among_frozen_objects() -> None:
    model, alive = holding(HOLDERS["list"])
    gc.freeze()
    free_tested_models({})
    assert alive() is None
    assert model.rank == 0


def test_it_can_be_switched_off() -> None:
    model, alive = holding(HOLDERS["list"])
    assert free_tested_models({SWITCH: "0"}).startswith("The tested model is left as it is")
    assert alive() is not None
    assert hasattr(model, "models")


def test_nothing_is_said_to_be_freed_where_there_was_nothing() -> None:
    model = Model()
    assert free_tested_models({}) == "No tested model holds memory in this process."
    assert model.rank == 0
