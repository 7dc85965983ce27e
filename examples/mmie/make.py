"""Draws the little MMIE in this folder: ``python make.py`` writes all that is beside it.

The layouts are the official ones; pictures, questions, answers, the judge's instructions and its
replies are ours. MSR-2 has two pictures in its question; MSR-3 has five, and the official script
leaves it out without a word. What the made-up model answered has many shapes, and its pictures are
outlines, so that nobody takes them for those of the gold answers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from content import PROMPTS, REPLIES, SAID, SAMPLES, Part
from PIL import Image, ImageDraw

HERE = Path(__file__).resolve().parent
JUDGE = "judge:made_up|model:nobody"
SIZE = (96, 96)  # pixels
RED, GREEN, BLUE, YELLOW, BROWN, GREY = (
    *("#c0392b", "#27ae60", "#2980b9"),
    *("#f1c40f", "#8d5524", "#95a5a6"),
)

Json = dict[str, Any]
Shape = tuple[str, tuple[int, ...], str]  # what is drawn, from where to where, and its colour


def dots(count: int) -> tuple[Shape, ...]:
    """So many red discs, three in a row."""
    corners = [(8 + 30 * (i % 3), 8 + 30 * (i // 3)) for i in range(count)]
    return tuple(("ellipse", (x, y, x + 20, y + 20), RED) for x, y in corners)


SKY: Shape = ("rectangle", (0, 0, 96, 96), "#d6eaf8")
MEADOW: Shape = ("rectangle", (0, 70, 96, 96), GREEN)
SEA: Shape = ("rectangle", (0, 64, 96, 96), BLUE)
WALLS: Shape = ("rectangle", (24, 44, 72, 84), YELLOW)
ROOF: Shape = ("polygon", (18, 44, 48, 16, 78, 44), RED)
BATTERY: Shape = ("rectangle", (12, 70, 40, 84), GREY)
WIRE: Shape = ("line", (40, 77, 64, 77, 64, 46), BROWN)
BOWL: Shape = ("chord", (16, 30, 80, 90, 0, 180), BLUE)

PICTURES: dict[str, tuple[Shape, ...]] = {
    "kite-in-grass": (SKY, MEADOW, ("polygon", (30, 72, 44, 62, 58, 72, 44, 90), RED)),
    "kite-flies": (SKY, MEADOW, ("polygon", (56, 18, 68, 10, 80, 18, 68, 34), RED)),
    "kite-in-tree": (
        *(SKY, MEADOW, ("rectangle", (44, 48, 52, 80), BROWN)),
        *(("ellipse", (26, 12, 70, 54), GREEN), ("polygon", (40, 30, 50, 22, 60, 30, 50, 46), RED)),
    ),
    "snow": (SKY, ("ellipse", (30, 56, 66, 92), "white")),
    "snowman": (
        *(SKY, ("ellipse", (30, 50, 66, 92), "white"), ("ellipse", (36, 24, 60, 50), "white")),
        ("rectangle", (38, 10, 58, 26), GREY),
    ),
    "puddle": (SKY, ("ellipse", (16, 78, 80, 92), BLUE), ("rectangle", (38, 68, 58, 84), GREY)),
    "harbour": (SKY, SEA, ("polygon", (20, 58, 60, 58, 52, 70, 28, 70), RED)),
    "island": (SKY, SEA, ("chord", (50, 48, 96, 80, 180, 360), YELLOW)),
    "night": (("rectangle", (0, 0, 96, 96), "#1b2631"), SEA, ("ellipse", (64, 10, 84, 30), YELLOW)),
    "walls": (WALLS,),
    "roof": (WALLS, ROOF),
    "door": (WALLS, ROOF, ("rectangle", (42, 62, 54, 84), BROWN)),
    "battery": (BATTERY,),
    "wire": (BATTERY, WIRE),
    "lamp": (BATTERY, WIRE, ("ellipse", (52, 22, 76, 46), YELLOW)),
    "bowl": (BOWL,),
    "apples": (("ellipse", (26, 40, 46, 60), RED), ("ellipse", (50, 40, 70, 60), GREEN), BOWL),
    **{f"dots-{count}": dots(count) for count in range(1, 7)},
}

LABELS = {
    "SA": "Situational analysis",
    "PBL": "Project-based learning",
    "MSR": "Multi-step reasoning",
}


def pairs(parts: Iterable[Part]) -> list[tuple[str, str]]:
    """Texts and the files of their pictures; no file is empty."""
    both = ((part, "") if isinstance(part, str) else part for part in parts)
    return [(text, name and f"images/{name}.png") for text, name in both]


def listed(parts: Iterable[Part]) -> list[Json]:
    """The official form of questions and answers."""
    return [{"text": text or None, "image": image or None} for text, image in pairs(parts)]


def with_places(parts: Iterable[Part]) -> Json:
    """One text that says where the pictures belong, as image models of lmms-eval return it."""
    both = pairs(parts)
    text = " ".join(f"{text} <image>" for text, _ in both)
    return {"text": text, "images": [image for _, image in both]}


def as_chat(parts: Iterable[Part]) -> str:
    """JSON as a text, which is what a chat model can return."""
    content: list[Json] = []
    for text, image in pairs(parts):
        content += [{"type": "text", "text": text}, {"type": "image", "path": image}]
    return json.dumps({"content": content})


def as_markdown(parts: Iterable[Part]) -> str:
    """Words and pictures in one text."""
    return "\n\n".join(f"{text}\n\n![what to draw]({image})" for text, image in pairs(parts))


def as_words(parts: Iterable[Part]) -> str:
    """A text, of an answer without pictures."""
    return " ".join(text for text, _ in pairs(parts))


SHAPES: dict[str, Callable[[Iterable[Part]], Any]] = {
    "SA-1": listed,
    "SA-2": with_places,
    "SA-3": as_chat,
    "PBL-1": as_markdown,
    "PBL-2": listed,
    "PBL-3": lambda _: None,
    "PBL-4": as_chat,
    "MSR-1": as_words,
    "MSR-2": listed,
    "MSR-3": as_words,
    "MSR-4": as_words,
}


def rows() -> list[Json]:
    """The samples, with the keys of the dataset; ``catagory`` is its own spelling."""
    return [
        {
            "id": sample_id,
            "catagory": LABELS[sample_id.partition("-")[0]],
            "field": field,
            "subfield": subfield,
            "conversations": [
                {"from": "human", "content": listed(question)},
                {"from": "gpt", "content": listed(gold)},
            ],
        }
        for sample_id, field, subfield, question, gold in SAMPLES
    ]


def answers() -> list[Json]:
    """The answers, each in its shape."""
    return [{"id": name, "answer": shape(SAID[name])} for name, shape in SHAPES.items()]


def judge_input() -> list[Json]:
    """Questions and answers as the official judge reads them: all in the official form."""
    return [
        {
            "id": sample_id,
            "model": "made-up",
            "question": listed(question),
            "answer": listed(SAID[sample_id]),
            "gt_answer": listed(gold),
        }
        for sample_id, _, _, question, gold in SAMPLES
    ]


def draw(path: Path) -> None:
    """The picture a file is named after; of one that the model drew, the outlines."""
    name = path.stem.removeprefix("drawn-")
    image = Image.new("RGB", SIZE, "white")
    canvas = ImageDraw.Draw(image)
    for kind, places, colour in PICTURES[name]:
        filled = {"fill": colour} if name == path.stem else {"outline": "black", "width": 2}
        style = {"fill": colour, "width": 3} if kind == "line" else filled
        corners, angles = (places[:4], places[4:]) if kind == "chord" else (places, ())
        getattr(canvas, kind)(corners, *angles, **style)
    image.save(path)


def write(path: Path, content: object) -> None:
    """JSON, readable, and beside it every picture that it names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    for image in sorted(set(re.findall(r"images/[\w-]+\.png", text))):
        (path.parent / "images").mkdir(exist_ok=True)
        draw(path.parent / image)


def replies(folder: Path) -> list[str]:
    """The lines of the recording: what is said of each answer, under the request's own key."""
    from mmie_tasks.benchmarks.mmie import request as asking
    from mmie_tasks.benchmarks.mmie.data import dataset
    from mmie_tasks.benchmarks.mmie.sample import Sample
    from mmie_tasks.judges.base import JudgeReply, content_key
    from mmie_tasks.judges.cache_store import CachedReply, export_line

    os.environ |= {
        "MMIE_OTHER_PROMPTS": str(folder / "prompts.json"),
        "MMIE_OUTPUT_ROOT": str(folder / "answers"),
    }
    given = {one["id"]: one["answer"] for one in answers()}
    lines = []
    for doc in dataset("all", {"MMIE_DATA": str(folder / "data")}):
        if doc["id"] not in REPLIES:
            continue
        asked = asking.ask(Sample.from_doc(doc), [given[doc["id"]]], "mmie")
        if asked.request is None:
            raise ValueError(f"{doc['id']} is not judged: {asked.detail}")
        recorded = CachedReply(
            signature=JUDGE,
            request_key=content_key(asked.request),
            reply=JudgeReply(text=REPLIES[doc["id"]], model="nobody"),
            time_s=0,
        )
        lines.append(export_line(recorded))
    return lines


def main(folder: Path = HERE) -> None:
    """Write everything."""
    write(folder / "data" / "data.json", rows())
    write(folder / "answers" / "answers.json", answers())
    write(folder / "input" / "data.json", judge_input())
    write(folder / "prompts.json", PROMPTS)
    (folder / "replies.jsonl").write_text("".join(replies(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
