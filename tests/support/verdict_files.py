"""Small files in the layout of OpenING; all words, models and images are ours."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from PIL import Image

from mmie_tasks.quality.judge_exam.verdict_set import Pair, Side

Fields = dict[str, Any]

OPENING_FILE = "Interleaved_Arena/judge_modelAB_results.json"


def pair(id_: object = 1, winner: Side = "A", **fields: Any) -> Pair:
    """A pair of a question of its own; `fields` are others than the default ones."""
    empty = {"is_tie": False, "models": ("m", "n"), "images": None}
    text = {"subset": "recipes", "question": ("How?",), "answers": ((), ())}
    own = {"id": str(id_), "sample": f"question {id_}", "winner": winner}
    return Pair(**{**empty, **text, **own, **fields})


def picture(shade: int, image_format: str = "PNG") -> bytes:
    """An image file of 3 x 2 pixels in one colour."""
    content = io.BytesIO()
    Image.new("RGB", (3, 2), (shade, 20, 200)).save(content, image_format)
    return content.getvalue()


def write_json(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


# OpenING


def opening_row(sample: str, a: str, b: str, winner: str | None) -> Fields:
    """A row of people's file, or of a judge's."""
    models = {"model_A": {"id": "1", "name": a}, "model_B": {"id": "2", "name": b}}
    return {"data_id": sample, **models, "winner": winner}


OPENING_ROWS = [
    opening_row("1502046", "Red", "Green", "A"),
    opening_row("1502046", "Blue", "Red", "Tie(B)"),
    opening_row("0301007", "Green", "Red", "Tie(A)"),
]


def opening_folder(folder: Path, rows: Iterable[Fields] = tuple(OPENING_ROWS)) -> Path:
    """The layout of OpenING's repository: each model answers with a text, an image, and a text
    without image.
    """
    rows = list(rows)
    write_json(folder / OPENING_FILE, rows)
    for row in rows:
        for model in (row["model_A"]["name"], row["model_B"]["name"]):
            write_opening_answer(folder, model, row["data_id"])
    return folder


def write_opening_answer(folder: Path, model: str, sample: str) -> Path:
    asked = f"./images/Some Task/{sample}-i-1.jpg"
    drawn = f"./{model}_output/{sample}-o-0.jpg"
    for name in (f"OpenING-benchmark/{asked}", f"gen_outputs/{drawn}"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(len(model), "JPEG"))
    turns = [
        {
            "input": [
                {"image": asked, "text": f"<BEGIN> What is {sample}? <image>"},
                {"image": None, "text": "Draw it."},
            ]
        },
        {
            "output": [
                {"text": f"{model} drew this. <image>", "image": drawn},
                {"text": "Done.", "image": None},
            ]
        },
    ]
    return write_json(
        folder / f"gen_outputs/{model}_output/{sample}.json", {"conversations": turns}
    )
