"""Assembles the request to OpenING's judge and the question to the tested model, as officially.

Source: ``main_evaluate_output_directory`` and ``get_gpt4answer`` of ``GPT_score_A.py`` for the
judge, ``gpt-dalle_generation.py`` for the tested model (LanceZPF/OpenING at 56b663b). Their
sentences are not in this repository: `judge_prompts` reads them from the official files. The rules
of the judge's texts, with their lines:

* T1 (59-65): every text without white space at its ends.
* T2 (440-451): in a question, the marks ``<BEGIN>`` and ``<image>`` are deleted; a usable picture
  adds `_MARK` with its number.
* T3 (456-475): in an answer, ``<image>`` is deleted and ``<BEGIN>`` stays; pictures as in T2.
* T4 (428-475): one count from 0 numbers the usable pictures of question and answer.
* T5 (90): ``INPUT: `` precedes the question.
* T6 (96-99): ``OUTPUT: `` precedes the answer, on a new line.
* T7 (100-101): an answer without steps is the text ``OUTPUT: None``.
* T8 (103-105): an empty text after the first stays a part of the request.
* T9: what a model itself writes in these forms is not changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from mmie_tasks.record.segment import Segment, Segments

MAX_TOKENS = 2000
"""Limit of a reply, in tokens. The official request has none; published replies have up to 2,016
characters.
"""

PICTURE_PX = (512, 512)
"""The size in which the judge gets every picture (``encode_image``, 227-238)."""

BEGIN, IMAGE = "<BEGIN>", "<image>"
"""Marks in the texts of questions: where the question begins, and the place of a picture."""

_MARK = " <IMG_{number}></IMG_{number}>"


def judge_parts(
    question: Sequence[Segment], answer: Sequence[Segment], ending: str
) -> tuple[str | Path, ...]:
    r"""The user's message to the judge: texts and pictures in the official order.

    A step's `Segment.image` is the JPEG that the judge gets; None without a usable picture. The
    question has at least one step; `ending` is the last text.

    >>> judge_parts([Segment("<BEGIN> Draw. ")], [Segment(" A <image>", "a.jpg")], "End.")
    ('INPUT:  Draw.', '\nOUTPUT: A  <IMG_0></IMG_0>', PosixPath('a.jpg'), 'End.')
    """
    numbers = count()

    def steps(segments: Iterable[Segment], *deleted: str) -> list[tuple[str, str | None]]:
        numbered = []
        for segment in segments:
            text = (segment.text or "").strip()
            for mark in deleted:
                text = text.replace(mark, "")
            mark = _MARK.format(number=next(numbers)) if segment.image else ""
            numbered.append((f"{text}{mark}", segment.image))
        return numbered

    asked = steps(question, BEGIN, IMAGE, BEGIN)  # lines 440-451, then 90
    given = steps(answer, IMAGE) or [("None", None)]
    parts: list[str | Path] = []
    for first, turn in (("INPUT: ", asked), ("\nOUTPUT: ", given)):
        for i, (text, image) in enumerate(turn):
            parts.append(text if i else f"{first}{text}")
            parts += [Path(image)] if image else []
    return (*parts, ending)


def answer_steps(segments: Iterable[Segment]) -> Segments:
    """An answer as steps of a text and a picture, as the official answer files have them.

    A picture without a text joins the text before it; without such a text, its step's text is
    empty.

    >>> for step in answer_steps([Segment("Cut."), Segment(image="a.png"), Segment(image="b.png")]):
    ...     print(repr(step.text), step.image)
    'Cut.' a.png
    '' b.png
    """
    steps: list[Segment] = []
    for segment in segments:
        text = segment.text
        if text is None and steps and steps[-1].image is None:
            text = steps.pop().text
        steps.append(replace(segment, text=text or ""))
    return tuple(steps)


def question_content(
    question: Sequence[Segment], instruction: str, opening: str
) -> list[str | Path]:
    """The question to the tested model: instruction to write and draw, opening with the number of
    steps (both may be empty), and the question's texts and existing pictures in order, each on its
    own line.

    The official scripts also send the marks `BEGIN` and `IMAGE`; here the pictures replace them.
    """
    content: list[str | Path] = [part for part in (instruction, opening.strip()) if part]
    for segment in question:
        text = (segment.text or "").replace(BEGIN, "").replace(IMAGE, "").strip()
        content += [text] if text else []
        content += [Path(segment.image)] if segment.image else []
    lines: list[str | Path] = []
    for part in content:
        lines += ["\n", part] if lines else [part]
    return lines
