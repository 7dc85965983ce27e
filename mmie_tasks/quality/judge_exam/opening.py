"""OpenING: people's verdicts on pairs of interleaved answers, and judges' files on them.

It is not part of this package: its repository has no licence. Its file of verdicts is pinned, and
downloaded when it is used, below `mmie_tasks.core.files.cache_dir`::

    opening/judge_modelAB_results.json
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from loguru import logger
from pydantic import BaseModel, TypeAdapter, ValidationError

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing, first_line
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.images import inside, size_px
from mmie_tasks.hub.pinned_file import Pin, pinned_bytes
from mmie_tasks.quality.judge_exam.verdict_set import (
    NoVerdict,
    Pair,
    PairVerdict,
    PartsInOrder,
    VerdictSet,
)
from mmie_tasks.results.commands import read_text

OPENING_FILE = "Interleaved_Arena/judge_modelAB_results.json"

OPENING_VERDICTS = Pin(
    name="OpenING's verdicts",
    url=f"https://raw.githubusercontent.com/LanceZPF/OpenING/56b663bc84ef64960c0253325c4a89cd10ddf7f1/{OPENING_FILE}",
    size_bytes=1_025_107,
    sha256="2bf58594c7b7dac19f468f7dab855ebeb28375927188df64a258cf4239b2fff4",
    local="name",
)

_Contents: TypeAlias = tuple[PartsInOrder, tuple[PartsInOrder, PartsInOrder]]
"""A question and its answers."""

_REPAIR = "replace it by the published file"
_FIRST_WINS = {"A": 1.0, "Tie(A)": 1.0, "B": 0.0, "Tie(B)": 0.0}
"""Verdict to 1 if the first answer wins, 0 if the second does."""

_T = TypeVar("_T")


class _OpeningModel(BaseModel):
    name: str


class _OpeningRow(BaseModel):
    """A row of a judge's file."""

    data_id: str
    model_A: _OpeningModel  # noqa: N815 - as in the file
    model_B: _OpeningModel  # noqa: N815
    winner: str | None = None


class _OpeningPeoplesRow(_OpeningRow):
    winner: Literal["A", "B", "Tie(A)", "Tie(B)"]


class _OpeningPart(BaseModel):
    text: str | None = None
    image: str | None = None


class _OpeningTurn(BaseModel):
    input: tuple[_OpeningPart, ...] = ()
    output: tuple[_OpeningPart, ...] = ()


class _OpeningAnswer(BaseModel):
    conversations: tuple[_OpeningTurn, ...]


def load_opening(
    folder: Path | None, environment: Mapping[str, str], pin: Pin = OPENING_VERDICTS
) -> VerdictSet:
    """OpenING's verdicts.

    As in ``GPT_judge_AB.py`` of its repository, each text stands before its image, without the
    marks ``<BEGIN>`` and ``<image>``, and an answer's images lie beside the answer. A pair that
    lacks an image is left out, while that script goes on without the image. An answer is one JSON
    object, in a file ``.json`` or, as most of its scripts write it, ``.jsonl``.

    Args:
        folder: A local copy of the repository, or its file with the verdicts; None to download the
            verdicts alone.
        environment: Read: what `mmie_tasks.core.files.cache_dir` reads.
        pin: The file to download.

    Raises:
        DataMissing: A file is missing, or could not be downloaded.
        DataBroken: A file is not in the published layout.
    """
    if folder is None:
        path = cache_dir(environment) / "opening" / Path(OPENING_FILE).name
        content, source = pinned_bytes(pin, path, environment), pin.url
    else:
        path = folder if folder.is_file() else folder / OPENING_FILE
        content = read_data_file(path, f"name a folder with `{OPENING_FILE}`, a copy of {pin.url}")
        digest = hashlib.sha256(content).hexdigest()
        source = (
            f"`{path}` (SHA-256 {digest[:12]}…, {'' if digest == pin.sha256 else 'not '}the "
            "published file)"
        )
    rows = _parsed_file(path, content, TypeAdapter(tuple[_OpeningPeoplesRow, ...]))
    verdict_set = VerdictSet(
        name="opening",
        title="OpenING: pairs of interleaved answers of 11 models",
        licence="none published: not for redistribution",
        source=source,
        pairs=_unique_pairs(source, map(_opening_pair, rows)),
        has_answers=False,
    )
    if folder is None or not (folder / "gen_outputs").is_dir():
        return verdict_set
    return _with_answers(verdict_set, folder)


def _parsed_file(path: Path, content: bytes, adapter: TypeAdapter[_T]) -> _T:
    """The content of a published file, with types as they are, or `DataBroken` with its first
    problem.
    """
    try:
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        raise DataBroken(
            f"`{path}` is not in the published layout: {_first_problem(error)}.", hint=_REPAIR
        ) from error


def _first_problem(error: Exception) -> str:
    """The first problem, as a clause."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {first_line(error)}"
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"`{field}`: {first['msg']}" if field else first["msg"]


def _unique_pairs(source: str, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs, or `DataBroken` if there are none or one is there twice."""
    by_id: dict[str, Pair] = {}
    for pair in pairs:
        if by_id.setdefault(pair.id, pair) is not pair:
            raise DataBroken(f"{source} has the pair `{pair.id}` twice.", hint=_REPAIR)
    if not by_id:
        raise DataBroken(f"{source} has no pairs.", hint=_REPAIR)
    return tuple(by_id.values())


def _with_answers(verdict_set: VerdictSet, folder: Path) -> VerdictSet:
    """The set with the pairs whose question and answers can be read; without answers if none
    can.
    """
    complete: list[Pair] = []
    problems: dict[str, str] = {}
    for pair in verdict_set.pairs:
        try:
            question, answers = _opening_contents(folder, pair)
        except (DataMissing, DataBroken) as error:
            problems[pair.id] = error.message
            continue
        a, b = (sum(isinstance(segment, Path) for segment in answer) for answer in answers)
        if question:
            complete.append(replace(pair, question=question, answers=answers, images=(a, b)))
        else:
            problems[pair.id] = "It has no question."
    if problems:
        pair_id, problem = next(iter(problems.items()))
        outcome = "they are left out" if complete else "there are verdicts only"
        logger.warning(
            f"{verdict_set.title}: the question or the answers of {len(problems)} of "
            f"{len(verdict_set.pairs)} pairs cannot be read; {outcome}. The first, "
            f"`{pair_id}`: {problem}"
        )
    if not complete:
        return verdict_set
    return replace(
        verdict_set, pairs=tuple(complete), has_answers=True, missing_answers=len(problems)
    )


def _opening_pair(row: _OpeningPeoplesRow) -> Pair:
    models = (row.model_A.name, row.model_B.name)
    return Pair(
        id=" / ".join((row.data_id, *models)),
        sample=row.data_id,
        subset=f"task {row.data_id[:2]}",  # `meta_task_id` of the sample
        winner="A" if _FIRST_WINS[row.winner] else "B",
        is_tie=row.winner.startswith("Tie"),
        models=models,
        question=(),
        answers=((), ()),
        images=None,
    )


def _opening_contents(folder: Path, pair: Pair) -> _Contents:
    outputs = folder / "gen_outputs"
    file_type = TypeAdapter(_OpeningAnswer)
    inputs, answers = [], []
    for model in pair.models:
        names = [f"{model}_output/{pair.sample}{suffix}" for suffix in (".json", ".jsonl")]
        paths = [inside(outputs, name) for name in names]
        path = next(filter(os.path.isfile, paths), paths[0])
        turns = _parsed_file(path, read_data_file(path, _REPAIR), file_type).conversations
        inputs.append([part for turn in turns for part in turn.input])
        drawn = [part for turn in turns for part in turn.output]
        answers.append(_parts_in_order(drawn, outputs / f"{model}_output", is_beside=True))
    question = _parts_in_order(inputs[0], folder / "OpenING-benchmark", is_beside=False)
    return question, (answers[0], answers[1])


def _parts_in_order(
    parts: Iterable[_OpeningPart], folder: Path, *, is_beside: bool
) -> PartsInOrder:
    """Texts, and images as files below `folder`, whose headers are checked; of images that lie in
    it, only the file name counts.
    """
    shown: list[str | Path] = []
    for part in parts:
        if text := (part.text or "").replace("<BEGIN>", "").replace("<image>", "").strip():
            shown.append(text)
        if part.image:
            name = re.split(r"[/\\]", part.image)[-1] if is_beside else part.image
            shown.append(path := inside(folder, name))
            size_px(path)
    return tuple(shown)


def read_judgements(path: Path, verdict_set: VerdictSet) -> tuple[PairVerdict, ...]:
    """A judge's verdicts from a file in the layout in which OpenING's repository publishes them.

    A missing or empty verdict is none, and so is one that names no side. A pair that the file lacks
    gets a judgement without verdict. What the file has on other pairs is named in the log.

    Raises:
        AnswersUnusable: The file cannot be read, is not in that layout, has two verdicts on a pair
            in one order, or none on a pair of the set.
    """
    hint = "name a judge's file in the layout of OpenING"
    text = read_text(path, hint)
    winners: dict[tuple[str, bool], str] = {}
    try:
        for pair_id, is_reversed, winner in _judge_rows(text, verdict_set):
            if (pair_id, is_reversed) in winners:
                message = f"`{path}` has two verdicts on `{pair_id}` in one order."
                raise AnswersUnusable(message, hint="remove one of them")
            winners[pair_id, is_reversed] = winner or ""
    except ValidationError as error:
        message = f"`{path}` is not in the expected layout: {_first_problem(error)}."
        raise AnswersUnusable(message, hint=hint) from error
    judged = {pair_id for pair_id, _ in winners}
    unknown = sorted(judged - {pair.id for pair in verdict_set.pairs})
    if len(unknown) == len(judged):
        message = f"`{path}` has no verdict on a pair of {verdict_set.title}."
        raise AnswersUnusable(message, hint=hint)
    if unknown:
        names = ", ".join(f"`{name[:80]}`" for name in unknown[:3]) + (", …" if unknown[3:] else "")
        logger.warning(
            f"`{path}` has verdicts on {len(unknown)} pairs that are not in the set: {names}."
        )
    return tuple(
        _judgement(pair.id, is_reversed, winners.get((pair.id, is_reversed), ""))
        for pair in verdict_set.pairs
        for is_reversed in (False, True)
        if (pair.id, is_reversed) in winners or not (is_reversed or pair.id in judged)
    )


def _judgement(pair: str, is_reversed: bool, winner: str) -> PairVerdict:
    if (first_wins := _FIRST_WINS.get(winner)) is not None:
        return PairVerdict.in_order(pair, is_reversed=is_reversed, first_wins=first_wins)
    reason = f"the verdict is {winner[:40]!r}" if winner else "no verdict in the file"
    why_not = NoVerdict(reason)
    return PairVerdict(pair=pair, is_reversed=is_reversed, a_wins=None, why_not=why_not)


def _judge_rows(text: str, verdict_set: VerdictSet) -> Iterator[tuple[str, bool, str | None]]:
    """A judge's verdicts in rows like those of people; one with A and B exchanged is of the
    reversed order.
    """
    ids = {(pair.sample, *pair.models): pair.id for pair in verdict_set.pairs}
    for row in TypeAdapter(tuple[_OpeningRow, ...]).validate_json(text, strict=True):
        a, b = row.model_A.name, row.model_B.name
        is_reversed = (row.data_id, a, b) not in ids and (row.data_id, b, a) in ids
        shown = (row.data_id, b, a) if is_reversed else (row.data_id, a, b)
        yield ids.get(shown, " / ".join(shown)), is_reversed, row.winner
