"""Answers that are texts: how they are read, and what is noted of one.

Pure: no files, network, clock, environment or logging.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.facts import Facts, facts_of
from mmie_tasks.record.segment import Segments, text_segments

# `<name>` or `[NAME]` at the beginning, `<|name|>` anywhere; placeholders of images are none.
_IMAGE = r"(?!/?\|?(?:image|img)[ _]?\d*\|?[>\]])"
_TAG = re.compile(
    rf"\s*(?P<first><{_IMAGE}/?[a-z][\w:.-]{{0,39}}>|\[{_IMAGE}(?-i:[A-Z][A-Z_]{{2,39}})\])"
    rf"|.*?(?P<token><{_IMAGE}\|[^<>|\s]{{1,40}}\|>)",
    re.IGNORECASE | re.DOTALL,
)


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


def shown_results(results: Sequence[object]) -> Segments:
    r"""What a log shows of results that are not an answer: their texts, without thinking.

    >>> shown_results([["a", "<think>b</think>c", None]])
    (Segment(text='a\nc', image=None, problem='', detail='', prompt='', sha256=''),)
    """
    rounds = [part for one in results for part in (one if isinstance(one, list) else [one])]
    texts = (strip_thinking(part) for part in rounds if isinstance(part, str))
    return text_segments("\n".join(texts))


def facts_of_results(results: Sequence[object]) -> Facts:
    """What is unusual about the one text of lmms-eval's results; thinking and a tag.

    >>> facts_of_results(["<think>Hm.</think><plan> It is red."])
    {'thinking': 1, 'tag': '<plan>'}
    """
    text = results[0] if len(results) == 1 else None
    if not isinstance(text, str):
        return {}
    answer = strip_thinking(text)
    return facts_of(thinking=answer != text, tag=tag_of(answer))


def tag_of(text: str) -> str:
    """A tag of a text that is not read; empty if there is none.

    It is one at the beginning, such as ``<plan>`` or ``[PLAN]``, or a special token of a tokenizer
    anywhere.

    >>> tag_of("<image> It is red.<|im_end|>")
    '<|im_end|>'
    """
    match = _TAG.match(text)
    return (match["first"] or match["token"]) if match else ""
