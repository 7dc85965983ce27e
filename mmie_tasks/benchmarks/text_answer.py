"""Answers that are texts: what is logged about one, and how it is read from a log.

Pure: no files, network, clock, environment or logging.
"""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.record import Line, answer_text
from mmie_tasks.record.segment import Segments, text_segments
from mmie_tasks.record.text_facts import TextFacts, text_facts


def answer_of_results(results: Sequence[object]) -> str | Unscored:
    """The text of lmms-eval's results, without its thinking; or why there is no answer.

    >>> answer_of_results(["[GENERATION_FAILED] out of memory"])
    Unscored(reason='no_answer', detail='generation failed')
    """
    answer = results[0] if len(results) == 1 else None
    if not isinstance(answer, str):
        return Unscored("not_text", f"{len(results)} answers instead of one text")
    if failure := failure_of(answer):
        return Unscored("no_answer", failure)
    return strip_thinking(answer)


def facts_of_results(results: Sequence[object], *, is_expected: bool = False) -> TextFacts:
    """What is unusual about the text of lmms-eval's results (`text_facts`); empty for several."""
    text = results[0] if len(results) == 1 else None
    if not isinstance(text, str):
        return TextFacts()
    answer = strip_thinking(text)
    return text_facts(answer, thinking=answer != text, is_expected=is_expected)


def logged_answer(line: Line) -> Segments:
    """The answer as it was scored, without its thinking. Raises `BadRecord` if it is not a text."""
    return text_segments(strip_thinking(answer_text(line)))
