"""Small MMIE folders: made-up text, generated pictures.

The samples of `conversations_folder` go round SA, PBL and MSR: ids ``SA-0``, ``PBL-1``, ``MSR-2``,
``SA-3``, ... SA and PBL have a picture in the question and one in each of two gold steps, MSR one
in the question and a gold text. Pictures are ``images/<n>.png``, 32 pixels square, each of a colour
of its own.
"""

import json
from collections.abc import Mapping

from PIL import Image

CATEGORIES = ("SA", "PBL", "MSR")
FIELDS = {"SA": "Literature", "PBL": "Education", "MSR": "Mathematics"}


def segment(text=None, image=None):
    return {"text": text, "image": image}


def conversation(sample_id, question="Why?", gold="So.", **more):
    """A row in the form of the Hub, without a category label."""
    turns = [{"from": "human", "content": question}, {"from": "gpt", "content": gold}]
    return {"id": sample_id, "conversations": turns, **more}


def contents(n):
    """Id, question and gold answer of the first `n` samples."""
    return [_content(i) for i in range(n)]


def conversations_folder(path, n=6):
    """Write `n` samples in the form of the Hub, with their pictures; the folder."""
    rows = []
    for sample_id, question, gold in contents(n):
        category = sample_id.partition("-")[0]
        labels = {"catagory": category, "field": FIELDS[category], "subfield": "Made up"}
        rows.append(conversation(sample_id, question, gold, **labels))
    return folder(path, rows)


def folder(path, rows, *, pictures=True):
    """Write any rows as ``data.json``; and every relative picture they name, unless told not to."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "data.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    for number, name in enumerate(named_images(rows)) if pictures else ():
        draw(path / name, number)
    return path


def named_images(value):
    """Every ``image`` anywhere in a JSON value, once each, in order."""
    if isinstance(value, Mapping):
        image = value.get("image")
        own = [image] if isinstance(image, str) and image else []
        return list(dict.fromkeys([*own, *named_images(list(value.values()))]))
    if isinstance(value, (list, tuple)):
        return list(dict.fromkeys(name for one in value for name in named_images(one)))
    return []


def in_file_order(docs):
    indices = list(docs["index"])
    return docs.select(sorted(range(len(indices)), key=indices.__getitem__))


def draw(path, number=0, side_px=32):
    """A square picture of one colour, which `number` chooses."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (side_px, side_px), f"hsv({number * 137.508 % 360:.3f}, 80%, 90%)").save(path)
    return path


def _content(i):
    category, first = CATEGORIES[i % 3], 3 * i  # at most three pictures each
    question = [segment(f"Tale {i} begins.", f"images/{first}.png")]
    if category == "MSR":
        question.append(segment(f"How much is {i} and 2?"))
        return f"MSR-{i}", question, [segment(str(i + 2))]
    steps = [segment(f"Step {step} of {i}.", f"images/{first + step}.png") for step in (1, 2)]
    return f"{category}-{i}", question, steps
