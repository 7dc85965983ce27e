"""``--model interleaved``: a model of lmms-eval writes the answers, a text-to-image model draws
their pictures.

The writer is made and called as the runner does it. It gets the question with the words of a
protocol after it; then it is freed, and the drawer draws what its texts ask for. Requests of tasks
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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
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
from mmie_tasks.core.errors import MmieTasksError, SettingWrong, first_line
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
from mmie_tasks.record.signature import drawing_text
from mmie_tasks.runner.answer_files import OUTPUT
from mmie_tasks.runner.loaded_tasks import loaded_benchmark
from mmie_tasks.runner.model_memory import free_model, record_tested_model
from mmie_tasks.runner.pair_arguments import (
    check_writer_arguments,
    parse_pair_arguments,
    split_arguments,
)
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
class _AskedSample:
    """The sample of a request of a task with pictures in answers."""

    id: str  # for seeds
    limit: int  # how many pictures of an answer the judge can see
    digest: str  # of its content


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A writer's answer, before its pictures are drawn: as it was written, and as the protocol
    reads it, None if it stays as it is; with a picture for each prompt, in order.
    """

    whole: WrittenText
    written: WrittenAnswer | None = None
    pictures: tuple[PictureRequest, ...] = ()


class Interleaved(lmms):  # type: ignore[misc]  # the runner is untyped
    """A writer and a drawer as one model.

    Args:
        batch_size: For the writer, like the next two.
        max_batch_size: For the writer.
        device: For the writer.
        arguments: See `PairArguments`: ``lvlm``, ``t2i``, ``protocol``, ``pictures``.

    Attributes:
        pair: See `PairArguments.pair`.
        words: See `PairArguments.words`.
        price_usd: Of a picture; see `Drawer.price_usd`.
        stages: The progress of the last call by title, of writing and drawing.

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
        options = {"batch_size": batch_size, "max_batch_size": max_batch_size, "device": device}
        self._runner_options = {key: value for key, value in options.items() if value is not None}
        self._drawer: Drawer | None = None
        self.stages: dict[str, StageProgress] = {}
        try:
            self._arguments = parse_pair_arguments(split_arguments(arguments))
            if self._arguments.drawer is not None:
                self._drawer = open_drawer(self._arguments.drawer, os.environ)
                self._drawer.check()
                self._signature = drawing_text(
                    self._arguments.protocol.signature, self._drawer.signature
                )
                self._store = PictureStore(self._arguments.pictures, self._drawer.signature)
                self._store.prepare()
            self._writer = self._create_writer()
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        self._writer_is_freed = False
        self.pair, self.words = self._arguments.pair, self._arguments.words
        self.price_usd = None if self._drawer is None else self._drawer.price_usd
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

    def generate_until(self, requests: Sequence[Instance]) -> list[object]:
        """Write all answers, free the writer, draw all pictures.

        Raises:
            SystemExit: Not one of the pictures could be drawn, for a reason that can be mended.
        """
        samples = list(map(self._sample, requests))
        if self._drawer is None or not any(samples):
            return self._native(requests, samples)
        outputs = self._write(requests, samples)
        protocol = self._arguments.protocol
        drafts = {
            i: _draft(outputs[i], sample, protocol) for i, sample in enumerate(samples) if sample
        }
        outcomes = self._draw(drafts.values(), self._drawer)
        all_facts = []
        for i, draft in drafts.items():
            facts = _facts(draft, outcomes, self._signature)
            outputs[i] = _answer(draft, outcomes, facts)
            all_facts.append(facts)
        _log(all_facts, outcomes)
        return outputs

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

    def _sample(self, request: Instance) -> _AskedSample | None:
        """The sample of a request; None for a task without pictures in answers."""
        # The runner's task is the owner of ``doc_to_messages`` or ``doc_to_visual``.
        methods = (argument for argument in request.args if isinstance(argument, MethodType))
        benchmark = next((loaded_benchmark(method.__self__) for method in methods), None)
        if benchmark is None or benchmark.picture_limit is None:
            return None
        *_, doc_id, task, split = request.args
        doc = self.task_dict[task][split][doc_id]
        content = json.dumps(doc, sort_keys=True, default=str)
        return _AskedSample(
            id=str(doc.get("id", doc_id)),
            limit=benchmark.picture_limit(doc),
            digest=hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest(),
        )

    # Writing

    def _create_writer(self) -> lmms:
        arguments = self._arguments
        model = get_model(arguments.writer, self.force_simple)
        check_writer_arguments(model, arguments.writer_arguments)
        writer = model(**{**self._runner_options, **arguments.writer_arguments})
        record_tested_model(writer)
        if self._drawer is None:
            modalities = arguments.modalities
            extra_body = {"modalities": list(modalities)} if modalities else None
            if not keep_chat_pictures(writer, arguments.pictures, extra_body):
                logger.info(
                    f"interleaved: `{arguments.writer}` is no chat client; its answers are left as "
                    "they are."
                )
        return writer

    def _live_writer(self) -> lmms:
        """The writer, made again if it has been freed; rank and world size are the runner's."""
        if self._writer_is_freed:
            logger.info("interleaved: the writer was freed for drawing, and is made again.")
            self._writer, self._writer_is_freed = self._create_writer(), False
            self._writer.task_dict = self.task_dict
        if self.world_size > 1:
            self._writer._rank, self._writer._world_size = self.rank, self.world_size
        return self._writer

    def _written(
        self,
        requests: Sequence[Instance],
        samples: Sequence[_AskedSample | None],
        indices: Iterable[int],
        portion_size: int,
    ) -> Iterator[Mapping[int, object]]:
        """The writer's outputs by index, in portions of one task.

        Most Hugging Face models of lmms-eval read all images of a batch from the task of its first
        request.
        """
        for _, of_task in itertools.groupby(indices, lambda i: requests[i].task_name):
            while portion := list(itertools.islice(of_task, portion_size)):
                asked = [requests[i] for i in portion]
                if self.words is not None:
                    asked = _instructed(asked, [samples[i] for i in portion], self.words)
                yield dict(zip(portion, self._live_writer().generate_until(asked), strict=True))

    def _native(
        self, requests: Sequence[Instance], samples: Sequence[_AskedSample | None]
    ) -> list[object]:
        """The writer's outputs; with ``instruct=yes`` the answers name the words."""
        outputs: dict[int, object] = {}
        for portion in self._written(requests, samples, range(len(requests)), len(samples)):
            outputs |= portion
        if self.words is INSTRUCT:
            facts = DrawingFacts(signature=INSTRUCT.signature)
            for i, sample in enumerate(samples):
                if sample:
                    outputs[i] = _answer(_Draft(whole=_text_of(outputs[i])), {}, facts)
        return [outputs[i] for i in range(len(requests))]

    def _write(
        self, requests: Sequence[Instance], samples: Sequence[_AskedSample | None]
    ) -> list[object]:
        """The writer's outputs, whose texts are saved portion by portion until they are logged."""
        paths = self._text_paths(requests, samples)
        for request, path in zip(requests, paths, strict=True):
            OUTPUT.keep_until_logged(request.task_name, path)
        saved = {i: text for i, path in enumerate(paths) if (text := read_text(path))}
        if saved:
            logger.warning(
                f"interleaved: {len(saved):,} answers were written by an earlier run that was not "
                "finished, and are used. To have them written again, delete "
                f"`{_texts_folder()}`."
            )
        outputs = {i: _output(text) for i, text in saved.items()}
        missing = [i for i in range(len(requests)) if i not in saved]
        size = _PORTION if chat_completions(self._writer) is None else _SERVER_PORTION
        with closing(self._stage("Writing", "answer", None)) as progress:
            progress.begin(len(requests), len(outputs))
            for portion in self._written(requests, samples, missing, size):
                outputs |= portion
                texts = {paths[i]: _text_of(output) for i, output in portion.items()}
                usable = {path: text for path, text in texts.items() if not failure_of(text.text)}
                save_texts(usable)
                failed = len(portion) - len(usable)
                progress.update(len(portion), failed=failed, paid=len(usable))
        return [outputs[i] for i in range(len(requests))]

    def _text_paths(
        self, requests: Sequence[Instance], samples: Sequence[_AskedSample | None]
    ) -> list[Path]:
        """The file of each request's text: named by the writer, the protocol, the request and the
        content of its sample; of repeated requests by their number, too.
        """
        arguments = self._arguments
        named = arguments.writer_arguments.items()
        options = sorted(f"{name}={value}" for name, value in named if name not in _DELIVERY)
        writer = json.dumps([arguments.writer, options, arguments.protocol.signature])
        times = Counter[str]()
        paths = []
        for request, sample in zip(requests, samples, strict=True):
            settings = [value for value in request.args if not isinstance(value, MethodType)]
            digest = sample and sample.digest
            key = json.dumps([settings, digest], sort_keys=True, default=str)
            times[key] += 1
            paths.append(text_path(_texts_folder(), f"{writer}\n{key}\n{times[key]}"))
        return paths

    # Drawing

    def _stage(self, title: str, unit: str, price_usd: float | None) -> StageProgress:
        """The progress of a stage; in a run of several processes the first shows its own."""
        progress = StageProgress(title, unit, price_usd=price_usd, is_shown=self.rank == 0)
        self.stages[title] = progress
        return progress

    def _draw(self, drafts: Iterable[_Draft], drawer: Drawer) -> _Outcomes:
        """The outcome of every picture; the writer is freed first.

        Raises:
            SystemExit: Not one picture could be drawn, for a reason that can be mended.
        """
        requests = [picture for draft in drafts for picture in draft.pictures]
        if not requests:
            return {}
        freed = free_model(self._writer)
        self._writer_is_freed |= bool(freed.freed)
        for sentence in freed.sentences:
            logger.info("interleaved: {}", sentence)
        with closing(self._stage("Drawing", "picture", drawer.price_usd)) as progress:

            def count(outcome: Path | DrawingError) -> None:
                failed = isinstance(outcome, DrawingError)
                is_paid = not failed or isinstance(outcome, PictureUnusable)
                progress.update(1, failed=failed, paid=is_paid)

            outcomes = draw_all(drawer, self._store, requests, progress.begin, count)
        drawer.close()
        errors = [outcome for outcome in outcomes.values() if isinstance(outcome, DrawingError)]
        withheld = next((error for error in errors if error.name in WITHHELD), None)
        if withheld and len(errors) == len(outcomes):
            error = DrawerMisconfigured(
                f"None of the {len(outcomes):,} pictures could be drawn: {first_line(withheld)}",
                hint="correct that, then run again: what the writer has written is kept",
            )
            raise SystemExit(str(error))
        return outcomes


class InterleavedSimple(Interleaved):
    """With ``--force_simple``: the writer's simple class."""

    is_simple = True
    force_simple = True


# Requests


def _instructed(
    requests: Sequence[Instance], samples: Sequence[_AskedSample | None], protocol: Protocol
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


def _with_words(doc_to_messages: MethodType, protocol: Protocol) -> MethodType:
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


# Outputs


def _texts_folder() -> Path:
    return cache_dir(os.environ) / "written"


def _text_of(output: object) -> WrittenText:
    """The text of a writer's output, in which a null reply is named."""
    text, tokens = (None, None) if output is None else unwrap_generation_output(output)
    if text is None:
        text = NO_REPLY
    elif not isinstance(text, str):
        text = json.dumps(text, default=str)
    return WrittenText(text=text, tokens=tokens and tokens.to_dict())


def _output(written: WrittenText) -> object:
    """A text as the runner gets it."""
    if written.tokens is None:
        return written.text
    return GenerationResult(text=written.text, token_counts=TokenCounts(**written.tokens))


def _draft(output: object, sample: _AskedSample, protocol: Protocol) -> _Draft:
    """A writer's output as the protocol reads it, and the pictures to draw for it."""
    whole = _text_of(output)
    stripped = strip_thinking(whole.text)
    if not sample.limit or failure_of(whole.text) or not stripped.text.strip():
        return _Draft(whole=whole)
    written = protocol.read(stripped.text, sample.limit)
    segments = parse_answer([whole.text]).segments
    if not written.prompts and any(segment.image for segment in segments):
        return _Draft(whole=whole)  # with pictures of the writer's own
    if stripped.removed:
        written = replace(written, unused={**written.unused, "thinking": 1})
    pictures = tuple(
        PictureRequest(prompt=prompt.text, seed=_seed(sample.id, number))
        for number, prompt in enumerate(written.prompts)
    )
    return _Draft(whole=whole, written=written, pictures=pictures)


def _seed(sample_id: str, number: int) -> int:
    """The seed of a picture, 0 to 2**31 - 1, by its sample and its number in the answer."""
    digest = hashlib.sha256(f"{sample_id}\n{number}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _facts(draft: _Draft, outcomes: _Outcomes, signature: str) -> DrawingFacts:
    drawn = [outcomes[picture] for picture in draft.pictures]
    failed = Counter(outcome.name for outcome in drawn if isinstance(outcome, DrawingError))
    unused = draft.written.unused if draft.written else {}
    n_drawn = len(drawn) - failed.total()
    return DrawingFacts(signature=signature, drawn=n_drawn, failed=dict(failed), unused=unused)


def _answer(draft: _Draft, outcomes: _Outcomes, facts: DrawingFacts) -> object:
    """What the runner gets: the answer as the JSON of `mmie_tasks.answers.drawn`, with the writer's
    tokens. Pictures that could not be drawn are left out.
    """
    if draft.written is None:
        return _output(replace(draft.whole, text=write_undrawn_answer(draft.whole.text, facts)))
    pictures = iter(draft.pictures)
    segments = []
    for part in draft.written.parts:
        if not isinstance(part, Prompt):
            segments.append(Segment(text=part))
        elif isinstance(outcome := outcomes[next(pictures)], Path):
            segments.append(Segment(image=str(outcome), prompt=part.text))
    return _output(replace(draft.whole, text=write_drawn_answer(segments, facts)))


def _log(all_facts: Sequence[DrawingFacts], outcomes: _Outcomes) -> None:
    """One line about all answers of this process, and a reason of each kind of failure."""
    drawn = sum(facts.drawn for facts in all_facts)
    failed, unused = Counter[str](), Counter[str]()
    for facts in all_facts:
        failed.update(facts.failed)
        unused.update(facts.unused)
    without = unused.pop(NO_PICTURE, 0)
    line = f"{len(all_facts):,} answers with {drawn:,} pictures; {NO_PICTURE}: {without:,}"
    line += f"; not drawn: {listed(failed)}" if failed else ""
    line += f"; not used of the writer's texts: {listed(unused)}" if unused else ""
    logger.log("INFO" if drawn and not failed else "WARNING", "interleaved: {}", line)
    reasons = {error.name: error for error in outcomes.values() if not isinstance(error, Path)}
    for name, error in reasons.items():
        logger.warning("interleaved: {}: {}", name, first_line(error))
