"""Draws the benchmark in this folder: ``python make.py`` writes pictures, samples and answers.

There are twelve pictures of six shapes, one of which differs in colour, shape or size. The answers
are made up: some are the letter, some have words around it, one is wrong, one names two letters,
one is missing.
"""

from __future__ import annotations

import json
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).resolve().parent
LETTERS = "ABCDEF"
SIDE = 60  # pixels of a shape's square; its letter is below it
COLOURS = ("#c0392b", "#27ae60", "#2980b9", "#f1c40f")
SHAPES = ("circle", "square", "triangle")
CATEGORIES = ("colour", "shape", "size")
GOLD = "CAFEBDDFBCAE"

ANSWERS = {
    "00": "C",
    "01": "A",
    "02": "F",
    "03": "The odd one out is E.",
    "04": "B",
    "05": "d",
    "06": "A circle among squares: that is D.",
    "07": "Either E or F.",
    "08": "B",
    "09": "A",
    "10": "**A**",
}  # the last sample has none


def draw(draw_on: ImageDraw.ImageDraw, shape: str, left: int, radius: int, colour: str) -> None:
    """One shape, in the middle of its square."""
    x, y = left + SIDE // 2, SIDE // 2
    box = (x - radius, y - radius, x + radius, y + radius)
    if shape == "circle":
        draw_on.ellipse(box, fill=colour)
    elif shape == "square":
        draw_on.rectangle(box, fill=colour)
    else:
        corners = ((x, y - radius), (x - radius, y + radius), (x + radius, y + radius))
        draw_on.polygon(corners, fill=colour)


def picture(number: int) -> Image.Image:
    """The six shapes of a sample."""
    category = CATEGORIES[number % 3]
    image = Image.new("RGB", (SIDE * len(LETTERS), SIDE + 20), "white")
    draw_on = ImageDraw.Draw(image)
    for place, letter in enumerate(LETTERS):
        odd = letter == GOLD[number]
        colour = COLOURS[(number + (odd and category == "colour")) % len(COLOURS)]
        shape = SHAPES[(number + (odd and category == "shape")) % len(SHAPES)]
        radius = 12 if odd and category == "size" else 22
        draw(draw_on, shape, SIDE * place, radius, colour)
        middle = (SIDE * place + SIDE // 2, SIDE + 8)
        draw_on.text(middle, letter, fill="black", font=ImageFont.load_default(16), anchor="mm")
    return image


def main(folder: Path = HERE) -> None:
    """Write everything."""
    package = folder / "odd_one_out"
    tasks = package / "task_yamls" / "odd_one_out"
    for made in (package / "images", tasks):
        made.mkdir(parents=True, exist_ok=True)
    samples = [
        {"id": f"{number:02}", "category": CATEGORIES[number % 3], "gold": gold}
        for number, gold in enumerate(GOLD)
    ]
    for number, sample in enumerate(samples):
        picture(number).save(package / "images" / f"{sample['id']}.png", optimize=True)
    for path, content in ((tasks / "samples.json", samples), (folder / "answers.json", ANSWERS)):
        path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
