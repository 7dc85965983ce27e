"""OpenING: people's verdicts, the answers of a local copy of its repository, and judges' files.

The verdicts are ``opening/judge_modelAB_results.json`` below `mmie_tasks.core.paths.cache_dir`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, TypeAdapter

from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.asset import read_data_file
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.pinned_file import Pin, RetryPolicy, pinned_bytes
from mmie_tasks.results.judge_exam.verdicts import (
    FIRST_WINS,
    REPAIR,
    Content,
    Contents,
    Pair,
    VerdictSet,
    parsed,
    segments_of,
    unique,
    with_answers,
)

VERDICTS_FILE = "Interleaved_Arena/judge_modelAB_results.json"
VERDICTS = Pin(
    name="OpenING's verdicts",
    url=f"https://raw.githubusercontent.com/LanceZPF/OpenING/56b663bc84ef64960c0253325c4a89cd10ddf7f1/{VERDICTS_FILE}",
    size_bytes=1_025_107,
    sha256="2bf58594c7b7dac19f468f7dab855ebeb28375927188df64a258cf4239b2fff4",
    local="name",
)


class _Model(BaseModel):
    name: str


class _Row(BaseModel):
    """A row of a judge's file."""

    data_id: str
    model_A: _Model  # noqa: N815 - as in the file
    model_B: _Model  # noqa: N815
    winner: str | None = None


class _PeoplesRow(_Row):
    winner: Literal["A", "B", "Tie(A)", "Tie(B)"]


class _Part(BaseModel):
    text: str | None = None
    image: str | None = None


class _Turn(BaseModel):
    input: tuple[_Part, ...] = ()
    output: tuple[_Part, ...] = ()


class _Answer(BaseModel):
    conversations: tuple[_Turn, ...]


def load(
    folder: Path | None, environment: Mapping[str, str], pin: Pin = VERDICTS, retry: RetryPolicy | None = None
) -> VerdictSet:
    """OpenING's verdicts.

    As in ``GPT_judge_AB.py`` of its repository, each text stands before its image, without the marks ``<BEGIN>``
    and ``<image>``, and an answer's images lie beside the answer. A pair that lacks an image is left out, while
    that script goes on without the image. Answers in ``.jsonl``, which it reads too, are not read.

    Args:
        folder: A local copy of the repository, or its file with the verdicts; None to download the verdicts alone.
        environment: Read: what `mmie_tasks.core.paths.cache_dir` reads.
        pin: The file to download.
        retry: How often to try.

    Raises:
        DataMissing: A file is missing, or could not be downloaded.
        DataBroken: A file is not in the published layout.
    """
    if folder is None:
        path = cache_dir(environment) / "opening" / Path(VERDICTS_FILE).name
        content, source = pinned_bytes(pin, path, environment, retry), pin.url
    else:
        path = folder if folder.is_file() else folder / VERDICTS_FILE
        content = read_data_file(path, f"name a folder with `{VERDICTS_FILE}`, a copy of {pin.url}")
        source = _local_source(path, content, pin.sha256)
    rows = parsed(path, content, TypeAdapter(tuple[_PeoplesRow, ...]))
    verdict_set = VerdictSet(
        name="opening",
        title="OpenING: pairs of interleaved answers of 11 models",
        licence="none published: not for redistribution",
        source=source,
        pairs=unique(source, map(_pair, rows)),
        has_answers=False,
        both_orders=False,
    )
    if folder is None or not (folder / "gen_outputs").is_dir():
        return verdict_set
    return with_answers(verdict_set, partial(_contents, folder))


def _local_source(path: Path, content: bytes, sha256: str) -> str:
    """A local file, and whether it is the published one, as `VerdictSet.source`."""
    digest = hashlib.sha256(content).hexdigest()
    return f"`{path}` (SHA-256 {digest[:12]}…, {'' if digest == sha256 else 'not '}the published file)"


def _pair(row: _PeoplesRow) -> Pair:
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


def _contents(folder: Path, pair: Pair) -> Contents:
    outputs = folder / "gen_outputs"
    a, b = (_turns(outputs, model, pair.sample) for model in pair.models)
    question = _content(part for turn in a for part in turn.input)
    answers = []
    for model, turns in zip(pair.models, (a, b), strict=True):
        content = _content(part for turn in turns for part in turn.output)
        beside = tuple((kind, re.split(r"[/\\]", value)[-1] if kind == "image" else value) for kind, value in content)
        answers.append(segments_of(beside, outputs / f"{model}_output"))
    return segments_of(question, folder / "OpenING-benchmark"), (answers[0], answers[1])


def _turns(outputs: Path, model: str, sample: str) -> tuple[_Turn, ...]:
    path = inside(outputs, f"{model}_output/{sample}.json")
    return parsed(path, read_data_file(path, REPAIR), TypeAdapter(_Answer)).conversations


def _content(parts: Iterable[_Part]) -> Content:
    content: list[tuple[Literal["text", "image"], str]] = []
    for part in parts:
        content.append(("text", (part.text or "").replace("<BEGIN>", "").replace("<image>", "").strip()))
        if part.image:
            content.append(("image", part.image))
    return tuple(content)


def judge_rows(text: str, verdict_set: VerdictSet) -> Iterator[tuple[str, bool, str | None]]:
    """A judge's verdicts in rows like those of people; one with A and B exchanged is of the reversed order."""
    ids = {(pair.sample, *pair.models): pair.id for pair in verdict_set.pairs}
    for row in TypeAdapter(tuple[_Row, ...]).validate_json(text, strict=True):
        a, b = row.model_A.name, row.model_B.name
        is_reversed = (row.data_id, a, b) not in ids and (row.data_id, b, a) in ids
        shown = (row.data_id, b, a) if is_reversed else (row.data_id, a, b)
        yield ids.get(shown, " / ".join(shown)), is_reversed, row.winner
