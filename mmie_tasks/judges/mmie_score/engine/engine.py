"""The engine: prompts in, generated tokens out, as many at once as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from loguru import logger

from mmie_tasks.core.errors import first_line
from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.mmie_score.engine.budget import MemoryPlan
from mmie_tasks.judges.mmie_score.engine.decoding import DigitRecorder, StaticDecoder
from mmie_tasks.judges.mmie_score.engine.model import FlatSteps, Vision
from mmie_tasks.judges.mmie_score.engine.schedule import Chunk, LiveRow, Schedule
from mmie_tasks.judges.mmie_score.generation import (
    Completion,
    Engine,
    FailedPrompt,
    JudgePrompt,
    PromptSource,
    Result,
)
from mmie_tasks.judges.mmie_score.memory import is_out_of_memory, release_memory

_MAX_WAITING = 16  # prompts with tiles, ready for admission: a full batch for the vision tower
_MAX_DELAY = 16  # decoding steps that an unfilled prefill step may wait for


@dataclass(kw_only=True)
class PagedEngine(Engine):
    """Computes rows of different lengths together; none changes the result of another.

    A step is either a prefill step (chunks of prompts) or a decoding step (a token for each row).
    Prefill comes first, so that decoding steps have as many rows as possible. When memory runs out,
    the step is repeated with less of everything, in the end with a single row; a prompt fails only
    if even that is too much.

    Attributes:
        flat: Computes prefill steps. With fixed rows, steps have the full number of tokens, so that
            a row's neighbours change no shape of a matrix.
        decoder: Computes decoding steps; None: `flat` does.
        end_token_id: The token that ends a text.
        budget: Size of a step.
        full_budget: Before any step ran out of memory.
    """

    schedule: Schedule
    vision: Vision
    flat: FlatSteps
    decoder: StaticDecoder | None
    digits: DigitRecorder
    end_token_id: int
    budget: MemoryPlan
    full_budget: MemoryPlan = field(init=False)
    _delay: int = field(default=0, init=False)
    _source_is_empty: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.full_budget = self.budget
        self.schedule.max_rows = min(self.schedule.max_rows, self.budget.rows)

    def run(self, source: PromptSource) -> Iterator[Result]:
        """The result of every prompt of the source, each as it is finished."""
        self._source_is_empty = False
        try:
            while True:
                yield from self._take_prompts(source)
                self.schedule.admit()
                if not self.schedule.live:
                    return
                yield from self._step()
        finally:  # also if the caller stops reading results
            for row in list(self.schedule.live):
                self.schedule.end(row)
            self.schedule.waiting.clear()
            self.vision.clear()

    def close(self) -> None:
        """Drop what is computed; the weights are freed with the engine."""
        self.vision.clear()

    def _take_prompts(self, source: PromptSource) -> Iterator[FailedPrompt]:
        """Take the prompts that are ready; wait for one only if there is nothing else to do."""
        schedule = self.schedule
        while not self._source_is_empty and len(schedule.waiting) < _MAX_WAITING:
            idle = not schedule.live and not schedule.waiting
            match prompt := source.get(wait=idle):
                case JudgePrompt() if not schedule.fits(prompt):
                    reason = (
                        f"this request may come to {prompt.max_stored_tokens} tokens, and the "
                        f"judge's memory holds {schedule.max_tokens} at once"
                    )
                    yield FailedPrompt(key=prompt.key, error=JudgeUnavailable(reason))
                case JudgePrompt():
                    schedule.waiting.append(prompt)
                case FailedPrompt():
                    yield prompt
                case None:
                    self._source_is_empty = idle
                    return

    def _step(self) -> Iterator[Result]:
        last_tokens = self.schedule.last_tokens()
        chunks = self._next_chunks(bool(last_tokens))
        if chunks:
            logits = self._within_memory(self._prefilled, chunks)
        else:
            chunks = last_tokens
            logits = self._within_memory(self._decoded, chunks)
        if logits is None:
            return
        if isinstance(logits, FailedPrompt):
            yield logits
            return
        for chunk in chunks:
            chunk.row.stored = chunk.stop
            if chunk.ends_row:
                chunk.row.features = None
        rows = [chunk.row for chunk in chunks if chunk.ends_row]
        tokens: list[int] = logits.argmax(-1).tolist()
        self.digits.record(rows, logits, tokens)
        for row, token in zip(rows, tokens, strict=True):
            row.output.append(token)
            if (completion := self._completion(row)) is not None:
                self.schedule.end(row)
                yield completion

    def _next_chunks(self, others_decode: bool) -> Sequence[Chunk]:
        """The chunks of this step; none, for a few steps, if a fixed size would be padded and more
        are coming.
        """
        max_tokens = self.budget.chunk_tokens
        chunks = self.schedule.chunks(max_tokens)
        unfilled = sum(chunk.size for chunk in chunks) < max_tokens
        more_coming = bool(self.schedule.waiting) or not self._source_is_empty
        if chunks and self.flat.fixed_rows and unfilled and others_decode and more_coming:
            self._delay += 1
            if self._delay <= _MAX_DELAY:
                return ()
        self._delay = 0
        return chunks

    def _prefilled(self, chunks: Sequence[Chunk]) -> torch.Tensor:
        for chunk in chunks:
            row = chunk.row
            if row.features is None:
                prompts = [row.prompt, *self.schedule.unread_prompts(row)]
                row.features = self.vision.features(prompts, self.budget.vision_tiles)
        return self.flat.step(chunks, self.budget.chunk_tokens if self.flat.fixed_rows else None)

    def _decoded(self, chunks: Sequence[Chunk]) -> torch.Tensor:
        if self.decoder is not None:
            return self.decoder.step(chunks)
        return self.flat.step(chunks, self.flat.fixed_rows)

    def _completion(self, row: LiveRow) -> Completion | None:
        output, prompt = row.output, row.prompt
        ended = output[-1] == self.end_token_id
        if not ended and len(output) < prompt.max_new_tokens:
            return None
        return Completion(
            key=prompt.key,
            output=output,
            digits=row.digits,
            finish="stop" if ended else "length",
            prompt_tokens=len(prompt.ids),
        )

    def _within_memory(
        self, step: Callable[[Sequence[Chunk]], torch.Tensor], chunks: Sequence[Chunk]
    ) -> torch.Tensor | FailedPrompt | None:
        """The step's logits; None if memory ran out and a smaller step is to be planned."""
        try:
            return step(chunks)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            reason = first_line(error)
        release_memory()
        smaller = self.budget.smaller()
        if smaller is None and len(self.schedule.live) <= 1:
            # The request does not fit even alone; the others get the full budget back.
            row = chunks[0].row
            self.schedule.end(row)
            self.budget = self.full_budget
            self.schedule.max_rows = self.full_budget.rows
            text = f"the judge's device ran out of memory on this request alone: {reason}"
            return FailedPrompt(key=row.prompt.key, error=JudgeUnavailable(text))
        self.budget = smaller or self.budget
        logger.warning(
            f"The judge's device ran out of memory; continuing with steps of {self.budget.step}, "
            f"{self.budget.rows} requests at once. In half precision single tokens of replies may "
            "differ from those of other runs."
        )
        self.schedule.max_rows = self.budget.rows
        for row in self.schedule.live[self.budget.rows :][::-1]:
            self.schedule.restart(row)
        return None
