"""Small files in the layouts of OpenING and MMRB2; all words, models and images are ours."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow.parquet
from PIL import Image

from mmie_tasks.quality.judge_exam.verdict_set import Pair, Side

Fields = dict[str, Any]

OPENING_FILE = "Interleaved_Arena/judge_modelAB_results.json"
MMRB2_FILE = "benchmark/interleaved_response_only.json"
MMRB2_REPO = "rl-research/multimodal-rewardbench-2"


def pair(id_: object = 1, winner: Side = "A", **fields: Any) -> Pair:
    """A pair of a question of its own; `fields` are others than the default ones."""
    empty = {"is_tie": False, "votes": (), "models": ("m", "n"), "images": None}
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


# MMRB2


def mmrb2_row(number: int, **more: object) -> Fields:
    """A pair of the repository's file; A has two images, B one."""
    a = [["image", f"{number}_a0.jpg"], ["text", " First. "], ["image", f"{number}_a1.jpg"]]
    return {
        "id": f"pair-{number}",
        "response_a": {"model_name": "red", "response_content": a},
        "response_b": {
            "model_name": "green",
            "response_content": [["text", "One."], ["image", f"{number}_b0.jpg"]],
        },
        "chosen": "A",
        "human_annotations": [1, 4, 6],
        "prompt_source": "isgbench",
        "prompt_metadata": {"id": number, "category": "HowTo"},
        **more,
    }


def mmrb2_file(folder: Path, rows: Iterable[Fields]) -> Path:
    """The layout of MMRB2's repository."""
    write_json(folder / MMRB2_FILE, {"pairs": list(rows)})
    return folder


def built_mmrb2_folder(folder: Path, rows: Iterable[Fields]) -> Path:
    """What ``build_from_hf.py`` writes: questions are there, and so are all images."""
    pairs = []
    for row in rows:
        pair = {**row, "prompt_content": [["image", "input_images/q.png"], ["text", "Go on."]]}
        for name in ("input_images/q.png", *_name_images(pair)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(picture(7))
        pairs.append(pair)
    write_json(folder / "interleaved.json", {"pairs": pairs})
    return folder


def _name_images(pair: Mapping[str, Any]) -> list[str]:
    """Put the images of both answers into ``images``, as the script does."""
    names = []
    for side in ("response_a", "response_b"):
        for part in pair[side]["response_content"]:
            if part[0] == "image":
                part[1] = f"images/{part[1]}"
                names.append(part[1])
    return names


def hub_row(number: int, **more: object) -> Fields:
    """A row of the table on the Hub."""
    return {
        "pair_id": f"pair-{number}",
        "prompt_text": "Continue <image_0> please.",
        "prompt_images": [{"bytes": picture(number, "JPEG"), "path": None}],
        "response_a_text": "<image_0> First. <image_1>",
        "response_a_images": [
            {"bytes": picture(n, "PNG"), "path": None} for n in (10 + number, 50 + number)
        ],
        "response_b_text": "One.",
        "response_b_images": [{"bytes": picture(90 + number, "WEBP"), "path": None}],
        "chosen": "A",
        "prompt_source": "isgbench",
        "response_a_model": "red",
        "response_b_model": "green",
        "human_annotations": "[1, 4, 6]",
        "prompt_metadata": json.dumps({"id": number, "category": "HowTo"}),
        **more,
    }


def hub_table(rows: list[Fields], edit: Callable[[Any], Any] = lambda table: table) -> bytes:
    """A parquet file with the columns of the table on the Hub."""
    images = [datasets.Image()]
    features = {
        name: images if name.endswith("_images") else datasets.Value("string")
        for name in hub_row(0)
    }
    table = datasets.Dataset.from_list(rows, features=datasets.Features(features)).data.table
    content = io.BytesIO()
    pyarrow.parquet.write_table(edit(table), content)
    return content.getvalue()
