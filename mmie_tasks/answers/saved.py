"""One saved answer, and how a value found in a file becomes one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mmie_tasks.answers.sentinels import MISSING, NOT_TEXT
from mmie_tasks.errors import DataBroken
from mmie_tasks.sources.images import inside

Answer = str | tuple[str, ...]
"""What the tested model said; one text a round where there were several."""

Format = Literal[
    "lmms-eval sample log",
    "lmms-eval cache log",
    "MileBench pred.json",
    "MIA-Bench answers",
    "id and answer",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedAnswer:
    """An answer, where it was read, and whatever says which sample it belongs to."""

    answer: Answer
    format: Format
    file: str
    place: str  # within the file: "line 3"
    ids: tuple[str, ...] = ()  # the best first
    task: str | None = None  # logs of the runner only, like all that follows
    doc_id: int | None = None
    input: str | None = None
    input_hash: str | None = None  # of the text the model was sent; cache logs have no text
    target: str | None = None

    @property
    def where(self) -> str:
        """File and place, for messages."""
        return f"{self.file}, {self.place}"


def as_answer(value: object) -> Answer:
    """Any JSON value as an answer. Nothing is opened: image paths stay text.

    MMIE's list of ``{text, image}`` parts (``data.json`` of Lillianwei-h/MMIE at eb0fd6e) becomes
    the JSON text ``{"content": [...]}``; a list of texts is one text a round; null becomes
    `MISSING`; what is neither becomes `NOT_TEXT` and its JSON.

    >>> as_answer([{"text": "Cut.", "image": None}, {"text": "", "image": "images/7.png"}])
    '{"content": [{"text": "Cut.", "image": null}, {"text": "", "image": "images/7.png"}]}'
    >>> as_answer(["first", "second"])
    ('first', 'second')
    >>> as_answer(3.5)
    '[PREDICTIONS_NOT_TEXT] 3.5'
    """
    if value is None:
        return MISSING
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, list) and value:
        if all(isinstance(turn, str) for turn in value):
            turns = tuple(encodable(turn) for turn in value)
            return turns[0] if len(turns) == 1 else turns
        if all(_is_part(part) for part in value):
            return _json({"content": value})
    if _is_interleaved(value):
        return _json(value)
    return f"{NOT_TEXT} {_json(value)}"


def beside(value: object, folder: Path) -> object:
    """The value with every relative image path in it that names a file below `folder` made whole.

    An answers file is moved about with its images, and the run that reads it starts elsewhere.
    MMIE's ``{text, image}`` parts and lists of ``images`` are looked at; nothing is opened.
    """
    match value:
        case list():
            return [beside(part, folder) for part in value]
        case {"image": str(image), **rest} if _is_part(value):
            return {**rest, "image": _whole(image, folder)}
        case {"images": list(images), **rest}:
            whole = [_whole(each, folder) if isinstance(each, str) else each for each in images]
            return {**rest, "images": whole}
        case {"content": list(parts), **rest}:
            return {**rest, "content": beside(parts, folder)}
    return value


def _whole(image: str, folder: Path) -> str:
    try:
        path = inside(folder, image)
        return str(path.absolute()) if path.is_file() else image
    except (DataBroken, OSError, ValueError):  # it leaves the folder, or can be no path
        return image


def encodable(text: str) -> str:
    r"""The text with every lone surrogate replaced by U+FFFD.

    Such a text cannot be written as UTF-8; the runner would fail on it when it saves its samples,
    after all the work.

    >>> encodable("a\ud800b") == "a\N{REPLACEMENT CHARACTER}b"
    True
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _is_part(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and value.keys() <= {"text", "image"}


def _is_interleaved(value: object) -> bool:
    """The two JSON objects that stand for an answer with images: parts, or text and images."""
    if not isinstance(value, Mapping):
        return False
    images: object = value.get("images")
    return isinstance(value.get("content"), list) or (
        isinstance(value.get("text"), str)
        and isinstance(images, Sequence)
        and not isinstance(images, str)
    )


def _json(value: object) -> str:
    return encodable(json.dumps(value, ensure_ascii=False))
