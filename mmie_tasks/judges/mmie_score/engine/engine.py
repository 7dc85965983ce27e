"""The engine: prompts in, generated tokens out, as many at once as memory allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from loguru import logger

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.mmie_score.devices import give_back
from mmie_tasks.judges.mmie_score.engine.model import (
    Failed,
    Feed,
    Finished,
    Part,
    Result,
    Row,
    Vision,
    Watch,
    Work,
)
from mmie_tasks.judges.mmie_score.engine.steps import Decoder, Prefill, Schedule
from mmie_tasks.judges.mmie_score.memory import Budget, shrink

T = TypeVar("T")

_WAITING = 16  # works with their tiles, ready to be admitted: a full batch for the vision tower
_PATIENCE = 16  # steps of decoding that an unfilled step of prefill waits for
_SETTLED_EVERY = 8  # tokens, between two looks at whether a text is settled


class Engine:
    """Computes rows of different lengths together; none changes what becomes of another.

    A step is either a step of prefill (parts of prompts) or one of decoding (a token for each
    row). Prefill comes first: every step of decoding should have as many rows as can be.

    When memory runs out, the step is done again with less of everything, in the end with a single
    row; only a work for which even that is too much fails.

    Args:
        schedule: Who is computed when.
        vision: Makes image features.
        prefill: Computes parts of prompts.
        decoder: Computes next tokens.
        end_token_id: The token that ends a text.
        budget: How much goes into a step.
        fixed: Every step of prefill has the full number of tokens, so that what a row becomes does
            not depend, through the shapes of matrices, on who is computed beside it.
    """

    def __init__(
        self,
        *,
        schedule: Schedule,
        vision: Vision,
        prefill: Prefill,
        decoder: Decoder,
        end_token_id: int,
        budget: Budget,
        fixed: bool,
    ) -> None:
        self.schedule = schedule
        self.schedule.most_rows = min(schedule.most_rows, budget.rows)
        self.budget = budget
        self.planned = budget
        self.steps = {"prefill": 0, "decode": 0}
        self._vision = vision
        self._prefill = prefill
        self._decoder = decoder
        self._end = end_token_id
        self._fixed = fixed
        self._waited = 0
        self._exhausted = False

    def run(
        self,
        feed: Feed,
        *,
        settled: Callable[[list[int]], bool] | None = None,
        watch: Watch | None = None,
    ) -> Iterator[Result]:
        """Everything the feed has, each as it is finished.

        Args:
            feed: Hands over the works, the longest first if it knows.
            settled: Whether a text may end here although its end token is missing.
            watch: Is told all logits: for tests and measurements.
        """
        self._exhausted = False
        try:
            while True:
                yield from self._taken(feed)
                self.schedule.admit()
                if not self.schedule.live:
                    return
                yield from self._step(settled, watch)
        finally:
            self._drop_everything()

    def _taken(self, feed: Feed) -> Iterator[Failed]:
        """Take over what is ready; wait for it only when there is nothing else to do."""
        schedule = self.schedule
        while not self._exhausted and len(schedule.waiting) < _WAITING:
            idle = not schedule.live and not schedule.waiting
            match got := feed.get(wait=idle):
                case Work() if not schedule.holds(got):
                    yield self._too_long(got)
                case Work():
                    self._vision.add(got)
                    schedule.waiting.append(got)
                case Failed():
                    yield got
                case None:
                    self._exhausted = idle
                    return

    def _step(
        self, settled: Callable[[list[int]], bool] | None, watch: Watch | None
    ) -> Iterator[Result]:
        decoding = self.schedule.decoding()
        parts = self._parts(bool(decoding))
        rows = [part.row for part in parts if part.ends_prompt] if parts else decoding
        if parts:
            logits = self._with_less(lambda: self._prefilled(parts), [part.row for part in parts])
        else:
            logits = self._with_less(lambda: self._decoded(decoding), decoding)
        if logits is None:
            return
        if isinstance(logits, Failed):
            yield logits
            return
        for part in parts:
            self.schedule.stored(part)
            if part.ends_prompt:
                part.row.features = None
        if watch:
            for row, found in zip(rows, logits, strict=True):
                watch(row.work.key, len(row.output), found)
        for row, token in zip(rows, logits.argmax(-1).tolist(), strict=True):
            row.output.append(token)
            if (finished := self._finished(row, settled)) is not None:
                self.schedule.end(row)
                yield finished

    def _parts(self, others_decode: bool) -> Sequence[Part]:
        """What is computed of prompts now.

        Nothing, for a few steps, where a step of fixed size would be filled up with nothing and
        more is to come.
        """
        room = self.budget.chunk_tokens
        parts = self.schedule.parts(room)
        unfilled = sum(part.stop - part.start for part in parts) < room
        more_to_come = bool(self.schedule.waiting) or not self._exhausted
        if parts and self._fixed and unfilled and others_decode and more_to_come:
            self._waited += 1
            if self._waited <= _PATIENCE:
                return ()
        self._waited = 0
        return parts

    def _prefilled(self, parts: Sequence[Part]) -> torch.Tensor:
        for part in parts:
            if part.row.features is None:
                part.row.features = self._vision.features(part.row.work, self.budget.vision_tiles)
        self.steps["prefill"] += 1
        return self._prefill.step(parts, self.budget.chunk_tokens if self._fixed else None)

    def _decoded(self, rows: Sequence[Row]) -> torch.Tensor:
        self.steps["decode"] += 1
        return self._decoder.step(rows)

    def _finished(self, row: Row, settled: Callable[[list[int]], bool] | None) -> Finished | None:
        output, work = row.output, row.work
        done = output[-1] == self._end
        if not done and settled is not None and len(output) % _SETTLED_EVERY == 0:
            done = settled(output)
        if not done and len(output) < work.max_new_tokens:
            return None
        return Finished(
            key=work.key,
            output=output,
            finish="stop" if done else "length",
            prompt_tokens=len(work.ids),
        )

    def _too_long(self, work: Work) -> Failed:
        schedule = self.schedule
        error = JudgeUnavailable(
            f"this request may come to {work.most_tokens} tokens, and the judge's memory holds "
            f"{schedule.longest_tokens} at once"
        )
        return Failed(key=work.key, error=error)

    def _with_less(
        self, step: Callable[[], torch.Tensor], rows: Sequence[Row]
    ) -> torch.Tensor | Failed | None:
        """The step's logits; None where memory ran out and it is to be planned anew, with less."""
        try:
            return step()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            found = str(error).partition("\n")[0]
        give_back()
        smaller = shrink(self.budget)
        if smaller is None and len(self.schedule.live) <= 1:
            return self._failed(rows[0], found)
        self.budget = smaller or self.budget
        logger.warning(f"The judge's device ran out of memory; going on with {self.budget}.")
        self.schedule.most_rows = self.budget.rows
        for row in self.schedule.live[self.budget.rows :][::-1]:
            self._start_again(row)
        return None

    def _start_again(self, row: Row) -> None:
        self._vision.drop(row.work)
        self._vision.add(row.work, first=True)
        self.schedule.start_again(row)

    def _failed(self, row: Row, found: str) -> Failed:
        """The request that is too much, alone as it is. The others get back what they had."""
        self._vision.drop(row.work)
        self.schedule.end(row)
        self.budget = self.planned
        self.schedule.most_rows = self.planned.rows
        text = f"the judge's device ran out of memory on this request alone: {found}"
        return Failed(key=row.work.key, error=JudgeUnavailable(text))

    def _drop_everything(self) -> None:
        """Whoever was alive, when nobody wants to hear more: the pages are free again."""
        for row in list(self.schedule.live):
            self._vision.drop(row.work)
            self.schedule.end(row)
        for work in self.schedule.waiting:
            self._vision.drop(work)
        self.schedule.waiting.clear()


def is_out_of_memory(error: RuntimeError) -> bool:
    """Whether a device, or the machine, had no memory left; torch has no class for the latter."""
    if isinstance(error, torch.OutOfMemoryError):
        return True
    return "not enough memory" in str(error) or "can't allocate memory" in str(error)
