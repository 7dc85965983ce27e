"""Changes to how the runner calls the tested model, and to what the model replies."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mmie_tasks.answers.failures import NO_REPLY
from mmie_tasks.runner.plugin import Function, wrapped_of


@contextmanager
def one_task_per_call(model: Any, *, has_ours: bool) -> Iterator[None]:  # noqa: ANN401
    """Split each call of a model's ``generate_until`` by task, if one of the tasks is ours.

    The runner passes the requests of all tasks in one call. Most of its Hugging Face models batch
    requests with equal ``generation_kwargs`` and read every image of a batch from the task of its
    first request (``task = task[0]``, ``models/simple/qwen2_5_vl.py:200``, or
    ``doc_to_messages[0]``, ``models/chat/huggingface.py:208``): a sample gets an image of another
    task. A batch size of 1 needs no split.
    """
    if not has_ours or getattr(model, "batch_size", None) in (1, "1"):
        yield
        return

    def split(generate: Function) -> Function:
        def generate_until(requests: Iterable[Any]) -> list[object]:
            by_task = itertools.groupby(requests, key=operator.attrgetter("task_name"))
            return [answer for _, group in by_task for answer in generate(list(group))]

        return generate_until

    with wrapped_of(model, "lmms_eval.api.model:lmms.generate_until", split):
        yield


def name_null_replies(tasks: Iterable[Any]) -> None:
    """Put `NO_REPLY` in place of null replies to our tasks, which the runner would score as empty
    answers (``api/task.py:1589``).
    """
    for request in (request for task in tasks for request in task.instances):
        request.resps[:] = [NO_REPLY if reply is None else reply for reply in request.resps]


@contextmanager
def called_after_generation(
    model: Any,  # noqa: ANN401 - the runner's
    functions: Sequence[Callable[[], None]],
) -> Iterator[None]:
    """Call functions before the runner cleans the model, once in every process of a run.

    Then all tasks have been generated, and none has been scored (``evaluator.py:1249``).
    """

    def call_first(clean: Function) -> Function:
        def call_and_clean() -> None:
            for function in functions:
                function()
            clean()

        return call_and_clean

    with wrapped_of(model, "lmms_eval.api.model:lmms.clean", call_first):
        yield
