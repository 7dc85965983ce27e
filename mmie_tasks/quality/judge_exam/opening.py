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
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.pinned_file import Pin, RetryPolicy, pinned_bytes
from mmie_tasks.quality.judge_exam.published_files import (
    FIRST_WINS,
    REPAIR,
    Contents,
    PublishedContent,
    parsed_file,
    parts_in_order,
    unique_pairs,
    with_answers,
)
from mmie_tasks.quality.judge_exam.verdict_set import Pair, VerdictSet

OPENING_FILE = "Interleaved_Arena/judge_modelAB_results.json"

OPENING_VERDICTS = Pin(
    name="OpenING's verdicts",
    url=f"https://raw.githubusercontent.com/LanceZPF/OpenING/56b663bc84ef64960c0253325c4a89cd10ddf7f1/{OPENING_FILE}",
    size_bytes=1_025_107,
    sha256="2bf58594c7b7dac19f468f7dab855ebeb28375927188df64a258cf4239b2fff4",
    local="name",
)


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
    folder: Path | None,
    environment: Mapping[str, str],
    pin: Pin = OPENING_VERDICTS,
    retry: RetryPolicy | None = None,
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
        retry: How often to try.

    Raises:
        DataMissing: A file is missing, or could not be downloaded.
        DataBroken: A file is not in the published layout.
    """
    if folder is None:
        path = cache_dir(environment) / "opening" / Path(OPENING_FILE).name
        content, source = pinned_bytes(pin, path, environment, retry), pin.url
    else:
        path = folder if folder.is_file() else folder / OPENING_FILE
        content = read_data_file(path, f"name a folder with `{OPENING_FILE}`, a copy of {pin.url}")
        digest = hashlib.sha256(content).hexdigest()
        source = (
            f"`{path}` (SHA-256 {digest[:12]}…, {'' if digest == pin.sha256 else 'not '}the "
            "published file)"
        )
    rows = parsed_file(path, content, TypeAdapter(tuple[_OpeningPeoplesRow, ...]))
    verdict_set = VerdictSet(
        name="opening",
        title="OpenING: pairs of interleaved answers of 11 models",
        licence="none published: not for redistribution",
        source=source,
        pairs=unique_pairs(source, map(_opening_pair, rows)),
        has_answers=False,
        both_orders=False,
    )
    if folder is None or not (folder / "gen_outputs").is_dir():
        return verdict_set
    return with_answers(verdict_set, partial(_opening_contents, folder))


def _opening_pair(row: _OpeningPeoplesRow) -> Pair:
    models = (row.model_A.name, row.model_B.name)
    return Pair(
        id=" / ".join((row.data_id, *models)),
        sample=row.data_id,
        subset=f"task {row.data_id[:2]}",  # `meta_task_id` of the sample
        winner="A" if FIRST_WINS[row.winner] else "B",
        is_tie=row.winner.startswith("Tie"),
        votes=(),
        models=models,
        question=(),
        answers=((), ()),
        images=None,
    )


def _opening_contents(folder: Path, pair: Pair) -> Contents:
    outputs = folder / "gen_outputs"
    file_type = TypeAdapter(_OpeningAnswer)
    questions, answers = [], []
    for model in pair.models:
        names = [f"{model}_output/{pair.sample}{suffix}" for suffix in (".json", ".jsonl")]
        paths = [inside(outputs, name) for name in names]
        path = next(filter(os.path.isfile, paths), paths[0])
        turns = parsed_file(path, read_data_file(path, REPAIR), file_type).conversations
        questions.append(_content(part for turn in turns for part in turn.input))
        content = _content(part for turn in turns for part in turn.output)
        beside = [
            (kind, re.split(r"[/\\]", v)[-1] if kind == "image" else v) for kind, v in content
        ]
        answers.append(parts_in_order(beside, outputs / f"{model}_output"))
    return parts_in_order(questions[0], folder / "OpenING-benchmark"), (answers[0], answers[1])


def _content(parts: Iterable[_OpeningPart]) -> PublishedContent:
    content: list[tuple[Literal["text", "image"], str]] = []
    for part in parts:
        text = (part.text or "").replace("<BEGIN>", "").replace("<image>", "")
        content.append(("text", text.strip()))
        if part.image:
            content.append(("image", part.image))
    return tuple(content)


def opening_judge_rows(
    text: str, verdict_set: VerdictSet
) -> Iterator[tuple[str, bool, str | None]]:
    """A judge's verdicts in rows like those of people; one with A and B exchanged is of the
    reversed order.
    """
    ids = {(pair.sample, *pair.models): pair.id for pair in verdict_set.pairs}
    for row in TypeAdapter(tuple[_OpeningRow, ...]).validate_json(text, strict=True):
        a, b = row.model_A.name, row.model_B.name
        is_reversed = (row.data_id, a, b) not in ids and (row.data_id, b, a) in ids
        shown = (row.data_id, b, a) if is_reversed else (row.data_id, a, b)
        yield ids.get(shown, " / ".join(shown)), is_reversed, row.winner
