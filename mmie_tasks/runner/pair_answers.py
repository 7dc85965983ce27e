"""Puts a pair's answers together from the writer's texts and their drawn pictures."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from loguru import logger

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import DrawingFacts, write_drawn_answer, write_undrawn_answer
from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.core.errors import first_line
from mmie_tasks.core.wording import listed
from mmie_tasks.interleaved.drawer import DrawingError, PictureRequest
from mmie_tasks.interleaved.protocols import NO_PICTURE, Prompt, WrittenAnswer, read_steps
from mmie_tasks.record.segment import Segment
from mmie_tasks.runner.pair_writer import AskedSample
from mmie_tasks.runner.run_texts import WrittenText

Outcomes: TypeAlias = "Mapping[PictureRequest, Path | DrawingError]"
"""The file of each picture, or its error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A writer's answer before its pictures are drawn, one for each prompt.

    `whole` is the output, and `written` the output as the protocol reads it; None if the output
    stays unchanged.
    """

    whole: WrittenText
    written: WrittenAnswer | None = None
    pictures: tuple[PictureRequest, ...] = ()


def draft_of(output: object, sample: AskedSample) -> Draft:
    """A writer's output as the protocol reads it, and the pictures to draw for it."""
    whole = WrittenText.of(output)
    stripped = strip_thinking(whole.text)
    if not sample.limit or failure_of(whole.text) or not stripped.strip():
        return Draft(whole=whole)
    written = read_steps(stripped, sample.limit)
    if not written.prompts and read_answer([whole.text]).images:
        return Draft(whole=whole)  # it has images of its own
    if stripped != whole.text:
        written = replace(written, unused={**written.unused, "thinking": 1})
    pictures = tuple(
        PictureRequest(prompt=prompt.text, seed=_seed(sample.id, number))
        for number, prompt in enumerate(written.prompts)
    )
    return Draft(whole=whole, written=written, pictures=pictures)


def _seed(sample_id: str, number: int) -> int:
    """The seed of a picture, 0 to 2**31 - 1, from its sample and its number in the answer."""
    digest = hashlib.sha256(f"{sample_id}\n{number}".encode(errors="surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def facts_of(draft: Draft, outcomes: Outcomes, signature: str) -> DrawingFacts:
    """What an answer says about its drawing: how many pictures it has and lacks, and why."""
    drawn = [outcomes[picture] for picture in draft.pictures]
    failed = Counter(outcome.name for outcome in drawn if isinstance(outcome, DrawingError))
    unused = draft.written.unused if draft.written else {}
    n_drawn = len(drawn) - failed.total()
    return DrawingFacts(signature=signature, drawn=n_drawn, failed=dict(failed), unused=unused)


def answer_of(draft: Draft, outcomes: Outcomes, facts: DrawingFacts) -> object:
    """The answer for the runner: JSON of `mmie_tasks.answers.drawn`, with the writer's tokens and
    without pictures that could not be drawn.
    """
    if draft.written is None:
        text = write_undrawn_answer(draft.whole.text, facts)
        return replace(draft.whole, text=text).output
    pictures = iter(draft.pictures)
    segments = []
    for part in draft.written.content:
        if not isinstance(part, Prompt):
            segments.append(Segment(text=part))
        elif isinstance(outcome := outcomes[next(pictures)], Path):
            segments.append(Segment(image=str(outcome), prompt=part.text))
    return replace(draft.whole, text=write_drawn_answer(segments, facts)).output


def log_answers(all_facts: Sequence[DrawingFacts], outcomes: Outcomes) -> None:
    """Log one line about all answers of this process, and one error of each kind."""
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
