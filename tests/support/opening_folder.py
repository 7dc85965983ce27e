"""A small folder in OpenING's layout, and judges that compare its answers or give points to
them.
"""

from __future__ import annotations

import base64
import io
import json
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from support.mmie_judge import content_of, gives

QUALITY = "quality "
"""Before the digit in an answer that says how good it is: people name the better one."""


def write_opening(
    folder: Path,
    samples: int = 12,
    quality_in: Literal["text", "pictures"] = "text",
    fewest_pictures: int = 0,
) -> Path:
    """A folder of `samples` questions, each with one pair of answers; half of the winners are A.

    The answer of model `a` to question n has n modulo 3 pictures more than the fewest, that of `b`
    one more. Every picture has bytes of its own. The longer text is A's in half of the pairs, and
    in half of those that A wins.
    """
    rows = []
    for number in range(samples):
        data_id = f"{number % 2 + 1:02}01{number:03}"
        a_is_better, a_is_longer = number % 4 < 2, number % 2 == 0
        fewer = number % 3 + fewest_pictures
        for model, is_better, is_longer, pictures in (
            ("a", a_is_better, a_is_longer, fewer),
            ("b", not a_is_better, not a_is_longer, fewer + 1),
        ):
            target = folder / "gen_outputs" / f"{model}_output"
            target.mkdir(parents=True, exist_ok=True)
            names = [f"{data_id}-o-{index}.jpg" for index in range(pictures)]
            quality = f"{QUALITY}{6 if is_better else 3}"
            for name in names:
                mark = quality if quality_in == "pictures" else ""
                (target / name).write_bytes(picture(f"{model} {name} {mark}"))
            text = (quality if quality_in == "text" else "the answer") + (
                " in more words" if is_longer else ""
            )
            output = [
                {"text": text, "image": None},
                *({"text": "", "image": f"./{name}"} for name in names),
            ]
            conversations = [
                {"input": [{"text": f"question {data_id}", "image": None}]},
                {"output": output},
            ]
            (target / f"{data_id}.json").write_text(json.dumps({"conversations": conversations}))
        models = {f"model_{side}": {"id": 0, "name": side.lower()} for side in "AB"}
        rows.append({"data_id": data_id, **models, "winner": "A" if a_is_better else "B"})
    verdicts = folder / "Interleaved_Arena" / "judge_modelAB_results.json"
    verdicts.parent.mkdir(parents=True)
    verdicts.write_text(json.dumps(rows))
    return folder


def picture(name: str) -> bytes:
    """A JPEG file, different for every name by bytes behind the image, which re-encoding would
    lose.
    """
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
        """The digit behind `QUALITY`, in the text or in every picture."""
        contents = [
            self.text,
            *(base64.b64decode(uri.partition(",")[2]).decode("latin-1") for uri in self.pictures),
        ]
        digits = re.findall(rf"{QUALITY}(\d)", "".join(contents))
        return int(digits[0])

    @property
    def quality_of_text(self) -> int:
        """The digit behind `QUALITY` in the text; 4 without one."""
        return replace(self, pictures=()).quality if QUALITY in self.text else 4


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
    contents = re.findall(
        r"\[answer \d ([0-9a-f]{12})\](.*?)\[end of answer \d \1\]", text, re.DOTALL
    )
    first, second = (
        ShownAnswer(
            re.sub(r"<\d+>", "", content),
            tuple(uris[int(index)] for index in re.findall(r"<(\d+)>", content)),
        )
        for _, content in contents
    )
    return first, second


def judged_answer(body: dict[str, Any]) -> ShownAnswer:
    """The answer in a chat request for points, in the templates of `support.mmie_judge`."""
    parts = content_of(body)
    text = "".join(part for part in parts if isinstance(part, str)).partition("### Answer\n")[2]
    uris = [
        f"data:image/jpeg;base64,{base64.b64encode(part).decode()}"
        for part in parts
        if isinstance(part, bytes)
    ]
    return ShownAnswer(re.sub(r"Image-\d: |### Feedback|\n", "", text), tuple(uris))


Key = Callable[[ShownAnswer], int]
JudgeFunction = Callable[[dict[str, Any]], str]


def judge_by(key: Key) -> JudgeFunction:
    """A judge that names the answer with the higher key, or neither."""

    def says(body: dict[str, Any]) -> str:
        first, second = map(key, shown_answers(body))
        word = "first" if first > second else "second" if first < second else "undecided"
        return f"My reasons.\n\n**Verdict:** {word}"

    return says


def points_by(key: Key) -> JudgeFunction:
    """A judge that gives the key as points, at most 6, as MMIE's judge writes them."""
    return lambda body: gives(min(6, key(judged_answer(body))))


def right_in(share: float, judge: JudgeFunction) -> JudgeFunction:
    """A fair judge that is right on a random `share` of the questions, and wrong on the others."""
    wrong = {"first": "second", "second": "first", "Score\n6": "Score\n3", "Score\n3": "Score\n6"}

    def says(body: dict[str, Any]) -> str:
        match = re.search(r"question (\d+)", json.dumps(body))
        assert match
        is_right = random.Random(match[1]).random() < share  # noqa: S311 - no secret
        reply = judge(body)
        return reply if is_right else re.sub("|".join(wrong), lambda word: wrong[word[0]], reply)

    return says


FAIR = judge_by(lambda answer: answer.quality)
MORE_PICTURES = judge_by(lambda answer: len(answer.pictures))
ALWAYS_FIRST = "Answer 1, of course.\nVerdict: first"
