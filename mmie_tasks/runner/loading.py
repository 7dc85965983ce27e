"""What is done to a task of ours when it is loaded: its data is checked, and named."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from mmie_tasks.errors import MmieTasksError
from mmie_tasks.rooms import rooms

Method: TypeAlias = Callable[..., Any]


def preparing_ours(load: Method) -> Method:
    """Wrap what loads tasks, so that those with a room among them are prepared for the run."""

    @functools.wraps(load)
    def prepared(manager: object, *args: object, **kwargs: object) -> Mapping[Any, Any]:
        loaded: Mapping[Any, Any] = load(manager, *args, **kwargs)
        for task in _leaves(loaded):
            note_provenance(task)
            note_signature(task)
            check_before_requests(task)
        return loaded

    return prepared


def _leaves(loaded: Mapping[Any, Any]) -> Iterator[Any]:
    for value in loaded.values():
        if isinstance(value, Mapping):
            yield from _leaves(value)
        else:
            yield value[1] if isinstance(value, tuple) else value


def check_before_requests(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Let a task of ours check its data and its judge when its requests are built.

    That is after ``--predict_only`` and ``--limit`` are known and before any generation
    (``evaluator.py:1128``). The data by the room's ``before_requests(docs)``, if it has one; the
    room is the module of the task's ``process_docs``. The judge by the room's ``JUDGED``. A task
    without either, or not ours, is left as it is. A room with ``look_for_images_in(folder)`` is
    told first where the run writes.

    On the command line an `MmieTasksError` ends the process with its text and status 1; the runner
    would print an exception and end with 0. Called from Python the error gets out as it is.
    """
    room = _room(task)
    if not (hasattr(room, "before_requests") or hasattr(room, "JUDGED")):
        return
    build = task.build_all_requests

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: Any) -> None:  # noqa: ANN401
        try:
            _tell_output_path(room, task)
            _check(room, task, kwargs)
        except MmieTasksError as error:
            if getattr(task, "args", None) is None:  # set by the command line only
                raise
            raise SystemExit(str(error)) from None
        build(*args, **kwargs)

    task.build_all_requests = build_all_requests


def _tell_output_path(room: ModuleType | None, task: Any) -> None:  # noqa: ANN401
    """Where the run writes, for a room whose answers may name files: `look_for_images_in`."""
    look_in = getattr(room, "look_for_images_in", None)
    written_to = getattr(getattr(task, "args", None), "output_path", None)
    if look_in is not None and isinstance(written_to, str) and written_to:
        look_in(Path(written_to))


def _check(room: ModuleType | None, task: Any, asked: Mapping[str, Any]) -> None:  # noqa: ANN401
    """Images first, then the judge. Saved answers need no images, unless a judge is shown them."""
    asks_a_judge = hasattr(room, "JUDGED") and not _answers_only(task)
    before_requests = getattr(room, "before_requests", None)
    if before_requests is not None and (asks_a_judge or not _answers_are_saved(task)):
        before_requests(_in_this_run(task.eval_docs_no_media, asked))
    if asks_a_judge:
        from mmie_tasks.runner.judged import check_judge

        check_judge(room.JUDGED, task, asked.get("rank") or 0)  # type: ignore[union-attr]


def _in_this_run(docs: Any, asked: Mapping[str, Any]) -> Any:  # noqa: ANN401 - a Dataset, a list
    """The documents that ``--limit`` and ``--offset`` leave, on all ranks together."""
    first, limit = int(asked.get("offset") or 0), int(asked.get("limit") or 0)
    end = min(len(docs), first + limit) if limit > 0 else len(docs)
    wanted = range(min(first, end), end)
    return docs.select(wanted) if hasattr(docs, "select") else [docs[i] for i in wanted]


def _answers_only(task: Any) -> bool:  # noqa: ANN401
    """Whether nothing will be scored, however that was asked for (``api/task.py:719``)."""
    return "bypass" in task._metric_fn_list


def _answers_are_saved(task: object) -> bool:
    return getattr(task, "model_name", None) == "predictions"


def note_provenance(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Put what a task's room says of its ``provenance(doc)`` into the results file.

    It becomes ``metadata.provenance`` of the task's configuration, which the runner saves, and
    which is part of the key under which it caches answers.
    """
    provenance = getattr(_room(task), "provenance", None)
    if provenance is not None:
        noted = {"provenance": provenance(task.eval_docs_no_media[0])}
        task.config.metadata = {**(task.config.metadata or {}), **noted}


def note_signature(task: Any) -> None:  # noqa: ANN401 - the runner's object, untyped
    """Put what a task's room says of its ``signature(doc)`` into the results file.

    It becomes ``metadata.signature`` of the configuration that the runner saves, when requests are
    built and not before: the key under which the runner caches answers is made of an earlier copy
    of the configuration, and must not change with the judge.
    """
    signature = getattr(_room(task), "signature", None)
    if signature is None:
        return
    dump, build = task.dump_config, task.build_all_requests
    handed_out: list[dict[str, Any]] = []

    @functools.wraps(dump)
    def dump_config() -> dict[str, Any]:
        config: dict[str, Any] = dump()
        config["metadata"] = dict(config.get("metadata") or {})
        handed_out.append(config["metadata"])
        return config

    @functools.wraps(build)
    def build_all_requests(*args: object, **kwargs: object) -> None:
        build(*args, **kwargs)
        if not _answers_only(task):
            for metadata in handed_out:
                metadata["signature"] = signature(task.eval_docs_no_media[0])

    task.dump_config = dump_config
    task.build_all_requests = build_all_requests


def _room(task: object) -> ModuleType | None:
    """The module of the task's functions, of ours or of a benchmark of another package.

    Read now: predict_only clears them.
    """
    config = getattr(task, "config", None)
    for key in ("process_docs", "process_results"):
        name = getattr(getattr(config, key, None), "__module__", None) or ""
        if f"{name}.".startswith(_packages()):
            return sys.modules.get(name)
    return None


@functools.cache
def _packages() -> tuple[str, ...]:
    """What begins the name of a module of a benchmark; looked up once, as it takes 10 ms."""
    return ("mmie_tasks.", *(f"{room.package}." for room in rooms() if not room.is_ours))
