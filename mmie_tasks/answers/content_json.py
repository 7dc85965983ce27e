"""Writes an answer of texts and images as JSON: an object with the parts in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment


def content_json(
    segments: Iterable[Segment],
    *,
    has_prompts: bool = False,
    more_parts: Iterable[Mapping[str, object]] = (),
    fields: Mapping[str, object] | None = None,
) -> str:
    """Write segments as the parts of an answer; a segment with a text and an image is two parts.

    `more_parts` follow the parts of the segments; `fields` follow ``content``.

    >>> content_json([Segment(image="1.png", prompt="scissors")], has_prompts=True)
    '{"content": [{"type": "image", "path": "1.png", "prompt": "scissors"}]}'
    """
    content: list[Mapping[str, object]] = []
    for segment in segments:
        if segment.text is not None:
            content.append({"type": "text", "text": segment.text})
        if segment.image is not None:
            prompt = {"prompt": segment.prompt} if has_prompts else {}
            content.append({"type": "image", "path": segment.image, **prompt})
    return json_text({"content": [*content, *more_parts], **(fields or {})})


def json_text(value: object) -> str:
    """JSON that can be written as UTF-8."""
    return replace_surrogates(json.dumps(value, ensure_ascii=False))


def write_answer(content: Iterable[str | Path]) -> str:
    r"""Write texts and image files, in order, as the JSON text that a model should return.

    A string is a text, a `Path` is an image. A relative path is resolved against the working
    directory and the folders of the run.

    >>> write_answer(["Cut.", Path("1.png")])
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png"}]}'
    """
    return content_json(
        Segment(image=str(part)) if isinstance(part, Path) else Segment(text=part)
        for part in content
    )
