"""For models that answer with text and images: the form that is understood best."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from mmie_tasks.answers.saved import encodable


def as_answer(parts: Iterable[str | Path]) -> str:
    r"""Texts and image files, in order, as the JSON text a model should return.

    Args:
        parts: A string is words; a `Path` is an image. A relative path is looked for in the
            working directory and the folders of ``MMIE_OUTPUT_ROOT``.

    >>> as_answer(["Cut.", Path("1.png")])
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png"}]}'
    """
    content = [
        {"type": "image", "path": str(part)}
        if isinstance(part, Path)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return encodable(json.dumps({"content": content}, ensure_ascii=False))
