"""Everything that this package changes in lmms-eval 0.7.3, in one table.

Loading our entry point in the group ``lmms_eval.models`` (``models/registry_v2.py:139``) makes the
first changes: see `entry_point`. The evaluator, which may be importing us, is changed when
lmms-eval builds its index of tasks: see `hooks.change_evaluator`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeAlias

CHANGES: Mapping[str, str] = {
    "lmms_eval.tasks:TaskManager.initialize_tasks": "our task files are in the index of tasks",
    "lmms_eval.llm_judge.launcher:AVAILABLE_LAUNCHERS": "a launcher for each judge",
    "lmms_eval.evaluator:simple_evaluate": "judges are checked before the model is loaded",
    "lmms_eval.evaluator:get_task_dict": "`--use_cache` tells answers to other data apart",
    "lmms_eval.evaluator:evaluate": "data is checked, answers are judged, results are signed",
    "lmms_eval.evaluator_utils:TaskOutput.calculate_aggregate_metric": "records, not only means",
    "lmms_eval.api.model:lmms.generate_until": "one task per call; of the model that is tested",
    "lmms_eval.api.model:lmms.clean": "answers are saved before they are judged; of that model",
    "lmms_eval.__main__:cli_evaluate_single": "`mmie-tasks eval` has a status for what failed",
    "loguru:logger.add": "no codes of colours in pipes and files, which lmms-eval asks for",
}
"""Name in lmms-eval to what is different. `tests/runner/test_names.py` looks for each."""

Function: TypeAlias = Callable[..., Any]  # of lmms-eval, which is untyped

_WRAPPED = "_mmie_tasks_wrapped"


def named(name: str) -> Any:  # noqa: ANN401 - of lmms-eval
    """The object of a name in `CHANGES`; its module is imported."""
    owner, attribute = _owner(name)
    return getattr(owner, attribute)


def wrap(name: str, wrapper: Callable[[Function], Function]) -> None:
    """Replace a function in `CHANGES` by its wrapper, unless it is replaced already."""
    owner, attribute = _owner(name)
    original = getattr(owner, attribute)
    if not hasattr(original, _WRAPPED):
        wrapped = functools.wraps(original)(wrapper(original))
        setattr(wrapped, _WRAPPED, True)
        setattr(owner, attribute, wrapped)


@contextmanager
def wrapped_of(model: object, name: str, wrapper: Callable[[Function], Function]) -> Iterator[None]:
    """Replace a method in `CHANGES` by its wrapper, of one model and for a while."""
    _, attribute = _owner(name)
    original = getattr(model, attribute)
    setattr(model, attribute, functools.wraps(original)(wrapper(original)))
    try:
        yield
    finally:
        delattr(model, attribute)


def _owner(name: str) -> tuple[Any, str]:
    """The module or class with the attribute of a name, and the attribute."""
    assert name in CHANGES, name  # noqa: S101 - the table is complete
    module, _, path = name.partition(":")
    owner, _, attribute = path.rpartition(".")
    found = import_module(module)
    return (getattr(found, owner) if owner else found), attribute
