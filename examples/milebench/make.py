"""Writes the example MileBench data; a script of this repository, not an example of use.

``python make.py`` rewrites ``data/`` and ``answers/``.

The layout is the official one; images, questions and answers are ours. Each of the 29 datasets has
two samples of coloured shapes, so that every row of the table appears. ``combined_1_images/`` is
not rewritten; its files have the layout of the official ``data/combine_images.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image, ImageDraw

from mmie_tasks.benchmarks.milebench.sample import DATASETS, REALISTIC, TASK_OF, rule_of

HERE = Path(__file__).resolve().parent
SHAPES = ("circle", "square", "bar", "cross")
COLOURS = {"red": "#c0392b", "green": "#27ae60", "blue": "#2980b9", "orange": "#e67e22"}
OPEN = ("ALFRED", "CLEVR-Change", "IEdit", "Spot-the-Diff", "MMCoQA")
INSTRUCTIONS = ["Look at the shapes and answer.", "Answer the question about these pictures. "]
STYLES = ("{letter}", "{text}", "The answer is {letter}", "**{letter}. {text}**")


def coloured_shape(n: int) -> tuple[str, str]:
    """The n-th coloured shape."""
    return list(COLOURS)[n % 4], SHAPES[(n // 4 + n) % 4]


def picture(n: int) -> Image.Image:
    """The n-th coloured shape on white, 48 x 48 pixels."""
    colour, shape = coloured_shape(n)
    image = Image.new("RGB", (48, 48), "white")
    draw, fill = ImageDraw.Draw(image), COLOURS[colour]
    match shape:
        case "circle":
            draw.ellipse((8, 8, 40, 40), fill=fill)
        case "square":
            draw.rectangle((8, 8, 40, 40), fill=fill)
        case "bar":
            draw.rectangle((4, 20, 44, 28), fill=fill)
        case _:
            draw.line((8, 8, 40, 40), fill=fill, width=7)
            draw.line((40, 8, 8, 40), fill=fill, width=7)
    return image


def sample(dataset: str, i: int, n_images: int) -> dict[str, object]:
    """One annotated sample; its images are numbered from 0 and may repeat."""
    seed = DATASETS.index(dataset) + i
    colour, shape = coloured_shape(seed)
    names = [f"{(seed + k) % 8}.png" for k in range(n_images)]
    placeholders = "".join(f"{{image#{k}}}" for k in range(1, n_images + 1))
    task: dict[str, object] = {"context": f"{placeholders}What is in the first picture?"}
    gold = f"a {colour} {shape}"
    if dataset == "GPR1200":
        options = " ".join(f"Image{k}:{{image#{k}}}" for k in range(1, n_images))
        task["context"] = f"{options}\nAnchor: {{image#{n_images}}}. Which one is like it? "
        task["choice_list"] = [f"image{k}" for k in range(1, n_images)]
        gold = f"image{n_images - 1 if i else 1}"
    elif "Needle" in dataset:
        gold = str(7_100_000 + 1_111 * seed)
        hidden = f" The hidden number is {gold}." if dataset.startswith("Text") else ""
        task["context"] = f"{placeholders}{hidden} What is the hidden number?"
    elif dataset in OPEN:
        task["context"] = f"{placeholders}Describe the first picture."
    else:
        distractors = [" ".join(coloured_shape(seed + k)) for k in (1, 2, 3)]
        choices = [f"a {other}" for other in distractors]
        task["choice_list"] = [*choices[: seed % 4], gold, *choices[seed % 4 :]]
    task["images_path"] = names  # those of temporal datasets are combined in `<id>-0.jpg`
    task["combined_1_images"] = [f"{i}{'-0' * (TASK_OF[dataset][0] == 'T')}.jpg"]
    level = "Few" if n_images < 6 else "Medium" if n_images < 32 else "Many"
    return {
        "sample_id": i,
        "task_instruction_id": i % 2,
        "task_instance": task,
        "response": gold,
        "image_quantity_level": level,
    }


def adversarial(entry: dict[str, object]) -> dict[str, object]:
    """The same sample with its options in reverse."""
    task = dict(entry["task_instance"])  # type: ignore[call-overload]
    if "choice_list" in task:
        task["choice_list"] = task["choice_list"][::-1]
    return {**entry, "task_instance": task}


def answer(dataset: str, entry: dict[str, object]) -> dict[str, object]:
    """A made-up answer: right, wrong, or unreadable for the official scorer."""
    i = int(str(entry["sample_id"]))
    task, gold = entry["task_instance"], str(entry["response"])
    turn = DATASETS.index(dataset) + i
    text = f"I see {gold}." if dataset in OPEN else f"It is **{gold}**" if i else f"It is {gold}."
    choices = task.get("choice_list")  # type: ignore[attr-defined]
    if choices:
        at = (choices.index(gold) + (turn % 3 == 0)) % len(choices)
        text = STYLES[turn % 4].format(letter=chr(65 + at), text=choices[at])
    return {"sample_id": i, "gt_response": gold, "pred_response": text}


def write(path: Path, content: object) -> None:
    """Write indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Write everything."""
    for number, dataset in enumerate(DATASETS):
        entries = [sample(dataset, i, (3, 7, 33)[(number + i) % 3]) for i in range(2)]
        kind = "open-ended" if dataset in OPEN or "Needle" in dataset else "multi-choice"
        rule_of(dataset, kind)  # raises for an unknown dataset
        meta = {
            "dataset": dataset,
            "split": "test",
            "num_sample": len(entries),
            "task_instruction": INSTRUCTIONS,
            "question_type": kind,
        }
        folder = HERE / "data" / dataset
        write(folder / f"{dataset}.json", {"meta_data": meta, "data": entries})
        if TASK_OF[dataset] in REALISTIC:
            shuffled = {"meta_data": meta, "data": [adversarial(entry) for entry in entries]}
            write(folder / f"{dataset}-adv.json", shuffled)
        (folder / "images").mkdir(exist_ok=True)
        for n in range(8):
            picture(n).save(folder / "images" / f"{n}.png", optimize=True)
        write(HERE / "answers" / dataset / "pred.json", [answer(dataset, e) for e in entries])


if __name__ == "__main__":
    main()
