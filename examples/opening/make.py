"""Writes the example OpenING data; a script of this repository, not an example of use.

``python make.py`` rewrites the files in this folder.

The layouts are the official ones; pictures, questions, answers, prompts and replies are ours. The
answers include steps without a text or a picture, a picture that is lost because JPEG lacks its
mode, and an answer without any step. The replies include a wrapped object, which the official
summary drops, and a fenced one, after which the judge is asked again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw

HERE = Path(__file__).resolve().parent
SIZE = (96, 64)  # pixels
JUDGE = "judge:made_up|model:made-up"

Step = tuple[str, str | None]  # a text, and the colour of its picture

QUESTIONS: dict[str, tuple[str, str, tuple[Step, ...], tuple[Step, ...]]] = {
    # id: topic, task, question, gold answer
    "0101001": (
        "Storybook Creation",
        "Story Writting",
        (("<BEGIN> Tell a story of a red kite in two pictures.", None),),
        (("The kite rises over the field.", "red"), ("At dusk it comes down.", "maroon")),
    ),
    "0301002": (
        "Multimodal Content Completion",
        "Storybook Completion",
        (("<BEGIN> The lamp is off. <image> What happens when the switch is pressed?", "grey"),),
        (("The lamp lights up.", "yellow"),),
    ),
    "0501003": (
        "GUI Navigation",
        "OS GUI Navigation",
        (("Show how to close the window. <BEGIN> <image>", "blue"),),
        (("Move to the cross.", "navy"), ("Press it.", "white"), ("It is closed.", "black")),
    ),
    "1101004": (
        "2D Image Reasoning",
        "Painting Transformation",
        (("<BEGIN> Which colour is missing? <image>", "green"),),
        (("Red is missing.", "red"),),
    ),
    "1402005": (
        "Multimodal Information Recommendation",
        "Product Recommendation",
        (("<BEGIN> Recommend a cup for tea.", None),),
        (("This cup keeps tea warm.", "brown"),),
    ),
    "2001006": (
        "Cooking Tasks",
        "Recipe Generation",
        (
            ("<BEGIN> I have these apples. <image>", "red"),
            ("And this flour. <image> What can I bake?", "white"),
        ),
        (("Cut the apples.", "red"), ("Make a dough.", "wheat"), ("Bake the cake.", "tan")),
    ),
    "2301007": (
        "Embodied-AI Tasks",
        "Autonomous Driving",
        (("<BEGIN> The light turns. <image> What does the car do?", "orange"),),
        (("It stops.", "red"),),
    ),
}

ANSWERS: dict[str, tuple[Step, ...]] = {
    "0101001": (("A red kite lies in the grass. <image>", "red"), ("The wind lifts it.", "blue")),
    "0301002": (("", "yellow"),),
    "0501003": (("Press the cross in the corner.", "navy"), ("It is closed.", None)),
    "1101004": (("Red.", "alpha"),),
    "1402005": (),
    "2001006": (("Cut.", "red"), ("Knead.", "wheat"), ("Bake.", "tan")),
    "2301007": (("The car stops at the line.", "red"),),
}

PROMPTS = {
    "judge": {
        "system": "You grade answers of text and pictures. Give each metric 0 to 10 points.",
        "ending": "\nReply with one JSON object.",
        "function": {
            "name": "grade",
            "description": "Points of an answer.",
            "parameters": {},  # `main` fills it in
        },
    },
    "model": {
        "system": "Answer in text and pictures.",
        "steps": "Answer in {steps} steps of a text and a picture: ",
    },
}

METRICS = (
    *("Correctness", "Image-Text Coherency", "Multi-step Consistency", "Content Quality"),
    *("Human Preference Alignment", "Completeness", "Content Richness"),
)


def points(*scores: object) -> dict[str, object]:
    """A reply's object, with a made-up reason for each metric."""
    return {
        name: {"Score": score, "Justification": "Made up."}
        for name, score in zip(METRICS, scores, strict=True)
    }


# One text, or the first and the second reply to an answer.
REPLIES: dict[str, tuple[str, ...]] = {
    "0101001": (json.dumps(points(9, 8, 9, 8, 9, 9, 7)),),
    "0301002": (json.dumps(points(8, 9, 10, 7, 9, 8, 5)),),
    "0501003": (
        f"```json\n{json.dumps(points(6, 4, 5, 6, 7, 4, 4))}\n```",
        json.dumps(points(6, 4, 5, 6, 7, 4, 3)),
    ),
    "1101004": (json.dumps({"scores": points(7, 2, 6, 5, 7, 6, 3)}),),
    "1402005": (json.dumps(points(0, 0, 0, 0, 1, 0, 0)),),
    "2001006": (json.dumps(points(7, 8, 8, 7, 8, 7, 6)),),
    "2301007": (json.dumps(points(9, 9, 10, 8, 9, 9, 6)),),
}


def picture(colour: str) -> Image.Image:
    """A framed field of a colour; JPEG cannot store ``alpha``."""
    if colour == "alpha":
        return Image.new("RGBA", SIZE, (200, 40, 40, 128))
    image = Image.new("RGB", SIZE, colour)
    ImageDraw.Draw(image).rectangle((4, 4, SIZE[0] - 5, SIZE[1] - 5), outline="black", width=2)
    return image


def steps(
    content: Sequence[Step], folder: Path, reference: str, name: str
) -> list[dict[str, str | None]]:
    """Write the pictures of steps to a folder; returns the steps in the official form.

    Args:
        content: The steps.
        folder: The folder of the pictures.
        reference: What precedes a picture's name in the data.
        name: A picture's name, with ``{}`` for its number.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written: list[dict[str, str | None]] = []
    for number, (text, colour) in enumerate(content):
        file = name.format(number)
        if colour:
            picture(colour).save(folder / file, "PNG" if colour == "alpha" else None)
        written.append({"text": text, "image": f"{reference}{file}" if colour else None})
    return written


def write_data(folder: Path) -> None:
    """Write ``test_data.jsonl`` and ``images/``."""
    rows = []
    for uid, (topic, task, question, gold) in QUESTIONS.items():
        images, number = folder / "images" / task, int(uid[-3:])
        reference = f"./images/{task}/"
        turns = [
            {"input": steps(question, images, reference, f"{number}-i-{{}}.jpg")},
            {"output": steps(gold, images, reference, f"{number}-o-{{}}.jpg")},
        ]
        row = {"total_uid": uid, "meta_task_id": str(int(uid[:2])), "meta_task_name": topic}
        row |= {"subtask_id": str(int(uid[2:4])), "subtask_name": task, "data_id": str(number)}
        rows.append(json.dumps({**row, "conversations": turns}))
    (folder / "test_data.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")


def write_answers(folder: Path) -> None:
    """Write an official folder of answers: files with either ending."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, (uid, content) in enumerate(ANSWERS.items()):
        output = steps(content, folder, f"./{folder.name}/", f"{uid}-o-{{}}.jpg")
        question = [{"text": text, "image": None} for text, _ in QUESTIONS[uid][2]]
        answer = {"conversations": [{"input": question}, {"output": output}]}
        text = json.dumps(answer, indent=4)
        ending = "jsonl" if number % 2 else "json"
        (folder / f"{uid}.{ending}").write_text(text, encoding="utf-8")


def replies(folder: Path) -> list[str]:
    """The lines of the recording: the replies to each answer, with their requests' keys."""
    from dataclasses import replace

    from mmie_tasks.answers.saved import read_answers
    from mmie_tasks.benchmarks.opening.data import dataset
    from mmie_tasks.benchmarks.opening.request import prepared
    from mmie_tasks.benchmarks.opening.sample import OpeningSample
    from mmie_tasks.benchmarks.opening.settings import OpeningSettings
    from mmie_tasks.extend import JudgeReply
    from mmie_tasks.judges.cache_file import CachedReply, export_line
    from mmie_tasks.judges.content import content_key

    os.environ["OPENING_DATA"] = str(folder / "data")
    settings = OpeningSettings(prompts=folder / "prompts.json")
    samples = {doc["id"]: OpeningSample.from_doc(doc) for doc in dataset(os.environ)}
    lines = []
    for saved in read_answers([folder / "answers"]).answers:
        uid = saved.id
        request = prepared(samples[uid], [saved.answer], settings).request
        for attempt, text in enumerate(REPLIES[uid] if request else ()):
            key = content_key(replace(request, attempt=attempt))
            reply = JudgeReply(text=text, model="made-up")
            cached = CachedReply(signature=JUDGE, request_key=key, reply=reply, time_s=0)
            lines.append(export_line(cached))
    return lines


def main(folder: Path = HERE) -> None:
    """Write everything."""
    write_data(folder / "data")
    write_answers(folder / "answers" / "Sketch_output")
    metric = {
        "type": "object",
        "properties": {"Score": {"type": "integer"}, "Justification": {"type": "string"}},
        "required": ["Score", "Justification"],
    }
    parameters = {
        "type": "object",
        "properties": dict.fromkeys(METRICS, metric),
        "required": list(METRICS),
    }
    judge = PROMPTS["judge"]
    function = {**judge["function"], "parameters": parameters}  # type: ignore[dict-item]
    prompts = {**PROMPTS, "judge": {**judge, "function": function}}
    (folder / "prompts.json").write_text(json.dumps(prompts, indent=1) + "\n", encoding="utf-8")
    (folder / "replies.jsonl").write_text("".join(replies(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
