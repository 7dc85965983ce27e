"""Removes a model's thinking from its answer: no benchmark scores it, and no judge may see it.

Servers and models of lmms-eval leave thinking in the text in one form: a tag with a word for
thinking that another closes (the reasoning parsers of vLLM, ``vllm/reasoning``, and SGLang,
``srt/parser/reasoning_parser.py``). The models gpt-oss and Gemma 4 have channels instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from mmie_tasks.record.segment import Segment, Segments

# A name that ends in a word for thinking: `think`, `seed:think`, `begin_of_thought`.
_NAME = r"(?:[a-z0-9]{1,20}[:_-]){0,4}(?:think(?:ing)?|thoughts?|reasoning|analysis)"
_OPEN = rf"<\|?(?!end_){_NAME}\|?>|\[THINK\]|◁think▷|<\|channel>thought\b"  # the last: Gemma 4
_CLOSE = rf"</{_NAME}>|<\|?end_{_NAME}\|?>|\[/THINK\]|◁/think▷|<channel\|>"
_TAG = re.compile(rf"(?P<open>{_OPEN})|(?:{_CLOSE})", re.IGNORECASE)
_FINAL = "<|channel|>final<|message|>"  # gpt-oss: its last message in this channel is the answer


def strip_thinking(text: str) -> str:
    """The text without its thinking, and then without white space at its ends.

    A tag is a name that ends in think, thinking, thought, thoughts, reasoning or analysis, in any
    letter case: ``<think>``, ``<seed:think>``, ``<|START_THINKING|>``; or ``[THINK]`` of Magistral,
    ``◁think▷`` of Kimi, ``<|channel>thought`` of Gemma 4. Everything from an opening tag to the
    next closing tag is thinking. So is everything before a closing tag without an opening one,
    which many chat templates write into the prompt, and everything after an opening tag without a
    closing one: the model was cut off while it was thinking.

    >>> strip_thinking("<think>Hm.</think>It is red.")
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But")
    'It is red.'
    >>> strip_thinking(" It is red. ")
    ' It is red. '
    """
    final = text.rpartition(_FINAL)[2].removesuffix("<|return|>")
    parts: list[str] = []
    end, is_thinking = 0, False
    for tag in _TAG.finditer(final):
        if not tag["open"]:
            parts = parts if is_thinking else []
            end, is_thinking = tag.end(), False
        elif not is_thinking:
            parts.append(final[end : tag.start()])
            is_thinking = True
    answer = "".join(parts if is_thinking else [*parts, final[end:]])
    return text if answer == text else answer.strip()


def without_thinking(segments: Iterable[Segment]) -> Segments:
    """The segments without thinking in their texts; images stay."""
    return tuple(replace(s, text=s.text and (strip_thinking(s.text) or None)) for s in segments)
