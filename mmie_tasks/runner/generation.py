"""The calls of the tested model: one task a batch, null replies named, a call after the last."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mmie_tasks.answers.drawn import DrawingFacts, read_drawn_answer, write_undrawn_answer
from mmie_tasks.answers.failures import NO_REPLY
from mmie_tasks.interleaved.protocols import INSTRUCT


@contextmanager
def one_task_per_call(model: Any, tasks: Iterable[object]) -> Iterator[None]:  # noqa: ANN401
    """Split each call of a model's ``generate_until`` by task, if one of the tasks is ours.

    The runner passes the requests of all tasks in one call. Most of its Hugging Face models batch
    those with equal ``generation_kwargs`` and read every image of a batch from the task of its
    first request (``task = task[0]``, ``models/simple/qwen2_5_vl.py:200``, or
    ``doc_to_messages[0]``, ``models/chat/huggingface.py:208``): a sample gets an image of another
    task. With a batch size of 1 the calls stay as they are, and those of a model that splits them
    itself (`interleaved`, whose writer must have written for all tasks before anything is drawn).

    Args:
        model: The tested model, whose method is replaced until the context ends.
        tasks: The tasks of this evaluation.
    """
    # By their provenance: after `--predict_only`, tasks have no functions of ours.
    configs = [getattr(task, "config", None) for task in tasks]
    has_ours = any("provenance" in (getattr(config, "metadata", None) or {}) for config in configs)
    is_split = getattr(type(model), "splits_by_task", False)
    if not has_ours or is_split or getattr(model, "batch_size", None) in (1, "1"):
        yield
        return
    generate = model.generate_until

    @functools.wraps(generate)
    def generate_until(requests: Iterable[Any]) -> list[object]:
        by_task = itertools.groupby(requests, key=operator.attrgetter("task_name"))
        return [answer for _, group in by_task for answer in generate(list(group))]

    model.generate_until = generate_until
    try:
        yield
    finally:
        del model.generate_until


def name_null_replies(tasks: Iterable[Any]) -> None:
    """Put a text in place of null replies, which the runner scores as empty answers
    (``api/task.py:1589``); for tasks of ours, where they are no answer.
    """
    for request in (request for task in tasks for request in task.instances):
        request.resps[:] = [NO_REPLY if reply is None else reply for reply in request.resps]


def mark_instructed(tasks: Iterable[Any]) -> None:
    """Name the words in the answers to tasks of ours whose file asks for pictures (``instruct:
    true`` in ``lmms_eval_specific_kwargs``), so that every number made of them does.
    """
    facts = DrawingFacts(signature=INSTRUCT.signature)

    def marked(reply: object) -> object:
        is_unmarked = isinstance(reply, str) and read_drawn_answer(reply) is None
        return write_undrawn_answer(str(reply), facts) if is_unmarked else reply

    for task in tasks:
        if (getattr(task, "lmms_eval_specific_kwargs", None) or {}).get("instruct"):
            for request in task.instances:
                request.resps[:] = map(marked, request.resps)


@contextmanager
def called_after_generation(
    model: Any,  # noqa: ANN401 - the runner's
    functions: Sequence[Callable[[], None]],
) -> Iterator[None]:
    """Call functions when the runner cleans the model, once, in every process of a run.

    That is after all tasks have been generated and before any of them is scored
    (``evaluator.py:1249``).

    Args:
        model: The tested model, whose method is replaced until the context ends.
        functions: Called in their order, before the model is cleaned.
    """
    clean = model.clean

    @functools.wraps(clean)
    def call_and_clean() -> None:
        for function in functions:
            function()
        clean()

    model.clean = call_and_clean
    try:
        yield
    finally:
        del model.clean
