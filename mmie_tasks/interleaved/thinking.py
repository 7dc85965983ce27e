"""Thinking in front of an answer, which no judge may see.

The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
lmms-eval 0.7.3) and so may behead a JSON answer; MMIE's tasks switch that off, and the same tags
are removed here, inside the texts of an answer. Beyond the runner: nested tags, other cases of
letters, an opening tag that is never closed, thinking that goes over several parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mmie_tasks.interleaved.segments import Segment

_TAG = re.compile(r"<(/?)(?:think|analysis)>", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is left of a text.

    Attributes:
        text: Without thinking; without white space at its ends where thinking was removed.
        removed: Whether there was any.
        begins_inside: The first tag is a closing one: the text began in thinking.
        ends_inside: The text ended in thinking.
    """

    text: str
    removed: bool = False
    begins_inside: bool = False
    ends_inside: bool = False


def without_thinking(text: str) -> Kept:
    """The text without what stands between the tags.

    A closing tag without an opening one makes everything before it thinking; an opening tag
    without any closing one, everything behind it. Of tags that do not pair up, the last closing
    one ends the thinking: a model may well name the tag while it thinks.

    >>> without_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> without_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    """
    tags = list(_TAG.finditer(text))
    if not tags:
        return Kept(text=text)
    kept: list[str] = []
    depth, at, closed = 0, 0, True
    for tag in tags:
        is_closing = bool(tag[1])
        if is_closing and not depth:
            kept.clear()
        elif not is_closing and not depth:
            kept.append(text[at : tag.start()])
        closed = is_closing or (closed and depth > 0)
        depth = max(depth - 1, 0) if is_closing else depth + 1
        at = tag.end() if is_closing else at
    if closed:
        kept.append(_TAG.split(text[at:], maxsplit=1)[0])  # behind the last closing tag
    left = "".join(kept).strip()
    return Kept(text=left, removed=True, begins_inside=bool(tags[0][1]), ends_inside=not closed)


def segments_without_thinking(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], bool]:
    """The segments without thinking in their texts, and whether there was any.

    Each text is read by itself. Where one ends in thinking and a later one begins in it, the
    texts between are thinking as well; images stay.
    """
    left = list(segments)
    opened_at: int | None = None
    removed = False
    for i, segment in enumerate(segments):
        kept = without_thinking(segment.text or "")
        if not kept.removed:
            continue
        if kept.begins_inside and opened_at is not None:
            for between in range(opened_at + 1, i):
                left[between] = replace(left[between], text=None)
        left[i] = replace(segment, text=kept.text or None)
        opened_at = i if kept.ends_inside else None
        removed = True
    return tuple(left), removed
