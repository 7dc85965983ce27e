"""People's published verdicts on pairs of answers with text and images, and judges' files of
verdicts on them.

Neither OpenING nor MMRB2 is part of this package: OpenING's repository has no licence, and MMRB2 is
for non-commercial use only. Both are downloaded when they are used, below
`mmie_tasks.core.files.cache_dir`. OpenING's file is pinned; MMRB2's tables are those of the Hub's
newest commit or a named one, written with their images byte for byte, and their verdicts are
compared with the published ones::

    opening/judge_modelAB_results.json
    mmrb2/<commit>/interleaved/<table>/interleaved.json, images/...
    mmrb2/commits/<revision>.txt                   see `mmie_tasks.hub.commits`
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, TypeVar

from loguru import logger
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing
from mmie_tasks.core.files import cache_dir, file_lock, readable_size
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, download_errors, download_failure, install
from mmie_tasks.hub.images import image_suffix, inside, size_px
from mmie_tasks.hub.pinned_file import Pin, RetryPolicy, pinned_bytes
from mmie_tasks.results.commands import read_text

Side: TypeAlias = Literal["A", "B"]
SetName: TypeAlias = Literal["mmrb2", "opening"]
PartsInOrder: TypeAlias = tuple[str | Path, ...]
"""Texts and image files in order."""

_ContentPart: TypeAlias = tuple[tuple[Literal["text", "image"], str], ...]
"""Texts and names of images in order."""

_Contents: TypeAlias = tuple[PartsInOrder, tuple[PartsInOrder, PartsInOrder]]
"""A question and its answers."""

_REPAIR = "replace it by the published file"
_FIRST_WINS = {"A": 1.0, "Tie(A)": 1.0, "B": 0.0, "Tie(B)": 0.0}
"""Verdict to 1 if the first answer wins, 0 if the second does."""

_T = TypeVar("_T")

OPENING_FILE = "Interleaved_Arena/judge_modelAB_results.json"
OPENING_VERDICTS = Pin(
    name="OpenING's verdicts",
    url=f"https://raw.githubusercontent.com/LanceZPF/OpenING/56b663bc84ef64960c0253325c4a89cd10ddf7f1/{OPENING_FILE}",
    size_bytes=1_025_107,
    sha256="2bf58594c7b7dac19f468f7dab855ebeb28375927188df64a258cf4239b2fff4",
    local="name",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two answers to one question, and which of them people prefer.

    Attributes:
        id: Unique in its set.
        sample: The question's id. Pairs of one sample are not independent.
        subset: MMRB2: where the question comes from; OpenING: the sample's task.
        winner: People's verdict; of a tie the side that they were forced to name.
        is_tie: Whether people called it a tie.
        votes: The side that each rater prefers; empty if not published.
        models: The models that answered, A's first.
        question: Empty in a set without `VerdictSet.has_answers`.
        answers: Those of A and B; in a set without `VerdictSet.has_answers` their texts, if
            published.
        images: How many images each answer has; None if not known.
    """

    id: str
    sample: str
    subset: str
    winner: Side
    is_tie: bool
    votes: tuple[Side, ...]
    models: tuple[str, str]
    question: PartsInOrder
    answers: tuple[PartsInOrder, PartsInOrder]
    images: tuple[int, int] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictSet:
    """A published set of people's verdicts.

    Attributes:
        name: ``mmrb2`` or ``opening``.
        title: Its name and what its verdicts are about.
        licence: The licence, or that there is none.
        source: Repository and commit, or a local folder.
        pairs: In the published order.
        has_answers: Whether the pairs have questions and answers, so that a judge can be asked.
        both_orders: Whether a judge is to be asked with A first and with B first.
        missing_answers: Published pairs that are not in `pairs`, because a text or an image of
            question or answers is missing or broken; 0 in a set without `has_answers`.
    """

    name: SetName
    title: str
    licence: str
    source: str
    pairs: tuple[Pair, ...]
    has_answers: bool
    both_orders: bool
    missing_answers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A judge's verdict on one pair in one order.

    Attributes:
        pair: `Pair.id`.
        is_reversed: Whether B was shown first; None if each answer was judged by itself.
        a_wins: 1 if the pair's A wins, 0 if B does, 0.5 if the judge is undecided; None if there is
            no verdict.
        why_not: Why there is no verdict; empty if there is one.
    """

    pair: str
    is_reversed: bool | None
    a_wins: float | None
    why_not: str = ""


def read_judgements(path: Path, verdict_set: VerdictSet) -> tuple[Judgement, ...]:
    """A judge's verdicts from a file in the layout in which the set's repository publishes or reads
    them.

    A missing or empty verdict is none, and so is one that names no side. Each pair of the set gets
    a judgement in each order that is asked for, with or without verdict. What the file has on other
    pairs is named in the log.

    Raises:
        AnswersUnusable: The file cannot be read, is not in that layout, has two verdicts on a pair
            in one order, or none on a pair of the set.
    """
    hint = f"name a judge's file in the layout of {verdict_set.title.partition(':')[0]}"
    text = read_text(path, hint)
    rows = (
        _opening_judge_rows(text, verdict_set)
        if verdict_set.name == "opening"
        else _mmrb2_judge_rows(text)
    )
    winners: dict[tuple[str, bool], str] = {}
    try:
        for pair_id, is_reversed, winner in rows:
            if (pair_id, is_reversed) in winners:
                message = f"`{path}` has two verdicts on `{pair_id}` in one order."
                raise AnswersUnusable(message, hint="remove one of them")
            winners[pair_id, is_reversed] = winner or ""
    except ValidationError as error:
        raise AnswersUnusable(
            f"`{path}` is not in the expected layout: {_problem_of(error)}.", hint=hint
        ) from error
    judged = {pair_id for pair_id, _ in winners}
    unknown = sorted(judged - {pair.id for pair in verdict_set.pairs})
    if len(unknown) == len(judged):
        raise AnswersUnusable(
            f"`{path}` has no verdict on a pair of {verdict_set.title}.", hint=hint
        )
    if unknown:
        names = ", ".join(f"`{name[:80]}`" for name in unknown[:3]) + (", …" if unknown[3:] else "")
        logger.warning(
            f"`{path}` has verdicts on {len(unknown)} pairs that are not in the set: {names}."
        )
    judgements = []
    for pair in verdict_set.pairs:
        orders = [
            order
            for order in (False, True)
            if verdict_set.both_orders or (pair.id, order) in winners
        ]
        judgements += [
            _judgement(pair.id, order, winners.get((pair.id, order), ""))
            for order in orders or [False]
        ]
    return tuple(judgements)


def _judgement(pair: str, is_reversed: bool, winner: str) -> Judgement:
    if (first_wins := _FIRST_WINS.get(winner)) is not None:
        return Judgement(
            pair=pair, is_reversed=is_reversed, a_wins=1 - first_wins if is_reversed else first_wins
        )
    why_not = f"the verdict is {winner[:40]!r}" if winner else "no verdict in the file"
    return Judgement(pair=pair, is_reversed=is_reversed, a_wins=None, why_not=why_not)


def _parsed(path: Path, content: bytes, adapter: TypeAdapter[_T]) -> _T:
    """The content of a published file, with types as they are, or `DataBroken` with its first
    problem.
    """
    try:
        return adapter.validate_json(content, strict=True)
    except ValidationError as error:
        raise DataBroken(
            f"`{path}` is not in the published layout: {_problem_of(error)}.", hint=_REPAIR
        ) from error


def _problem_of(error: Exception) -> str:
    """The first problem, as a clause."""
    if not isinstance(error, ValidationError):
        return f"{type(error).__name__}: {error}".partition("\n")[0]
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"`{field}`: {first['msg']}" if field else first["msg"]


def _unique(source: str, pairs: Iterable[Pair]) -> tuple[Pair, ...]:
    """The pairs, or `DataBroken` if there are none or one is there twice."""
    by_id: dict[str, Pair] = {}
    for pair in pairs:
        if by_id.setdefault(pair.id, pair) is not pair:
            raise DataBroken(f"{source} has the pair `{pair.id}` twice.", hint=_REPAIR)
    if not by_id:
        raise DataBroken(f"{source} has no pairs.", hint=_REPAIR)
    return tuple(by_id.values())


def _segments_of(content: _ContentPart, folder: Path | None) -> PartsInOrder:
    """Texts, and images as files below `folder`, whose headers are checked; without a folder the
    texts alone.
    """
    segments: list[str | Path] = []
    for kind, value in content:
        if kind == "text" and value.strip():
            segments.append(value)
        elif kind == "image" and folder:
            segments.append(path := inside(folder, value))
            size_px(path)
    return tuple(segments)


def _with_answers(verdict_set: VerdictSet, read: Callable[[Pair], _Contents]) -> VerdictSet:
    """The set with the pairs whose question and answers can be read; without answers if none
    can.
    """
    complete: list[Pair] = []
    problems: dict[str, str] = {}
    for pair in verdict_set.pairs:
        try:
            question, (a, b) = read(pair)
        except (DataMissing, DataBroken) as error:
            problems[pair.id] = error.message
            continue
        a_images, b_images = (
            sum(isinstance(segment, Path) for segment in answer) for answer in (a, b)
        )
        if question:
            complete.append(
                replace(pair, question=question, answers=(a, b), images=(a_images, b_images))
            )
        else:
            problems[pair.id] = "It has no question."
    if problems:
        pair_id, problem = next(iter(problems.items()))
        logger.warning(
            f"{verdict_set.title}: the question or the answers of {len(problems)} of "
            f"{len(verdict_set.pairs)} pairs "
            f"cannot be read; {'they are left out' if complete else 'there are verdicts only'}. "
            "The first, "
            f"`{pair_id}`: {problem}"
        )
    if not complete:
        return verdict_set
    return replace(
        verdict_set, pairs=tuple(complete), has_answers=True, missing_answers=len(problems)
    )


MMRB2_REPO = "rl-research/multimodal-rewardbench-2"
MMRB2_FILES = (
    "interleaved.json",
    "benchmark/interleaved.json",
    "benchmark/interleaved_response_only.json",
)
MMRB2_VERDICTS_SHA256 = "c422695e515b4b59eba8dcfe6bf45029e3e1c782480efb6a7e2cbbb06af6f5db"
"""Of ids and people's verdicts in the last of `MMRB2_FILES`, in facebookresearch/MMRB2 at
7ff0552cf298441af5ebbabea634b682ef04afee; see `verdicts_sha256`."""

_MMRB2 = HubDataset(
    repo=MMRB2_REPO, name="mmrb2", variable="MMRB2_REVISION", required=("interleaved",)
)
_MMRB2_HINT = (
    f"name a folder with `{MMRB2_FILES[0]}`, or with `{MMRB2_FILES[-1]}` for the verdicts alone"
)


class _Mmrb2Answer(BaseModel):
    model_name: str
    response_content: _ContentPart


class _Mmrb2Row(BaseModel):
    id: str
    prompt_content: _ContentPart | None = None
    prompt_source: str
    prompt_metadata: dict[str, object] = Field(default_factory=dict)
    response_a: _Mmrb2Answer
    response_b: _Mmrb2Answer
    chosen: Side
    human_annotations: tuple[Annotated[int, Field(ge=1, le=6)], ...] = ()


class _Mmrb2File(BaseModel):
    """``interleaved.json`` as ``build_from_hf.py`` writes it, or the repository's file without
    questions.
    """

    pairs: tuple[_Mmrb2Row, ...]


def load_mmrb2(folder: Path | None, environment: Mapping[str, str]) -> VerdictSet:
    """MMRB2's verdicts on interleaved answers.

    Args:
        folder: What ``benchmark/build_from_hf.py`` of its repository has written, or that
            repository, which has no questions and images, or its file with the verdicts; None to
            download.
        environment: Read: ``MMRB2_REVISION`` (branch, tag or commit; by default ``main``),
            ``HF_HUB_OFFLINE``, and what `mmie_tasks.core.files.cache_dir` reads.

    Raises:
        DataMissing: A file is missing, or could not be downloaded.
        DataBroken: A file is not in the published layout.
        SettingWrong: ``MMRB2_REVISION`` cannot be a revision.
    """
    if folder is None:
        hub = _from_hub(environment)
        paths, location = sorted(hub.folder.glob("interleaved/*/interleaved.json")), hub.revision
    else:
        candidates = [folder, *(folder / name for name in MMRB2_FILES)]
        paths = [next((file for file in candidates if file.is_file()), candidates[-1])]
        location = f"`{paths[0]}`"
    hint, file_type = _MMRB2_HINT if folder else _REPAIR, TypeAdapter(_Mmrb2File)
    files = [(path, _parsed(path, read_data_file(path, hint), file_type)) for path in paths]
    rows = [(row, path.parent) for path, file in files for row in file.pairs]
    pairs = _unique(location, (_mmrb2_pair(row) for row, _ in rows))
    is_published = verdicts_sha256(pairs) == MMRB2_VERDICTS_SHA256
    verdict_set = VerdictSet(
        name="mmrb2",
        title="MMRB2: pairs of interleaved answers, each rated by three experts",
        licence="CC BY-NC 4.0 (non-commercial use only)",
        source=f"{location} ({'' if is_published else 'not '}the published verdicts)",
        pairs=pairs,
        has_answers=False,
        both_orders=True,
    )
    if all(row.prompt_content is None for row, _ in rows):
        return verdict_set
    by_id = {row.id: (row, folder) for row, folder in rows}
    return _with_answers(verdict_set, lambda pair: _mmrb2_contents(*by_id[pair.id]))


def verdicts_sha256(pairs: Iterable[Pair]) -> str:
    """The SHA-256, in hex, of the pairs' ids and people's verdicts, in any order."""
    verdicts = sorted((pair.id, pair.winner) for pair in pairs)
    return hashlib.sha256(json.dumps(verdicts).encode()).hexdigest()


def _mmrb2_pair(row: _Mmrb2Row) -> Pair:
    a, b = row.response_a.response_content, row.response_b.response_content
    question = [str(value) for _, value in sorted(row.prompt_metadata.items())] or [row.id]
    return Pair(
        id=row.id,
        sample="/".join((row.prompt_source, *question)),
        subset=row.prompt_source,
        winner=row.chosen,
        is_tie=False,
        votes=tuple("A" if rating > 3 else "B" for rating in row.human_annotations),
        models=(row.response_a.model_name, row.response_b.model_name),
        question=(),
        answers=(_segments_of(a, None), _segments_of(b, None)),
        images=(sum(kind == "image" for kind, _ in a), sum(kind == "image" for kind, _ in b)),
    )


def _mmrb2_contents(row: _Mmrb2Row, folder: Path) -> _Contents:
    a, b = (
        _segments_of(answer.response_content, folder) for answer in (row.response_a, row.response_b)
    )
    return _segments_of(row.prompt_content or (), folder), (a, b)


def _from_hub(environment: Mapping[str, str]) -> HubFolder:
    """The folder with tables as files, downloaded first if necessary."""
    from huggingface_hub import HfApi

    if cached := _MMRB2.cached(environment):
        return cached
    revision = _MMRB2.revision(environment)
    file = HubFile(
        repo=MMRB2_REPO, filename="interleaved/", revision=revision, alternative=_MMRB2_HINT
    )
    try:
        info = HfApi().dataset_info(MMRB2_REPO, revision=revision, files_metadata=True)
    except download_errors() as error:
        raise download_failure(file, error) from error
    tables = [
        entry
        for entry in info.siblings or ()
        if re.fullmatch(r"interleaved/[\w.-]+\.parquet", entry.rfilename)
    ]
    if not tables or not info.sha:
        raise _other_dataset(f"there is no `interleaved/*.parquet` at revision `{revision}`")
    size = readable_size(sum(table.size or 0 for table in tables))
    logger.info(
        f"MMRB2 (CC BY-NC 4.0) needs {size} from the Hub, and as much on the disk for its images."
    )
    for table in tables:
        table_file = replace(file, filename=table.rfilename, revision=info.sha)
        commit = install(
            table_file,
            _MMRB2.root(environment),
            table.rfilename[:-8],
            partial(_write_pairs, table_file),
        )
    return _MMRB2.stored(commit, environment)


def _write_pairs(file: HubFile, table: Path, destination: Path) -> None:
    """Write the pairs of a table and their images to a folder, unless it exists."""
    unfinished = destination.with_name(f"{destination.name}.unfinished")
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with file_lock(
            destination.with_name(f"{destination.name}.lock"), f"writing `{destination}`"
        ):
            if destination.is_dir():
                return
            shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
            (unfinished / "images").mkdir(parents=True)
            content = json.dumps({"pairs": list(_table_pairs(table, unfinished))}).encode()
            _Mmrb2File.model_validate_json(content, strict=True)
            (unfinished / "interleaved.json").write_bytes(content)
            unfinished.replace(destination)
    except OSError as error:
        raise download_failure(file, error, is_downloading=True) from error
    except (ValueError, TypeError, KeyError) as error:  # of pyarrow, pydantic and JSON
        raise _other_dataset(f"`{file.filename}`: {_problem_of(error)}") from error


def _table_pairs(table: Path, folder: Path) -> Iterator[dict[str, object]]:
    """Rows of a table in the form of `_Mmrb2Row`; their images are written below `folder`."""
    import pyarrow.parquet  # type: ignore[import-untyped]

    with pyarrow.parquet.ParquetFile(table) as parquet:
        rows = (row for batch in parquet.iter_batches(batch_size=16) for row in batch.to_pylist())
        for number, row in enumerate(rows):
            contents = {}
            for part in ("prompt", "response_a", "response_b"):
                names: list[str] = []
                for image in row[f"{part}_images"] or []:
                    suffix = image_suffix(image["bytes"]) or ".bin"  # no image: see `_segments_of`
                    names.append(f"images/{number:04d}-{part}-{len(names)}{suffix}")
                    (folder / names[-1]).write_bytes(image["bytes"])
                contents[part] = _table_content(row[f"{part}_text"] or "", names)
            yield {
                "id": row["pair_id"],
                "prompt_content": contents["prompt"],
                "prompt_source": row["prompt_source"],
                "prompt_metadata": json.loads(row["prompt_metadata"] or "{}"),
                "response_a": {
                    "model_name": row["response_a_model"],
                    "response_content": contents["response_a"],
                },
                "response_b": {
                    "model_name": row["response_b_model"],
                    "response_content": contents["response_b"],
                },
                "chosen": str(row["chosen"]).upper(),
                "human_annotations": json.loads(row["human_annotations"] or "[]"),
            }


def _table_content(text: str, images: list[str]) -> list[tuple[str, str]]:
    """Text and images in order: the n-th mark is the n-th image, as ``build_from_hf.py`` reads it.

    Images without a mark follow the text; there they do so only if the text has no mark.

    >>> _table_content("Look: <image_0> Nice.", ["0.png", "1.png"])
    [('text', 'Look:'), ('image', '0.png'), ('text', 'Nice.'), ('image', '1.png')]
    """
    first, *texts = re.split(r"<image_\d+>", text)
    content = [("text", first.strip())]
    for index, behind in enumerate(texts):
        content += [("image", name) for name in images[index : index + 1]]
        content.append(("text", behind.strip()))
    content += [("image", name) for name in images[len(texts) :]]
    return [(kind, value) for kind, value in content if value]


def _other_dataset(difference: str) -> DataBroken:
    return DataBroken(
        f"`{MMRB2_REPO}` on the Hub is not MMRB2 as published: {difference}.",
        hint=f"set `MMRB2_REVISION` to an older commit, or {_MMRB2_HINT}",
    )


class _VerdictEntry(BaseModel):
    judgement: str | None = None


class _Orders(BaseModel):
    forward: tuple[_VerdictEntry, ...] = ()
    reverse: tuple[_VerdictEntry, ...] = ()


def _mmrb2_judge_rows(text: str) -> Iterator[tuple[str, bool, str | None]]:
    """Ids of pairs, whether B is shown first, and the winner in the order shown, in a file of
    ``compute_accuracy.py``.

    The first entry of each order counts. A verdict that names no side counts as wrong there, and as
    none here.
    """
    for pair, orders in TypeAdapter(dict[str, _Orders]).validate_json(text, strict=True).items():
        for is_reversed, entries in ((False, orders.forward), (True, orders.reverse)):
            yield pair, is_reversed, entries[0].judgement if entries else None


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
    lacks an image is left out, while that script goes on without the image. Answers in ``.jsonl``,
    which it reads too, are not read.

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
    rows = _parsed(path, content, TypeAdapter(tuple[_OpeningPeoplesRow, ...]))
    verdict_set = VerdictSet(
        name="opening",
        title="OpenING: pairs of interleaved answers of 11 models",
        licence="none published: not for redistribution",
        source=source,
        pairs=_unique(source, map(_opening_pair, rows)),
        has_answers=False,
        both_orders=False,
    )
    if folder is None or not (folder / "gen_outputs").is_dir():
        return verdict_set
    return _with_answers(verdict_set, partial(_opening_contents, folder))


def _opening_pair(row: _OpeningPeoplesRow) -> Pair:
    models = (row.model_A.name, row.model_B.name)
    return Pair(
        id=" / ".join((row.data_id, *models)),
        sample=row.data_id,
        subset=f"task {row.data_id[:2]}",  # `meta_task_id` of the sample
        winner="A" if _FIRST_WINS[row.winner] else "B",
        is_tie=row.winner.startswith("Tie"),
        votes=(),
        models=models,
        question=(),
        answers=((), ()),
        images=None,
    )


def _opening_contents(folder: Path, pair: Pair) -> _Contents:
    outputs = folder / "gen_outputs"
    paths = [inside(outputs, f"{model}_output/{pair.sample}.json") for model in pair.models]
    file_type = TypeAdapter(_OpeningAnswer)
    a, b = (_parsed(path, read_data_file(path, _REPAIR), file_type).conversations for path in paths)
    question = _opening_content(part for turn in a for part in turn.input)
    answers = []
    for model, turns in zip(pair.models, (a, b), strict=True):
        content = _opening_content(part for turn in turns for part in turn.output)
        beside = tuple(
            (kind, re.split(r"[/\\]", value)[-1] if kind == "image" else value)
            for kind, value in content
        )
        answers.append(_segments_of(beside, outputs / f"{model}_output"))
    return _segments_of(question, folder / "OpenING-benchmark"), (answers[0], answers[1])


def _opening_content(parts: Iterable[_OpeningPart]) -> _ContentPart:
    content: list[tuple[Literal["text", "image"], str]] = []
    for part in parts:
        content.append(
            ("text", (part.text or "").replace("<BEGIN>", "").replace("<image>", "").strip())
        )
        if part.image:
            content.append(("image", part.image))
    return tuple(content)


def _opening_judge_rows(
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
