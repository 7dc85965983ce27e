"""OpenING's data, made up: rows, folders, and files in the form of the official scripts."""

import hashlib
import json
from pathlib import Path

from PIL import Image

from mmie_tasks.benchmarks.opening.official import METRICS
from mmie_tasks.hub.pinned_file import Pin

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "opening"
PROMPTS = EXAMPLE / "prompts.json"


SCORER = """
functions = [
    {
        "name": "grade",
        "description": "Grades.",
        "parameters": {"type": "object", "properties": {"B": {}, "A": {}}},
    }
]


def get_gpt4answer(content, texts):
    for text in texts:
        content.append({"type": "text", "text": text})
    content.append({"type": "text", "text": "End."})
"""
GENERATOR = """
def ask(input_text_list, steps):
    input_text_list[0] = f"Use {steps} steps: " + input_text_list[0]
"""


def row(uid="0101001", question=None, gold=None, **fields):
    """A row of the data file; a question and a gold answer are texts with pictures."""
    step = {"text": "<BEGIN> Draw. <image>", "image": None}
    turns = [
        {"input": [step] if question is None else question},
        {"output": [{"text": "Gold.", "image": None}] if gold is None else gold},
    ]
    return {"total_uid": uid, "subtask_name": "Task", "conversations": turns, **fields}


def write_data(folder, *rows):
    folder.mkdir(parents=True, exist_ok=True)
    lines = (line if isinstance(line, str) else json.dumps(line) for line in rows)
    (folder / "test_data.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def pin(path, content):
    """An official file with this content, which cannot be downloaded."""
    return Pin(
        name=path,
        url=f"http://127.0.0.1:9/{path}",
        size_bytes=len(content),
        sha256=hashlib.sha256(content.encode()).hexdigest(),
        local="put there",
    )


def draw(path, mode="RGB", kind=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), "red").convert(mode).save(path, kind)
    return path


def reply(*points, **more):
    """A judge's reply with points for the metrics; one value is that of all."""
    values = points * len(METRICS) if len(points) == 1 else points
    scores = {name: {"Score": score} for name, score in zip(METRICS, values, strict=False)}
    return json.dumps({**scores, **more})
