"""The request to OpenING's judge and the question to the tested model, put together as officially.

Source: ``main_evaluate_output_directory`` and ``get_gpt4answer`` of ``GPT_score_A.py`` for the
judge, ``gpt-dalle_generation.py`` for the tested model (LanceZPF/OpenING at 56b663b). Their
sentences are not in our files: `read_scorer` and `read_generator` take them from the official files
as data. The rules of the judge's texts, with their lines:

* T1 (59-65): every text without white space at its ends.
* T2 (440-451): of a question, the marks ``<BEGIN>`` and ``<image>`` are deleted; a usable picture
  adds `_MARK` with its number.
* T3 (456-475): of an answer, ``<image>`` is deleted and ``<BEGIN>`` stays; pictures as in T2.
* T4 (428-475): one count from 0 numbers the usable pictures of question and answer.
* T5 (90): ``INPUT: `` stands before the question.
* T6 (96-99): ``OUTPUT: `` stands before the answer, on a new line.
* T7 (100-101): an answer without steps is the text ``OUTPUT: None``.
* T8 (103-105): a later empty text stays a part of the request.
* T9: what a model itself writes in these forms is not touched.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
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


class OfficialFileChanged(ValueError):
    """An official file has another form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The function that the official script has the judge call.

    Attributes:
        name: Its name.
        description: Its description.
        parameters: Its JSON schema as JSON text, keys in the official order.
    """

    name: str
    description: str
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTexts:
    """The fixed texts of a request to the judge.

    Attributes:
        system: The system message.
        ending: The last part of the user's message.
        schema: Of the reply.
    """

    system: str
    ending: str
    schema: Schema


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTexts:
    """The fixed texts of a question to the tested model.

    Attributes:
        system: The instruction before the question.
        steps: The number of steps, with the field ``{steps}``.
    """

    system: str
    steps: str


def judge_parts(
    question: Sequence[Segment], answer: Sequence[Segment], ending: str
) -> tuple[str | Path, ...]:
    r"""The user's message to the judge: texts and pictures in the official order.

    Args:
        question: Steps with the JPEG that the judge gets as `Segment.image`; None where there is
            no usable picture. At least one.
        answer: Steps in the same form.
        ending: `JudgeTexts.ending`.

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

    asked = steps(question, BEGIN, IMAGE, BEGIN)  # as in 440-451, then 90
    given = steps(answer, IMAGE) or [("None", None)]
    parts: list[str | Path] = []
    for first, turn in (("INPUT: ", asked), ("\nOUTPUT: ", given)):
        for i, (text, image) in enumerate(turn):
            parts.append(text if i else f"{first}{text}")
            parts += [Path(image)] if image else []
    return (*parts, ending)


def answer_steps(segments: Iterable[Segment]) -> Segments:
    """An answer as steps of a text and a picture, as the official answer files have them.

    A picture without a text belongs to the text before it; without such a text, its step has an
    empty one.

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
        steps.append(
            Segment(text or "", segment.image, segment.problem, segment.detail, segment.prompt)
        )
    return tuple(steps)


def question_parts(
    question: Sequence[Segment], texts: ModelTexts, steps: int | None
) -> list[str | Path]:
    """The question to the tested model: instruction, number of steps, and the question's texts and
    pictures in order, each on a line of its own.

    The official scripts send the marks `BEGIN` and `IMAGE`, too; here the pictures stand in their
    place.

    Args:
        question: Steps with the pictures that exist.
        texts: The fixed texts.
        steps: The number that the model is told; None to tell it nothing.
    """
    opening = "" if steps is None else texts.steps.replace("{steps}", str(steps)).strip()
    parts: list[str | Path] = [part for part in (texts.system, opening) if part]
    for segment in question:
        text = (segment.text or "").replace(BEGIN, "").replace(IMAGE, "").strip()
        parts += [text] if text else []
        parts += [Path(segment.image)] if segment.image else []
    lines: list[str | Path] = []
    for part in parts:
        lines += ["\n", part] if lines else [part]
    return lines


def read_scorer(source: str, system: str) -> JudgeTexts:
    """The judge's texts in ``GPT_score_A.py``, which is not run.

    Its form: one assignment of a literal to ``functions``, and in ``get_gpt4answer`` one
    ``content.append`` of a constant text, which is the last.

    Args:
        source: The content of the file.
        system: The content of ``prompts/detailed_score_system.txt``.

    Raises:
        OfficialFileChanged: It has another form.
    """
    functions, endings = [], []
    for node in ast.walk(_parsed(source)):
        match node:
            case ast.Assign(targets=[ast.Name(id="functions")], value=ast.List(elts=[value])):
                functions.append(ast.literal_eval(value))
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="content"), attr="append"),
                args=[ast.Dict(values=[_, ast.Constant(value=str(text))])],
            ):
                endings.append(text)
    match functions, endings:
        case [{"name": str(name), "description": str(description), "parameters": parameters}], [
            ending
        ]:
            schema = Schema(name=name, description=description, parameters=json.dumps(parameters))
            return JudgeTexts(system=system, ending=ending, schema=schema)
    raise OfficialFileChanged("no function and closing line of the judge")


def read_generator(source: str, system: str) -> ModelTexts:
    """The tested model's texts in ``gpt-dalle_generation.py``, which is not run.

    Its form: one assignment to ``input_text_list[0]`` of a formatted text with one field, the
    number of steps, before that element itself.

    Args:
        source: The content of the file.
        system: The content of ``prompts/zero-shot_generation_system.txt``.

    Raises:
        OfficialFileChanged: It has another form.
    """
    templates = []
    for node in ast.walk(_parsed(source)):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="input_text_list"))],
                value=ast.BinOp(
                    left=ast.JoinedStr(
                        values=[
                            ast.Constant(value=str(before)),
                            ast.FormattedValue(),
                            ast.Constant(value=str(after)),
                        ]
                    )
                ),
            ):
                templates.append(f"{before}{{steps}}{after}")
    if len(templates) != 1:
        raise OfficialFileChanged("no number of steps in the question")
    return ModelTexts(system=system, steps=templates[0])


def _parsed(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise OfficialFileChanged(f"it cannot be parsed ({type(error).__name__})") from error
