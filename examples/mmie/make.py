"""Writes the example MMIE data; a script of this repository, not an example of use.

``python make.py`` rewrites the files in this folder.

The layouts are the official ones; images, questions, answers, judge prompts and replies are ours.
MSR-2 has two images in its question; MSR-3 has five, and the official script leaves it out
silently. The made-up model answers in many shapes; its images are outlines, unlike those of the
gold answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from content import ANSWERS, PROMPTS, REPLIES, SAMPLES, Part
from PIL import Image, ImageDraw

HERE = Path(__file__).resolve().parent
JUDGE = "judge:made_up|model:made-up"
SIZE = (96, 96)  # pixels
RED, GREEN, BLUE, YELLOW, BROWN, GREY = (
    *("#c0392b", "#27ae60", "#2980b9"),
    *("#f1c40f", "#8d5524", "#95a5a6"),
)

Json = dict[str, Any]
Shape = tuple[str, tuple[int, ...], str]  # kind of drawing, coordinates in pixels, colour


def dots(count: int) -> tuple[Shape, ...]:
    """Red discs, three per row."""
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
    """Each text with the file of its image, which is empty without one."""
    segments = ((part, "") if isinstance(part, str) else part for part in parts)
    return [(text, name and f"images/{name}.png") for text, name in segments]


def official_form(parts: Iterable[Part]) -> list[Json]:
    """The official form of questions and answers."""
    return [{"text": text or None, "image": image or None} for text, image in pairs(parts)]


def with_placeholders(parts: Iterable[Part]) -> Json:
    """One text with image placeholders, as lmms-eval's image models return it."""
    segments = pairs(parts)
    text = " ".join(f"{text} <image>" for text, _ in segments)
    return {"text": text, "images": [image for _, image in segments]}


def as_chat(parts: Iterable[Part]) -> str:
    """JSON as a text, as a chat model can return it."""
    content: list[Json] = []
    for text, image in pairs(parts):
        content += [{"type": "text", "text": text}, {"type": "image", "path": image}]
    return json.dumps({"content": content})


def as_markdown(parts: Iterable[Part]) -> str:
    """Markdown with text and images."""
    return "\n\n".join(f"{text}\n\n![what to draw]({image})" for text, image in pairs(parts))


def as_text(parts: Iterable[Part]) -> str:
    """Plain text, for an answer without images."""
    return " ".join(text for text, _ in pairs(parts))


SHAPES: dict[str, Callable[[Iterable[Part]], Any]] = {
    "SA-1": official_form,
    "SA-2": with_placeholders,
    "SA-3": as_chat,
    "PBL-1": as_markdown,
    "PBL-2": official_form,
    "PBL-3": lambda _: None,
    "PBL-4": as_chat,
    "MSR-1": as_text,
    "MSR-2": official_form,
    "MSR-3": as_text,
    "MSR-4": as_text,
}


def rows() -> list[Json]:
    """The samples, with the keys of the dataset, which spells ``catagory`` so."""
    return [
        {
            "id": sample_id,
            "catagory": LABELS[sample_id.partition("-")[0]],
            "field": field,
            "subfield": subfield,
            "conversations": [
                {"from": "human", "content": official_form(question)},
                {"from": "gpt", "content": official_form(gold)},
            ],
        }
        for sample_id, field, subfield, question, gold in SAMPLES
    ]


def answers() -> list[Json]:
    """The answers, each in the shape that `SHAPES` names."""
    return [{"id": name, "answer": shape(ANSWERS[name])} for name, shape in SHAPES.items()]


def draw(path: Path) -> None:
    """Draw the image that a file is named after; outlines only for ``drawn-`` files."""
    name = path.stem.removeprefix("drawn-")
    image = Image.new("RGB", SIZE, "white")
    canvas = ImageDraw.Draw(image)
    for kind, coordinates, colour in PICTURES[name]:
        shape_style = {"fill": colour} if name == path.stem else {"outline": "black", "width": 2}
        style = {"fill": colour, "width": 3} if kind == "line" else shape_style
        corners, angles = (
            (coordinates[:4], coordinates[4:]) if kind == "chord" else (coordinates, ())
        )
        getattr(canvas, kind)(corners, *angles, **style)
    image.save(path)


def write(path: Path, content: object) -> None:
    """Write indented JSON and every image that it names."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")
    for image in sorted(set(re.findall(r"images/[\w-]+\.png", text))):
        (path.parent / "images").mkdir(exist_ok=True)
        draw(path.parent / image)


def replies(folder: Path) -> list[str]:
    """The lines of the recording: the reply to each answer, with its request's key."""
    from mmie_tasks.answers.saved import read_answers
    from mmie_tasks.benchmarks.mmie.data import dataset
    from mmie_tasks.benchmarks.mmie.request import prepared
    from mmie_tasks.benchmarks.mmie.sample import MmieSample
    from mmie_tasks.benchmarks.mmie.settings import MmieSettings
    from mmie_tasks.benchmarks.model_answers import add_answer_folder
    from mmie_tasks.extend import JudgeReply
    from mmie_tasks.judges.cache_file import CachedReply, export_line
    from mmie_tasks.judges.content import content_key

    add_answer_folder(folder / "answers")
    settings = MmieSettings(prompts=folder / "prompts.json")
    saved = read_answers([folder / "answers"]).answers
    answer_of = {answer.id: answer.answer for answer in saved}
    lines = []
    for doc in dataset("all", {"MMIE_DATA": str(folder / "data")}):
        if doc["id"] not in REPLIES:
            continue
        asked = prepared(MmieSample.from_doc(doc), [answer_of[doc["id"]]], settings)
        if asked.request is None:
            raise ValueError(f"{doc['id']} is not judged: {asked.record.official.detail}")
        recorded = CachedReply(
            signature=JUDGE,
            request_key=content_key(asked.request),
            reply=JudgeReply(text=REPLIES[doc["id"]], model="made-up"),
            time_s=0,
        )
        lines.append(export_line(recorded))
    return lines


def main(folder: Path = HERE) -> None:
    """Write everything."""
    write(folder / "data" / "data.json", rows())
    write(folder / "answers" / "answers.json", answers())
    write(folder / "prompts.json", PROMPTS)
    (folder / "replies.jsonl").write_text("".join(replies(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
