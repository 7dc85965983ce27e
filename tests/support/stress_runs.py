"""Runs of answers with known faults, and judges that look at known parts of an answer.

The right answer to question n is the word ``w<n>a``, a picture, the word ``w<n>b`` and another
picture; a picture is of one colour that says which it is. Every fifth answer has one wrong word,
every tenth is wrong altogether.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from support.logged_runs import Line, mia_lines, mmie_lines
from support.mia_judge import weights_of
from support.mmie_judge import content_of, gives

Body = dict[str, Any]
Tokens = list[str]


def picture(folder: Path, number: int, position: int) -> str:
    """The picture at a position of the right answer to a question; position 0 is in the
    question.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}-{position}.png"
    if not path.exists():
        Image.new("RGB", (40, 40), (number, position, 9)).save(path)
    return str(path)


def _words(number: int) -> tuple[str, str]:
    if number % 10 == 9:
        return "wrong", "false"
    return f"w{number}a", "wrong" if number % 5 == 3 else f"w{number}b"


def mmie_run(folder: Path, count: int) -> Iterator[Line]:
    """Lines of a log of ``mmie``; all points are 3."""
    for number, line in enumerate(mmie_lines(count, unscored=0)):
        shown = number + 1 if number % 10 == 9 else number  # pictures of another question
        record = line["coverage"]
        record["official"] = record["robust"] = {"points": 3, "reading": "3"}
        record["question"] = [{"text": f"Question {number}?", "image": picture(folder, number, 0)}]
        record["answer"] = [
            {"text": f"{word}.", "image": picture(folder, shown, position)}
            for position, word in enumerate(_words(number), 1)
        ]
        yield line


def mia_run(folder: Path, count: int) -> Iterator[Line]:
    """Lines of a log of ``mia_bench``: the right answer is two lines, the picture is in the
    question.
    """
    for number, line in enumerate(mia_lines(count)):
        line["coverage"] |= {
            "image": picture(folder, number, 0),
            "instruction": f"Question {number}? ",
        }
        yield line | {"input": f"Question {number}?", "filtered_resps": "\n".join(_words(number))}


def seen(body: Body) -> tuple[int, Tokens]:
    """The number of the question, and everything in the request that is a word or a picture of an
    answer.
    """
    text = "".join(
        part if isinstance(part, str) else f" {_named(part)} " for part in content_of(body)
    )
    number = re.search(r"Question (\d+)\?", text)
    assert number
    return int(number[1]), re.findall(r"w\d+[ab]|wrong|false|<[^>]+>", text[number.end() :])


def _named(content: bytes) -> str:
    """``<question,position>`` of a picture, with ``copy`` if it is none of the original files."""
    with Image.open(io.BytesIO(content)) as image:
        number, position, _ = image.convert("RGB").getpixel((image.width // 2, image.height // 2))  # type: ignore[misc]
        return f"<{number},{position}{',copy' if image.info.get('Comment') else ''}>"


def plain(tokens: Tokens) -> Tokens:
    """Without what a fair judge does not care about, and without the question's picture."""
    named = (re.sub(r"<(\d+,\d+)(,copy)?>", r"<\1>", token) for token in tokens)
    return [token for token in named if not re.fullmatch(r"<\d+,0>", token)]


def right_at_their_places(number: int, tokens: Tokens) -> int:
    """0 to 6 points: for words and pictures that stand where they stand in the right answer."""
    right = [f"w{number}a", f"<{number},1>", f"w{number}b", f"<{number},2>"]
    return (0, 1, 3, 4, 6)[
        sum(one == other for one, other in zip(plain(tokens), right, strict=False))
    ]


def right_words(number: int, tokens: Tokens) -> int:
    """0, 3 or 6 points for words that stand where they stand in the right answer, without looking
    at pictures.
    """
    words = [token for token in tokens if not token.startswith("<")]
    return 3 * sum(
        one == other for one, other in zip(words, (f"w{number}a", f"w{number}b"), strict=False)
    )


def right_words_beside_pictures(number: int, tokens: Tokens) -> int:
    """As `right_words`; a word counts where a picture follows, whatever it shows."""
    blurred = [token if not token.startswith("<") else "<>" for token in plain(tokens)]
    return 3 * sum(
        blurred[at : at + 2] == [f"w{number}{mark}", "<>"] for at, mark in ((0, "a"), (2, "b"))
    )


def right_in_any_order(number: int, tokens: Tokens) -> int:
    """0 to 6 points for words and pictures of the right answer, in any order."""
    right = {f"w{number}a", f"<{number},1>", f"w{number}b", f"<{number},2>"}
    return (0, 1, 3, 4, 6)[len(right.intersection(plain(tokens)))]


def constant(_number: int, _tokens: Tokens) -> int:
    return 3


def more_pictures(_number: int, tokens: Tokens) -> int:
    """Two points, and two for every picture."""
    return 2 + 2 * sum(token.startswith("<") for token in plain(tokens))


def brevity(_number: int, tokens: Tokens) -> int:
    """A point less for every word and picture."""
    return 6 - len(plain(tokens))


def copies_are_worse(number: int, tokens: Tokens) -> int:
    """A fair judge but for two points that files cost which are not the original ones."""
    return max(
        0, right_at_their_places(number, tokens) - 2 * any("copy" in token for token in tokens)
    )


def right_with_picture(number: int, tokens: Tokens) -> int:
    """For MIA-Bench: as `right_words`, if the question's picture is the right one; else no
    points.
    """
    return right_words(number, tokens) * any(token.startswith(f"<{number},0") for token in tokens)


def mmie_judge(points: Callable[[int, Tokens], int]) -> Callable[[Body], str]:
    """A judge of MMIE that gives these points, 0 to 6."""
    return lambda body: gives(points(*seen(body)))


def mia_judge(points: Callable[[int, Tokens], int]) -> Callable[[Body], str]:
    """A judge of MIA-Bench that gives this share of six to every component."""

    def says(body: Body) -> str:
        share = points(*seen(body)) / 6
        weights: Sequence[int] = weights_of(body)
        marks = [
            f"score of component {i}: {share * weight:g}/{weight}"
            for i, weight in enumerate(weights, 1)
        ]
        return ", ".join([*marks, f"total score: {share * sum(weights):g}/10"])

    return says
