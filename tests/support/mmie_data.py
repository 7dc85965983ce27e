"""Small MMIE folders: made-up text, generated pictures.

The samples of `conversations_folder` go round SA, PBL and MSR: ids ``SA-0``, ``PBL-1``, ``MSR-2``,
``SA-3``, ... SA and PBL have a picture in the question and one in each of two gold steps, MSR one
in the question and a gold text. Pictures are ``images/<n>.png``, 32 pixels square, each of a colour
of its own.
"""

from __future__ import annotations

import colorsys
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
from PIL import Image

CATEGORIES = ("SA", "PBL", "MSR")
FIELDS = {"SA": "Literature", "PBL": "Education", "MSR": "Mathematics"}

Row = dict[str, Any]
Segment = dict[str, "str | None"]


def segment(text: str | None = None, image: str | None = None) -> Segment:
    return {"text": text, "image": image}


def conversation(
    sample_id: str, question: object = "Why?", gold: object = "So.", **more: object
) -> Row:
    """A row in the form of the Hub, without a category label."""
    turns = [{"from": "human", "content": question}, {"from": "gpt", "content": gold}]
    return {"id": sample_id, "conversations": turns, **more}


def contents(n: int) -> list[tuple[str, list[Segment], list[Segment]]]:
    """Id, question and gold answer of the first `n` samples."""
    return [_content(i) for i in range(n)]


def conversations_folder(path: Path, n: int = 6) -> Path:
    """Write `n` samples in the form of the Hub, with their pictures; the folder."""
    rows = []
    for sample_id, question, gold in contents(n):
        category = sample_id.partition("-")[0]
        labels = {"catagory": category, "field": FIELDS[category], "subfield": "Made up"}
        rows.append(conversation(sample_id, question, gold, **labels))
    return folder(path, rows)


def folder(path: Path, rows: Sequence[object], *, pictures: bool = True) -> Path:
    """Write any rows as ``data.json``; and every relative picture they name, unless told not to."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "data.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for number, name in enumerate(named_images(rows)) if pictures else ():
        draw(path / name, number)
    return path


def named_images(value: object) -> list[str]:
    """Every ``image`` anywhere in a JSON value, once each, in order."""
    if isinstance(value, Mapping):
        image = value.get("image")
        own = [image] if isinstance(image, str) and image else []
        return list(dict.fromkeys([*own, *named_images(list(value.values()))]))
    if isinstance(value, (list, tuple)):
        return list(dict.fromkeys(name for one in value for name in named_images(one)))
    return []


def in_file_order(docs: datasets.Dataset) -> datasets.Dataset:
    """The samples of a task in the order of its data file."""
    indices = list(docs["index"])
    return docs.select(sorted(range(len(indices)), key=indices.__getitem__))


def draw(path: Path, number: int = 0, side_px: int = 32) -> Path:
    """A square picture of one colour, which `number` chooses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rgb = colorsys.hsv_to_rgb(number * 0.381966 % 1, 0.8, 0.9)
    colour = (int(rgb[0] * 255), int(rgb[1] * 255), int(rgb[2] * 255))
    Image.new("RGB", (side_px, side_px), colour).save(path)
    return path


def _content(i: int) -> tuple[str, list[Segment], list[Segment]]:
    category, first = CATEGORIES[i % 3], 3 * i  # at most three pictures each
    question = [segment(f"Tale {i} begins.", f"images/{first}.png")]
    if category == "MSR":
        question.append(segment(f"How much is {i} and 2?"))
        return f"MSR-{i}", question, [segment(str(i + 2))]
    steps = [segment(f"Step {step} of {i}.", f"images/{first + step}.png") for step in (1, 2)]
    return f"{category}-{i}", question, steps
