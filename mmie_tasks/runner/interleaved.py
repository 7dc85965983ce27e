"""``--model interleaved``: a model of lmms-eval writes the answers, a text-to-image model draws
their pictures.

The writer is made and called as the runner does it. It gets the question with the words of a
protocol behind it; then it is freed, and the drawer draws what its texts ask for. Requests of tasks
without pictures go to the writer as they are. What the paper of MMIE did was never released: this
is a reconstruction, and every answer says so.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, TypeAlias

from lmms_eval.api.instance import GenerationResult, Instance, TokenCounts, unwrap_generation_output
from lmms_eval.api.model import lmms
from lmms_eval.models import get_model
from loguru import logger

from mmie_tasks.answers.drawn import (
    WITHHELD,
    DrawingFacts,
    write_drawn_answer,
    write_undrawn_answer,
)
from mmie_tasks.answers.parsing import NO_REPLY, failure_of, parse_answer
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.core.tables import listed
from mmie_tasks.interleaved.base import (
    Drawer,
    DrawerMisconfigured,
    DrawingError,
    PictureRequest,
    PictureUnusable,
    open_drawer,
)
from mmie_tasks.interleaved.chat_pictures import chat_completions, keep_chat_pictures
from mmie_tasks.interleaved.pictures import PictureStore, draw_all
from mmie_tasks.interleaved.protocols import INSTRUCT, NO_PICTURE, Prompt, Protocol, WrittenAnswer
from mmie_tasks.interleaved.written_texts import WrittenText, read_text, save_texts, text_path
from mmie_tasks.record.segment import Segment
from mmie_tasks.runner.answer_files import OUTPUT
from mmie_tasks.runner.hooks import loaded_benchmark
from mmie_tasks.runner.model_memory import free_model, record_tested_model
from mmie_tasks.runner.pair_arguments import (
    check_writer_arguments,
    parse_pair_arguments,
    split_arguments,
)
from mmie_tasks.runner.run_summary import short_model_name
from mmie_tasks.runner.stage_progress import StageProgress

_PORTION = 512  # requests that the writer gets at once; their texts are saved together
_SERVER_PORTION = 64  # the same for a writer behind a server
_DELIVERY = (
    *("base_url", "api_key", "timeout", "retry_backoff_s", "max_retries", "httpx_trust_env"),
    *("num_concurrent", "num_cpus", "batch_size", "prefix_aware_queue", "prefix_hash_chars"),
    *("adaptive_concurrency", "adaptive_min_concurrency", "adaptive_max_concurrency"),
    *("adaptive_target_latency_s", "adaptive_increase_step", "adaptive_decrease_factor"),
    "adaptive_failure_threshold",
)
"""Arguments of lmms-eval's chat clients that change no text."""
_Outcomes: TypeAlias = "Mapping[PictureRequest, Path | DrawingError]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _WriterSample:
    """The sample of a request of a task with pictures in answers.

    Attributes:
        id: Of the sample, for seeds.
        limit: How many pictures of an answer the judge can see.
        digest: Of its content.
    """

    id: str
    limit: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _AnswerWithPictures:
    """A writer's output on its way to the answer.

    Attributes:
        output: As the writer returned it.
        text: Its text; None if it is left as it is.
        tokens: Its tokens as the runner counts them.
        written: As the protocol reads it; None if nothing is drawn for it.
        pictures: What is to be drawn, in order.
    """

    output: object
    text: str | None = None
    tokens: TokenCounts | None = None
    written: WrittenAnswer | None = None
    pictures: tuple[PictureRequest, ...] = ()


_NAMED = (
    *("size", "max_side_px", "quality", "steps", "guidance", "negative_prompt"),
    *("revision", "variant", "dtype"),
)
"""Options of drawers that stand in a pair's name: another value draws another picture."""


class Interleaved(lmms):  # type: ignore[misc]  # the runner is untyped
    """A writer and a drawer as one model.

    Args:
        batch_size: For the writer, like the next two.
        max_batch_size: For the writer.
        device: For the writer.
        arguments: See `PairArguments`: ``lvlm``, ``t2i``, ``protocol``, ``pictures``.

    Raises:
        SystemExit: An argument is wrong, or the drawer cannot be used. The runner ends every other
            exception with status 0 (``__main__.py``, ``cli_evaluate``).
    """

    is_simple = False
    force_simple = False
    splits_by_task = True
    """The writer's calls hold one task each: see `mmie_tasks.runner.generation`."""

    @classmethod
    def create_from_arg_string(
        cls,
        arg_string: str | Mapping[str, object],
        additional_config: Mapping[str, object] | None = None,
    ) -> Interleaved:
        """As the runner makes models; the arguments may be a map, too."""
        try:
            arguments = split_arguments(arg_string)
        except SettingWrong as error:
            raise SystemExit(str(error)) from None
        return cls(**{**(additional_config or {}), **arguments})

    def __init__(
        self,
        batch_size: object = None,
        max_batch_size: object = None,
        device: object = None,
        **arguments: object,
    ) -> None:
        super().__init__()
        self._runner_options = {
            "batch_size": batch_size,
            "max_batch_size": max_batch_size,
            "device": device,
        }
        self._drawer: Drawer | None = None
        self.stages: dict[str, StageProgress] = {}  # those of the last call, by title
        try:
            self._arguments = parse_pair_arguments(split_arguments(arguments))
            if self._arguments.drawer is not None:
                self._drawer = open_drawer(self._arguments.drawer, os.environ)
                self._drawer.check()
                self._signature = f"{self._arguments.protocol.signature},{self._drawer.signature}"
                self._store = PictureStore(self._arguments.pictures, self._drawer.signature)
                self._store.prepare()
            self._writer = self._create_writer()
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        self._writer_is_freed = False
        self.is_simple = self._writer.is_simple
        self.task_dict = self._writer.task_dict  # the runner fills it
        self._rank, self._world_size = self._writer.rank, self._writer.world_size

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - the writer's
        """What the runner asks of a model beside its answers: accelerator, device, tokenizer, chat
        template.
        """
        if name.startswith("__") or "_writer" not in vars(self):
            raise AttributeError(name)
        return getattr(self._writer, name)

    @property
    def pair(self) -> str:
        """The name of writer and drawer, for folders and tables: ``gpt-4o + sdxl``, with what else
        tells runs apart: ``gpt-4o + sdxl (describe, steps=4)``.
        """
        arguments = self._arguments
        names = [short_model_name(arguments.writer, arguments.writer_arguments)]
        details = ["instruct"] if arguments.drawer is None and arguments.is_instructed else []
        if (drawer := arguments.drawer) is not None:
            names.append(short_model_name(drawer.name, drawer.options))
            details += [] if arguments.protocol.name == "step" else [arguments.protocol.name]
            options = dict(drawer.options)
            if negative := options.get("negative_prompt"):
                options["negative_prompt"] = hashlib.sha256(negative.encode()).hexdigest()[:8]
            details += [f"{key}={options[key]}" for key in _NAMED if key in options]
        return " + ".join(names) + (f" ({', '.join(details)})" if details else "")

    @property
    def words(self) -> Protocol | None:
        """See `PairArguments.words`."""
        return self._arguments.words

    @property
    def price_usd(self) -> float | None:
        """Of a picture; see `Drawer.price_usd`."""
        return None if self._drawer is None else self._drawer.price_usd

    def generate_until(self, requests: Sequence[Instance]) -> list[object]:
        """Write all answers, free the writer, draw all pictures.

        Raises:
            SystemExit: Not one of the pictures could be drawn, for a reason that can be mended.
        """
        samples = list(map(self._sample, requests))
        if self._drawer is None or not any(samples):
            return self._native(requests, samples)
        outputs = self._write(requests, samples)
        answers = [
            _read(output, sample, self._arguments.protocol)
            for output, sample in zip(outputs, samples, strict=True)
        ]
        outcomes = self._draw(answers, self._drawer)
        facts = [_facts(answer, outcomes, self._signature) for answer in answers]
        of_texts = [
            fact for answer, fact in zip(answers, facts, strict=True) if answer.text is not None
        ]
        _log(
            of_texts,
            outcomes,
            f" (rank {self.rank} of {self.world_size})" if self.world_size > 1 else "",
        )
        return [
            _output(answer, outcomes, fact) for answer, fact in zip(answers, facts, strict=True)
        ]

    def generate_until_multi_round(self, requests: Sequence[Instance]) -> list[object]:
        """As the writer: tasks of several rounds have no pictures in answers."""
        return list(self._live_writer().generate_until_multi_round(requests))

    def loglikelihood(self, requests: Sequence[Instance]) -> list[object]:
        """As the writer."""
        return list(self._live_writer().loglikelihood(requests))

    def generate_visual_cot(self, requests: Sequence[Instance]) -> list[object]:
        """As the writer."""
        return list(self._live_writer().generate_visual_cot(requests))

    def clean(self) -> None:
        """Free the writer and the drawer; the runner calls it after generation."""
        self._writer.clean()
        if self._drawer is not None:
            self._drawer.close()

    # Writing

    def _create_writer(self) -> lmms:
        arguments = self._arguments
        model = get_model(arguments.writer, self.force_simple)
        check_writer_arguments(model, arguments.writer_arguments)
        options = {name: value for name, value in self._runner_options.items() if value is not None}
        writer = model(**{**options, **arguments.writer_arguments})
        record_tested_model(writer)
        if self._drawer is None:
            extra_body = (
                {"modalities": list(arguments.modalities)} if arguments.modalities else None
            )
            if not keep_chat_pictures(writer, arguments.pictures, extra_body):
                logger.info(
                    f"interleaved: `{arguments.writer}` is no chat client; its answers are left as "
                    "they are."
                )
        return writer

    def _native(
        self, requests: Sequence[Instance], samples: Sequence[_WriterSample | None]
    ) -> list[object]:
        """The writer's outputs, of one task at a time; with ``instruct=yes`` it is asked for
        pictures, and answers name the words.
        """
        is_instructed = self._drawer is None and self._arguments.is_instructed
        if is_instructed:
            words = _Instructions(INSTRUCT)
            requests = [words.added_to(*pair) for pair in zip(requests, samples, strict=True)]
        by_task = itertools.groupby(requests, lambda request: request.task_name)
        outputs = [
            output
            for _, group in by_task
            for output in self._live_writer().generate_until(list(group))
        ]
        if not is_instructed:
            return outputs
        return [
            _output(_unread(output), {}, DrawingFacts(signature=INSTRUCT.signature))
            if sample
            else output
            for output, sample in zip(outputs, samples, strict=True)
        ]

    def _live_writer(self) -> lmms:
        """The writer, made again if it has been freed; rank and world size are the runner's."""
        if self._writer_is_freed:
            logger.info("interleaved: the writer was freed for drawing, and is made again.")
            self._writer, self._writer_is_freed = self._create_writer(), False
            self._writer.task_dict = self.task_dict
        if self.world_size > 1:
            self._writer._rank, self._writer._world_size = self.rank, self.world_size
        return self._writer

    def _write(
        self, requests: Sequence[Instance], samples: Sequence[_WriterSample | None]
    ) -> list[object]:
        """The writer's outputs. It gets portions of one task, whose texts are saved together.

        Most Hugging Face models of lmms-eval read all images of a batch from the task of its first
        request.
        """
        paths = self._text_paths(requests, samples)
        saved = {i: text for i, path in enumerate(paths) if (text := read_text(path))}
        if saved:
            logger.warning(
                f"interleaved: {len(saved):,} answers were written by an earlier run that was not "
                "finished, and are used. To have them written again, delete "
                f"`{_texts_folder()}`."
            )
        for request, path in zip(requests, paths, strict=True):
            OUTPUT.keep_until_logged(request.task_name, path)
        outputs = {i: _saved_output(text) for i, text in saved.items()}
        instructions = _Instructions(self._arguments.protocol)
        missing = (i for i in range(len(requests)) if i not in outputs)
        size = _PORTION if chat_completions(self._writer) is None else _SERVER_PORTION
        with self._stage("Writing", "answer", None) as progress:
            progress.begin(len(requests), len(outputs))
            for _, of_task in itertools.groupby(missing, lambda i: requests[i].task_name):
                while portion := list(itertools.islice(of_task, size)):
                    instructed = [instructions.added_to(requests[i], samples[i]) for i in portion]
                    written = self._live_writer().generate_until(instructed)
                    outputs |= zip(portion, written, strict=True)
                    texts = {paths[i]: _text_to_save(outputs[i]) for i in portion}
                    usable = {path: text for path, text in texts.items() if text is not None}
                    save_texts(usable)
                    failed = len(portion) - len(usable)
                    progress.update(len(portion), failed=failed, paid=len(usable))
        return [outputs[i] for i in range(len(requests))]

    @contextmanager
    def _stage(self, title: str, unit: str, price_usd: float | None) -> Iterator[StageProgress]:
        """The progress of a stage; in a run of several processes the first shows its own."""
        progress = StageProgress(title, unit, price_usd=price_usd, is_shown=self.rank == 0)
        try:
            yield progress
        finally:
            progress.close()
            self.stages[title] = progress

    def _text_paths(
        self, requests: Sequence[Instance], samples: Sequence[_WriterSample | None]
    ) -> list[Path]:
        """The file of each request's text: named by the writer, the protocol, the request and the
        content of its sample; of repeated requests by their number, too.
        """
        arguments = self._arguments
        options = sorted(
            f"{name}={value}"
            for name, value in arguments.writer_arguments.items()
            if name not in _DELIVERY
        )
        writer = json.dumps([arguments.writer, options, arguments.protocol.signature])
        keys = map(_request_key, requests, samples)
        times = Counter[str]()
        paths = []
        for key in keys:
            times[key] += 1
            paths.append(text_path(_texts_folder(), f"{writer}\n{key}\n{times[key]}"))
        return paths

    def _sample(self, request: Instance) -> _WriterSample | None:
        """The sample of a request; None for a task without pictures in answers."""
        owner = _task_of(request)
        benchmark = loaded_benchmark(owner) if owner is not None else None
        if benchmark is None or benchmark.picture_limit is None:
            return None
        *_, doc_id, task, split = request.args
        doc = self.task_dict[task][split][doc_id]
        digest = hashlib.sha256(
            json.dumps(doc, sort_keys=True, default=str).encode(errors="surrogatepass")
        ).hexdigest()
        return _WriterSample(
            id=str(doc.get("id", doc_id)), limit=benchmark.picture_limit(doc), digest=digest
        )

    # Drawing

    def _draw(self, answers: Sequence[_AnswerWithPictures], drawer: Drawer) -> _Outcomes:
        """The outcome of every picture; the writer is freed first.

        Raises:
            SystemExit: Not one picture could be drawn, for a reason that can be mended.
        """
        requests = [picture for answer in answers for picture in answer.pictures]
        if not requests:
            return {}
        freed = free_model(self._writer)
        self._writer_is_freed |= bool(freed.freed)
        for sentence in freed.sentences:
            logger.info("interleaved: {}", sentence)
        with self._stage("Drawing", "picture", drawer.price_usd) as progress:

            def count(outcome: Path | DrawingError) -> None:
                failed = isinstance(outcome, DrawingError)
                is_paid = not failed or isinstance(outcome, PictureUnusable)
                progress.update(1, failed=failed, paid=is_paid)

            outcomes = draw_all(drawer, self._store, requests, progress.begin, count)
        drawer.close()
        errors = [outcome for outcome in outcomes.values() if isinstance(outcome, DrawingError)]
        if len(errors) == len(outcomes) and (
            reason := next((error for error in errors if error.name in WITHHELD), None)
        ):
            text = str(reason).partition("\n")[0]
            error = DrawerMisconfigured(
                f"None of the {len(outcomes):,} pictures could be drawn: {text}",
                hint="correct that, then run again: what the writer has written is kept",
            )
            raise SystemExit(str(error))
        return outcomes


class InterleavedSimple(Interleaved):
    """With ``--force_simple``: the writer's simple class."""

    is_simple = True
    force_simple = True


class _Instructions:
    """Adds the words of a protocol to requests.

    Args:
        protocol: Whose words.
    """

    def __init__(self, protocol: Protocol) -> None:
        self._protocol = protocol
        self._methods: dict[int, MethodType] = {}  # batching models compare and share them

    def added_to(self, request: Instance, sample: _WriterSample | None) -> Instance:
        """The request with the words behind the question; a request of another task, without
        sample, unchanged.
        """
        if sample is None:
            return request
        instructed = copy.copy(request)
        text, *others = request.args
        if isinstance(others[0], MethodType):  # a chat model's: text, messages, settings, ...
            instructed.arguments = (text, self._messages(others[0]), *others[1:])
        elif sample.limit:
            instructed.arguments = (
                f"{text}\n\n{self._protocol.instruction(sample.limit)}",
                *others,
            )
        return instructed

    def _messages(self, doc_to_messages: MethodType) -> MethodType:
        """The task's ``doc_to_messages`` with the words behind the question; one for all samples of
        a task.
        """
        task = doc_to_messages.__self__
        benchmark = loaded_benchmark(task)
        if (
            id(task) not in self._methods
            and benchmark is not None
            and (limit_of := benchmark.picture_limit)
        ):

            def instructed_messages(_task: object, doc: Any, *args: Any) -> list[dict[str, Any]]:  # noqa: ANN401
                messages: list[dict[str, Any]] = doc_to_messages(doc, *args)
                if limit := limit_of(doc):
                    words = {"type": "text", "text": f"\n\n{self._protocol.instruction(limit)}"}
                    *before, question = messages
                    messages = [*before, {**question, "content": [*question["content"], words]}]
                return messages

            self._methods[id(task)] = MethodType(instructed_messages, task)
        return self._methods[id(task)]


def _task_of(request: Instance) -> object | None:
    """The runner's task of a request, through its ``doc_to_messages`` or ``doc_to_visual``."""
    owners = (function.__self__ for function in request.args if isinstance(function, MethodType))
    return next(owners, None)


def _texts_folder() -> Path:
    return cache_dir(os.environ) / "written"


def _request_key(request: Instance, sample: _WriterSample | None) -> str:
    """What makes the writer's output for a request: task, sample, text and settings."""
    settings = [argument for argument in request.args if not isinstance(argument, MethodType)]
    return json.dumps([settings, sample and sample.digest], sort_keys=True, default=str)


def _text_to_save(output: object) -> WrittenText | None:
    """An output for the file of written texts; None if it is a failure or no text."""
    text, tokens = unwrap_generation_output(output)
    if output is None or not isinstance(text, str) or failure_of(text):
        return None
    return WrittenText(text=text, tokens=tokens and tokens.to_dict())


def _saved_output(written: WrittenText) -> object:
    """The output that was saved."""
    if written.tokens is None:
        return written.text
    return GenerationResult(text=written.text, token_counts=TokenCounts(**written.tokens))


def _read(output: object, sample: _WriterSample | None, protocol: Protocol) -> _AnswerWithPictures:
    """A writer's output, and the pictures to draw for it."""
    if sample is None:
        return _AnswerWithPictures(output=output)
    undrawn = _unread(output)
    text = undrawn.text or ""
    stripped = strip_thinking(text)
    if not sample.limit or failure_of(text) or not stripped.text.strip():
        return undrawn
    written = protocol.read(stripped.text, sample.limit)
    if not written.prompts and any(segment.image for segment in parse_answer([text]).segments):
        return undrawn  # with pictures of the writer's own
    if stripped.removed:
        written = WrittenAnswer(parts=written.parts, unused={**written.unused, "thinking": 1})
    pictures = tuple(
        PictureRequest(prompt=prompt.text, seed=_seed(sample.id, number))
        for number, prompt in enumerate(written.prompts)
    )
    return _AnswerWithPictures(
        output=output, text=text, tokens=undrawn.tokens, written=written, pictures=pictures
    )


def _unread(output: object) -> _AnswerWithPictures:
    """A writer's output as it is, for a sample of ours."""
    text, tokens = unwrap_generation_output(output)
    if output is None or not isinstance(text, str):
        text = NO_REPLY if output is None or text is None else json.dumps(text, default=str)
    return _AnswerWithPictures(output=output, text=text, tokens=tokens)


def _seed(sample_id: str, number: int) -> int:
    """The seed of a picture, 0 to 2**31 - 1, by its sample and its number in the answer."""
    digest = hashlib.sha256(f"{sample_id}\n{number}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _facts(answer: _AnswerWithPictures, outcomes: _Outcomes, signature: str) -> DrawingFacts:
    drawn = [outcomes[picture] for picture in answer.pictures]
    failed = Counter(outcome.name for outcome in drawn if isinstance(outcome, DrawingError))
    unused = answer.written.unused if answer.written else {}
    return DrawingFacts(
        signature=signature, drawn=len(drawn) - failed.total(), failed=dict(failed), unused=unused
    )


def _output(answer: _AnswerWithPictures, outcomes: _Outcomes, facts: DrawingFacts) -> object:
    """What the runner gets: the answer as the JSON of `mmie_tasks.answers.drawn`, with the writer's
    tokens.
    """
    if answer.text is None:
        return answer.output
    if answer.written is None:
        text = write_undrawn_answer(answer.text, facts)
    else:
        text = write_drawn_answer(_parts(answer.written, answer.pictures, outcomes), facts)
    return (
        text if answer.tokens is None else GenerationResult(text=text, token_counts=answer.tokens)
    )


def _parts(
    written: WrittenAnswer, pictures: Sequence[PictureRequest], outcomes: _Outcomes
) -> Iterator[Segment]:
    """Texts and drawn pictures in order, without the pictures that could not be drawn."""
    requests = iter(pictures)
    for part in written.parts:
        if not isinstance(part, Prompt):
            yield Segment(text=part)
        elif isinstance(outcome := outcomes[next(requests)], Path):
            yield Segment(image=str(outcome), prompt=part.text)


def _log(facts: Sequence[DrawingFacts], outcomes: _Outcomes, rank: str) -> None:
    """One line about all answers of this process, and a reason of each kind of failure."""
    drawn = sum(fact.drawn for fact in facts)
    failed = sum((Counter(fact.failed) for fact in facts), Counter[str]())
    unused = sum((Counter(fact.unused) for fact in facts), Counter[str]())
    without = unused.pop(NO_PICTURE, 0)
    line = f"interleaved{rank}: {len(facts):,} answers with {drawn:,} pictures"
    line += f"; {NO_PICTURE}: {without:,}"
    line += f"; not drawn: {listed(failed)}" if failed else ""
    line += f"; not used of the writer's texts: {listed(unused)}" if unused else ""
    logger.log("INFO" if drawn and not failed else "WARNING", "{}", line)
    reasons = {
        outcome.name: outcome for outcome in outcomes.values() if isinstance(outcome, DrawingError)
    }
    for name, reason in reasons.items():
        logger.warning("interleaved{}: {}", rank, f"{name}: " + str(reason).partition("\n")[0])
