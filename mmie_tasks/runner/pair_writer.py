"""The writer of a pair: a model of lmms-eval that gets the words of a protocol with each request.

It is freed for drawing, and created again when it is needed.
"""

from __future__ import annotations

import copy
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MethodType
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.api.model import lmms
from lmms_eval.models import get_model
from loguru import logger

from mmie_tasks.interleaved.protocols import STEP
from mmie_tasks.runner.loaded_tasks import loaded_benchmark
from mmie_tasks.runner.model_memory import free_model
from mmie_tasks.runner.pair_arguments import PairArguments, check_writer_arguments

_PORTION = 512  # requests that the writer gets at once; their texts are saved together
_SERVER_PORTION = 64  # the same for a writer on a server


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedSample:
    """A sample of a task with pictures in answers: its id, the limit on pictures in an answer that
    the judge can see, and the SHA-256 of its content.
    """

    id: str
    limit: int
    digest: str


def asked_sample(request: Instance, task_dict: Mapping[str, Any]) -> AskedSample | None:
    """The sample of a request; None for a task without pictures in answers."""
    # The runner's task is the owner of ``doc_to_messages`` or ``doc_to_visual``.
    methods = (argument for argument in request.args if isinstance(argument, MethodType))
    benchmark = next((loaded_benchmark(method.__self__) for method in methods), None)
    if benchmark is None or not benchmark.has_picture_answers:
        return None
    *_, doc_id, task, split = request.args
    doc = task_dict[task][split][doc_id]
    content = json.dumps(doc, sort_keys=True, default=str)
    return AskedSample(
        id=str(doc.get("id", doc_id)),
        limit=benchmark.picture_limit(doc),
        digest=hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest(),
    )


class PairWriter:
    """The writer of a pair; its simple class if `force_simple`.

    Attributes:
        model: The model of lmms-eval; without its weights after `free`.
        rank: Rank of this process in the run.
        world_size: Number of processes in the run.
        task_dict: The samples by task and split, which the runner fills.

    Raises:
        SettingWrong: There is no such model, or it has no such argument.
    """

    def __init__(
        self, arguments: PairArguments, runner_options: Mapping[str, object], *, force_simple: bool
    ) -> None:
        self._arguments = arguments
        self._runner_options = runner_options
        self._force_simple = force_simple
        self.rank, self.world_size = 0, 1
        self._is_freed = False
        self.model = self._create()
        self.task_dict = self.model.task_dict

    def _create(self) -> lmms:
        arguments = self._arguments
        model_class = get_model(arguments.writer, self._force_simple)
        check_writer_arguments(model_class, arguments.writer_arguments)
        model = model_class(**{**self._runner_options, **arguments.writer_arguments})
        _add_to_requests(model, arguments.request_fields)
        return model

    def live_model(self) -> lmms:
        """The model with its weights: created again if it has been freed."""
        if self._is_freed:
            logger.info("interleaved: the writer was freed for drawing, and is made again.")
            self.model, self._is_freed = self._create(), False
            self.model.task_dict = self.task_dict
        if self.world_size > 1:
            self.model._rank, self.model._world_size = self.rank, self.world_size
        return self.model

    def free(self) -> None:
        """Free the memory of the model; a later request creates it again."""
        if freed := free_model(self.model):
            self._is_freed = True
            logger.info("interleaved: freed of the writer: {}", ", ".join(freed))

    @property
    def portion_size(self) -> int:
        """How many requests the writer gets at once if their texts are saved."""
        return _PORTION if _chat_completions(self.model) is None else _SERVER_PORTION

    def outputs(
        self,
        requests: Sequence[Instance],
        samples: Sequence[AskedSample | None],
        indices: Iterable[int],
        portion_size: int,
    ) -> Iterator[Mapping[int, object]]:
        """The outputs for some of the requests, by index, in portions.

        Requests with a sample get the words of the protocol. A portion has one task, for the reason
        in `one_task_per_call`.
        """
        for _, of_task in itertools.groupby(indices, lambda i: requests[i].task_name):
            while portion := list(itertools.islice(of_task, portion_size)):
                asked = _instructed([requests[i] for i in portion], [samples[i] for i in portion])
                yield dict(zip(portion, self.live_model().generate_until(asked), strict=True))


def _chat_completions(model: object) -> Any | None:  # noqa: ANN401 - of the OpenAI SDK or alike
    """The completions of a model's client of the OpenAI SDK; None without such a client."""
    try:
        completions = attrgetter("client.chat.completions")(model)
        return completions if callable(completions.create) else None
    except AttributeError:
        return None


def _add_to_requests(model: object, fields: Mapping[str, object]) -> None:
    """Let a model's chat client, if any, add fields to every request; its own fields win."""
    if (completions := _chat_completions(model)) is None or not fields:
        return
    create = completions.create

    @functools.wraps(create)
    def create_with_fields(
        *args: object, extra_body: Mapping[str, object] | None = None, **options: object
    ) -> object:
        return create(*args, extra_body={**fields, **(extra_body or {})}, **options)

    completions.create = create_with_fields


def _instructed(
    requests: Sequence[Instance], samples: Sequence[AskedSample | None]
) -> list[Instance]:
    """The requests of one task, with the words after the question if they have a sample."""
    messages: MethodType | None = None  # batching models compare and share it
    instructed = []
    for request, sample in zip(requests, samples, strict=True):
        if sample is not None:
            text, second, *others = request.args
            request = copy.copy(request)
            if isinstance(second, MethodType):  # a chat model's: text, messages, settings, ...
                messages = messages or _with_words(second)
                request.arguments = (text, messages, *others)
            elif sample.limit:
                words = STEP.instruction(sample.limit)
                request.arguments = (f"{text}\n\n{words}", second, *others)
        instructed.append(request)
    return instructed


def _with_words(doc_to_messages: MethodType) -> MethodType:
    """The task's ``doc_to_messages`` with the words after the question."""
    task = doc_to_messages.__self__
    benchmark = loaded_benchmark(task)

    def instructed_messages(_task: object, doc: Any, *args: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        messages: list[dict[str, Any]] = doc_to_messages(doc, *args)
        if benchmark and (limit := benchmark.picture_limit(doc)):
            words = {"type": "text", "text": f"\n\n{STEP.instruction(limit)}"}
            *before, question = messages
            messages = [*before, {**question, "content": [*question["content"], words]}]
        return messages

    return MethodType(instructed_messages, task)
