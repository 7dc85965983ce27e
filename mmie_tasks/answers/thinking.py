"""Removes what a model thought from its answer: no judge may see it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmie_tasks.record.segment import Segment

_THINKING_TAG = re.compile(
    r"[<\u25c1](/?)(?:think|thinking|analysis|reasoning)[>\u25b7]", re.IGNORECASE
)
# A thinking tag in quotation marks, or any code on one line.
_MENTION = re.compile(
    rf"(?<!\w)(?:[\"'“‘„«]{_THINKING_TAG.pattern}[\"'”’“»]|`(?=[^`\s])[^`\n]{{1,200}}(?<=\S)`)(?!\w)",
    re.IGNORECASE,
)
# A message of gpt-oss: its channel and its text.
_CHANNEL = re.compile(
    r"(?:<\|start\|>assistant)?<\|channel\|>(\w{1,40})\b[^<]*(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(.*?)(?:<\|(?:end|return|call)\|>|(?=<\|(?:start|channel)\|>)|\Z)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedText:
    """A text after `strip_thinking`: without thinking, and where that was removed without white
    space at its ends. It may have started, or ended, inside thinking.
    """

    text: str
    removed: bool = False
    starts_inside: bool = False
    ends_inside: bool = False


def strip_thinking(text: str) -> StrippedText:
    """Remove the text between thinking tags, and gpt-oss channels but ``final``.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything after it. If tags do not pair up, the last closing tag
    ends the thinking: a model may mention the tag while it thinks. A tag in quotation marks or in
    `code` is a mention.

    The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
    lmms-eval 0.7.3) and so may cut off the beginning of a JSON answer; MMIE's tasks switch that
    off, and the same tags are removed here, inside the texts of an answer. Beyond the runner:
    nested tags, tags in any case, an opening tag that is never closed, ``<thinking>``,
    ``<reasoning>``, and the tags in triangles that Kimi writes.

    >>> strip_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    >>> strip_thinking("Write `<think>` first.").removed
    False
    """
    if "<|channel|>" in text:
        final = _CHANNEL.sub(lambda match: match[2] if match[1] == "final" else "", text)
        if final != text:
            stripped = strip_thinking(final)
            return replace(stripped, text=stripped.text.strip(), removed=True)
    tags = _thinking_tags(text)
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
    if closed:  # the answer goes on after the last closing tag
        parts.append(text[end : next((tag.start() for tag in tags if tag.start() >= end), None)])
    return StrippedText(
        text="".join(parts).strip(),
        removed=True,
        starts_inside=bool(tags[0][1]),
        ends_inside=not closed,
    )


def _thinking_tags(text: str) -> list[re.Match[str]]:
    """The tags of thinking, in order, without those that are only mentioned.

    Inside thinking, a closing tag is a mention only if the next tag that is not in quotation marks
    or code closes the thinking: words in quotation marks may stand on both sides of a real one.
    """
    tags = list(_THINKING_TAG.finditer(text))
    mentions = [mention.span() for mention in _MENTION.finditer(text)] if tags else []
    mentioned = {tag.start() for span in mentions for tag in _THINKING_TAG.finditer(text, *span)}
    closes_later: dict[int, bool] = {}
    is_closed_next = False
    for tag in reversed(tags):
        closes_later[tag.start()] = is_closed_next
        if tag.start() not in mentioned:
            is_closed_next = bool(tag[1])
    real: list[re.Match[str]] = []
    for tag in tags:
        ends_thinking = bool(tag[1] and real and not real[-1][1]) and not closes_later[tag.start()]
        if tag.start() not in mentioned or ends_thinking:
            real.append(tag)
    return real


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
