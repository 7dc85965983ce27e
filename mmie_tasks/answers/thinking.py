"""Remove a model's thinking from its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmie_tasks.answers.segments import Segment

_THINKING_TAG = re.compile(r"[<\u25c1](/?)(?:think|thinking|analysis|reasoning)[>\u25b7]", re.IGNORECASE)
# A message of gpt-oss: its channel and its text.
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(\w+)[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(.*?)(?:<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedText:
    """A text after `strip_thinking`.

    Attributes:
        text: Without thinking; without white space at its ends where thinking was removed.
        removed: Whether there was any thinking.
        starts_inside: The first tag is a closing one: the text began inside thinking.
        ends_inside: The text ended inside thinking.
    """

    text: str
    removed: bool = False
    starts_inside: bool = False
    ends_inside: bool = False


def strip_thinking(text: str) -> StrippedText:
    """Remove the text between thinking tags, and gpt-oss channels but ``final``.

    No judge may see them.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything after it. If tags do not pair up, the last closing tag
    ends the thinking: a model may mention the tag while it thinks.

    The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
    lmms-eval 0.7.3) and so may cut off the beginning of a JSON answer; MMIE's tasks switch that
    off, and the same tags are removed here, inside the texts of an answer. Beyond the runner:
    nested tags, tags in any case, an opening tag that is never closed, ``<thinking>``,
    ``<reasoning>``, and the tags in triangles that Kimi writes.

    >>> strip_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    """
    if "<|channel|>" in text:
        final = _CHANNEL.sub(lambda match: match[2] if match[1] == "final" else "", text)
        if final != text:
            stripped = strip_thinking(final)
            return replace(stripped, text=stripped.text.strip(), removed=True)
    tags = list(_THINKING_TAG.finditer(text))
    if not tags:
        return StrippedText(text=text)
    parts: list[str] = []
    depth, end, closed = 0, 0, True
    for tag in tags:
        is_closing = bool(tag[1])
        if is_closing and not depth:
            parts.clear()
        elif not is_closing and not depth:
            parts.append(text[end : tag.start()])
        closed = is_closing or (closed and depth > 0)
        depth = max(depth - 1, 0) if is_closing else depth + 1
        end = tag.end() if is_closing else end
    if closed:
        parts.append(_THINKING_TAG.split(text[end:], maxsplit=1)[0])  # after the last closing tag
    return StrippedText(
        text="".join(parts).strip(), removed=True, starts_inside=bool(tags[0][1]), ends_inside=not closed
    )


def segments_without_thinking(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], bool]:
    """The segments without thinking in their texts, and whether there was any.

    Where one text ends inside thinking and a later one begins inside it, the texts between them
    are thinking as well; images stay.
    """
    stripped = list(segments)
    opened_at: int | None = None
    removed = False
    for i, segment in enumerate(segments):
        text = strip_thinking(segment.text or "")
        if not text.removed:
            continue
        if text.starts_inside and opened_at is not None:
            for between in range(opened_at + 1, i):
                stripped[between] = replace(stripped[between], text=None)
        stripped[i] = replace(segment, text=text.text or None)
        opened_at = i if text.ends_inside else None
        removed = True
    return tuple(stripped), removed
