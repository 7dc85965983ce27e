"""What is done to a task of ours when it is loaded: its data is checked, and named."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any, TypeAlias

from mmie_tasks.errors import MmieTasksError

Method: TypeAlias = Callable[..., Any]


def preparing_ours(load: Method) -> Method:
    """Wrap what loads tasks, so that those of ours among them are prepared for the run."""

    @functools.wraps(load)
    def prepared(manager: object, *args: object, **kwargs: object) -> Mapping[Any, Any]:
        loaded: Mapping[Any, Any] = load(manager, *args, **kwargs)
        for task in _leaves(loaded):
            check_before_requests(task)
            note_provenance(task)
        return loaded

    return prepared


def _leaves(loaded: Mapping[Any, Any]) -> Iterator[Any]:
    for value in loaded.values():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield value[1] if isinstance(value, tuple) else value


def check_before_requests(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Let a task of ours call its ``before_requests(docs)`` when its requests are built.

    That is after ``--predict_only`` and ``--limit`` are known and before any generation
    (``evaluator.py:1128``). ``before_requests`` is a function of the task's room, the module of its
    ``process_docs``; a task without it, or not ours, is left as it is. Not called for the model
    ``predictions``, which generates nothing and needs no images.

    On the command line an `MmieTasksError` ends the process with its text and status 1; the runner
    would print an exception and end with 0. Called from Python the error gets out as it is.
    """
    before_requests = getattr(_room(task), "before_requests", None)
    if before_requests is None or getattr(task, "model_name", None) == "predictions":
        return
    build = task.build_all_requests

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: object) -> None:
        try:
            before_requests(task.eval_docs_no_media)
        except MmieTasksError as error:
            if getattr(task, "args", None) is None:  # set by the command line only
                raise
            raise SystemExit(str(error)) from None
        build(*args, **kwargs)

    task.build_all_requests = build_all_requests


def note_provenance(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Put what a task's room says of its ``provenance(doc)`` into the results file.

    It becomes ``metadata.provenance`` of the task's configuration, which the runner saves, and
    which is part of the key under which it caches answers.
    """
    provenance = getattr(_room(task), "provenance", None)
    if provenance is not None:
        noted = {"provenance": provenance(task.eval_docs_no_media[0])}
        task.config.metadata = {**(task.config.metadata or {}), **noted}


def _room(task: object) -> ModuleType | None:
    """The module of the task's functions if it is ours. Read now: predict_only clears them."""
    config = getattr(task, "config", None)
    for key in ("process_docs", "process_results"):
        name = getattr(getattr(config, key, None), "__module__", None) or ""
        if name.startswith("mmie_tasks."):
            return sys.modules.get(name)
    return None
