"""A small folder in OpenING's layout, and judges that compare its answers."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

QUALITY = "quality "
"""Before the digit in an answer that says how good it is: people name the better one."""


def write_opening(folder: Path, samples: int = 12) -> Path:
    """A folder of `samples` questions, each with one pair of answers; half of the winners are A.

    The answer of model `a` to question n has n modulo 3 pictures, that of `b` one more. Every picture has bytes of
    its own.
    """
    rows = []
    for number in range(samples):
        data_id = f"{number % 2 + 1:02}01{number:03}"
        a_is_better = number % 4 < 2
        for model, is_better, pictures in (("a", a_is_better, number % 3), ("b", not a_is_better, number % 3 + 1)):
            target = folder / "gen_outputs" / f"{model}_output"
            target.mkdir(parents=True, exist_ok=True)
            names = [f"{data_id}-o-{index}.jpg" for index in range(pictures)]
            for name in names:
                (target / name).write_bytes(picture(f"{model} {name}"))
            text = f"{QUALITY}{8 if is_better else 3}"
            output = [{"text": text, "image": None}, *({"text": "", "image": f"./{name}"} for name in names)]
            conversations = [{"input": [{"text": f"question {data_id}", "image": None}]}, {"output": output}]
            (target / f"{data_id}.json").write_text(json.dumps({"conversations": conversations}))
        models = {f"model_{side}": {"id": 0, "name": side.lower()} for side in "AB"}
        rows.append({"data_id": data_id, **models, "winner": "A" if a_is_better else "B"})
    verdicts = folder / "Interleaved_Arena" / "judge_modelAB_results.json"
    verdicts.parent.mkdir(parents=True)
    verdicts.write_text(json.dumps(rows))
    return folder


def picture(name: str) -> bytes:
    """A JPEG file, different for every name by bytes behind the image, which re-encoding would lose."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), "white").save(file, "JPEG")
    return file.getvalue() + name.encode()


@dataclass(frozen=True)
class ShownAnswer:
    """An answer as a judge sees it.

    Attributes:
        text: Its texts.
        pictures: The data URIs of its pictures.
    """

    text: str
    pictures: tuple[str, ...]

    @property
    def quality(self) -> int:
        """The digit behind `QUALITY`."""
        match = re.search(rf"{QUALITY}(\d)", self.text)
        assert match
        return int(match[1])


def shown_answers(body: dict[str, Any]) -> tuple[ShownAnswer, ShownAnswer]:
    """The two answers in a chat request that asks for a comparison."""
    uris: list[str] = []
    text = ""
    for part in body["messages"][0]["content"]:
        if part["type"] == "image_url":
            text += f"<{len(uris)}>"
            uris.append(part["image_url"]["url"])
        else:
            text += part["text"]
    contents = re.findall(r"\[answer \d ([0-9a-f]{12})\](.*?)\[end of answer \d \1\]", text, re.DOTALL)
    first, second = (
        ShownAnswer(re.sub(r"<\d+>", "", content), tuple(uris[int(index)] for index in re.findall(r"<(\d+)>", content)))
        for _, content in contents
    )
    return first, second


def judge_by(key: Callable[[ShownAnswer], int]) -> Callable[[dict[str, Any]], str]:
    """A judge that names the answer with the higher key, or neither."""

    def says(body: dict[str, Any]) -> str:
        first, second = map(key, shown_answers(body))
        word = "first" if first > second else "second" if first < second else "undecided"
        return f"My reasons.\n\n**Verdict:** {word}"

    return says


FAIR = judge_by(lambda answer: answer.quality)
MORE_PICTURES = judge_by(lambda answer: len(answer.pictures))
ALWAYS_FIRST = "Answer 1, of course.\nVerdict: first"
