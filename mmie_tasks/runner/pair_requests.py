"""Requests of a pair's writer: the sample of a request, and the words of a protocol in it."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

from lmms_eval.api.instance import Instance

from mmie_tasks.interleaved.protocols import PictureProtocol
from mmie_tasks.runner.loaded_tasks import loaded_benchmark


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSample:
    """The sample of a request of a task with pictures in answers.

    Attributes:
        id: For seeds.
        limit: How many pictures of an answer the judge can see.
        digest: Of its content.
    """

    id: str
    limit: int
    digest: str


def asked_sample(request: Instance, task_dict: Mapping[str, Any]) -> AskedSample | None:
    """The sample of a request; None for a task without pictures in answers.

    Args:
        request: Of the runner.
        task_dict: The runner's samples: by task, split and number.
    """
    # The runner's task is the owner of ``doc_to_messages`` or ``doc_to_visual``.
    methods = (argument for argument in request.args if isinstance(argument, MethodType))
    benchmark = next((loaded_benchmark(method.__self__) for method in methods), None)
    if benchmark is None or benchmark.picture_limit is None:
        return None
    *_, doc_id, task, split = request.args
    doc = task_dict[task][split][doc_id]
    content = json.dumps(doc, sort_keys=True, default=str)
    return AskedSample(
        id=str(doc.get("id", doc_id)),
        limit=benchmark.picture_limit(doc),
        digest=hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest(),
    )


def instructed(
    requests: Sequence[Instance], samples: Sequence[AskedSample | None], protocol: PictureProtocol
) -> list[Instance]:
    """The requests of one task with the words after the question; those without a sample, of tasks
    without pictures in answers, unchanged.
    """
    messages: MethodType | None = None  # batching models compare and share it
    instructed = []
    for request, sample in zip(requests, samples, strict=True):
        asked = copy.copy(request)
        if sample is not None:
            text, second, *others = request.args
            if isinstance(second, MethodType):  # a chat model's: text, messages, settings, ...
                messages = messages or _with_words(second, protocol)
                asked.arguments = (text, messages, *others)
            elif sample.limit:
                words = protocol.instruction(sample.limit)
                asked.arguments = (f"{text}\n\n{words}", second, *others)
        instructed.append(asked if sample else request)
    return instructed


def _with_words(doc_to_messages: MethodType, protocol: PictureProtocol) -> MethodType:
    """The task's ``doc_to_messages`` with the words after the question."""
    task = doc_to_messages.__self__
    benchmark = loaded_benchmark(task)

    def instructed_messages(_task: object, doc: Any, *args: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        messages: list[dict[str, Any]] = doc_to_messages(doc, *args)
        if benchmark and benchmark.picture_limit and (limit := benchmark.picture_limit(doc)):
            words = {"type": "text", "text": f"\n\n{protocol.instruction(limit)}"}
            *before, question = messages
            messages = [*before, {**question, "content": [*question["content"], words]}]
        return messages

    return MethodType(instructed_messages, task)
