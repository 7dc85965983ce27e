"""The fixed texts around questions and answers: the official ones, or the user's.

The official sentences are read from the official files with `ast`; no official code is run.
"""

from __future__ import annotations

import ast
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from mmie_tasks.benchmarks.opening.official_files import COMMIT, DATA, PROMPT_FILES, official_bytes
from mmie_tasks.benchmarks.other_prompts import StrictModel, other_name, read_other_prompts
from mmie_tasks.core.files import cache_dir
from mmie_tasks.judges.base import ReplySchema


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedTexts:
    """The texts around questions and answers.

    Attributes:
        system: The judge's system message.
        ending: The last part of the user's message to the judge.
        schema: The function that the judge is told to call.
        instruction: Precedes the question to the tested model.
        steps: Tells the tested model the number of steps, the field ``{steps}``.
        name: Name in the signature: ``official@56b663b``, or ``other:`` and 12 hex digits of a
            hash.
    """

    system: str
    ending: str
    schema: ReplySchema
    instruction: str
    steps: str
    name: str


def fixed_texts(prompts: Path | None) -> FixedTexts:
    """The fixed texts: those of a JSON file, else the official ones; read once per process.

    Scores made with other texts are not OpenING's.

    Raises:
        SettingWrong: The other texts are unusable.
        DataMissing: An official file is not available; nothing is ever used in its place.
    """
    return _fixed_texts(prompts, str(cache_dir(os.environ)), os.environ.get(DATA))


@functools.lru_cache(maxsize=4)
def _fixed_texts(prompts: Path | None, _cache: str, _data: str | None) -> FixedTexts:
    return read_texts(os.environ) if prompts is None else _other_texts(prompts.expanduser())


def read_texts(environment: Mapping[str, str]) -> FixedTexts:
    """The official texts; raises `DataMissing` if an official file is not available."""
    scorer, system, generator, instruction = (
        official_bytes(path, environment).decode() for path in PROMPT_FILES
    )
    return FixedTexts(
        system=system,
        ending=read_ending(scorer),
        schema=read_schema(scorer),
        instruction=instruction,
        steps=read_steps(generator),
        name=f"official@{COMMIT[:7]}",
    )


def read_schema(scorer: str) -> ReplySchema:
    """The function in ``GPT_score_A.py``: the literal that is assigned to ``functions``."""
    for node in ast.walk(ast.parse(scorer)):
        match node:
            case ast.Assign(targets=[ast.Name(id="functions")], value=literal):
                (function,) = ast.literal_eval(literal)
    return _schema(**function)


def read_ending(scorer: str) -> str:
    """The last text in ``GPT_score_A.py``: the only constant that is appended to ``content``."""
    for node in ast.walk(ast.parse(scorer)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="content"), attr="append"),
                args=[ast.Dict(values=[_, ast.Constant(value=str(text))])],
            ):
                ending = text
    return ending


def read_steps(generator: str) -> str:
    """The number of steps in ``gpt-dalle_generation.py``: a text before ``input_text_list[0]``."""
    for node in ast.walk(ast.parse(generator)):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="input_text_list"))],
                value=ast.BinOp(
                    left=ast.JoinedStr(
                        values=[
                            ast.Constant(str(before)),
                            ast.FormattedValue(),
                            ast.Constant(str(after)),
                        ]
                    )
                ),
            ):
                steps = f"{before}{{steps}}{after}"
    return steps


class _OtherFunction(StrictModel):
    name: str
    description: str
    parameters: dict[str, JsonValue]


class _OtherJudge(StrictModel):
    system: str
    ending: str
    function: _OtherFunction


class _OtherModel(StrictModel):
    system: str
    steps: str


class _OtherTexts(StrictModel):
    judge: _OtherJudge
    model: _OtherModel


def _other_texts(path: Path) -> FixedTexts:
    content = "`judge` (`system`, `ending`, `function`) and `model` (`system`, `steps`)"
    texts = read_other_prompts(path, _OtherTexts, content)
    return FixedTexts(
        system=texts.judge.system,
        ending=texts.judge.ending,
        schema=_schema(**texts.judge.function.model_dump()),
        instruction=texts.model.system,
        steps=texts.model.steps,
        name=other_name("OpenING", path, path.read_bytes()),
    )


def _schema(name: str, description: str, parameters: object) -> ReplySchema:
    return ReplySchema(name=name, description=description, parameters=json.dumps(parameters))
