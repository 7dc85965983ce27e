"""MMRB2: people's verdicts on pairs of interleaved answers, and judges' files on them.

It is not part of this package: it is for non-commercial use only. It is downloaded when it is used,
below `mmie_tasks.core.files.cache_dir`: the tables of the Hub's newest commit or a named one,
written with their images byte for byte. Their verdicts are compared with the published ones::

    mmrb2/<commit>/interleaved/<table>/interleaved.json, images/...
    mmrb2/commits/<revision>.txt                   see `mmie_tasks.hub.commits`
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated

from loguru import logger
from pydantic import BaseModel, Field, TypeAdapter

from mmie_tasks.benchmarks.json_file import read_data_file
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import create_folder_once, readable_size
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, download_failure, install
from mmie_tasks.hub.failures import download_errors
from mmie_tasks.hub.images import image_suffix
from mmie_tasks.quality.judge_exam.verdicts import (
    REPAIR,
    Contents,
    Pair,
    PublishedContent,
    Side,
    VerdictSet,
    parsed_file,
    problem_of,
    segments_of,
    unique_pairs,
    with_answers,
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
    response_content: PublishedContent


class _Mmrb2Row(BaseModel):
    id: str
    prompt_content: PublishedContent | None = None
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
    hint, file_type = _MMRB2_HINT if folder else REPAIR, TypeAdapter(_Mmrb2File)
    rows = {}
    pairs = []
    for path in paths:
        for row in parsed_file(path, read_data_file(path, hint), file_type).pairs:
            rows[row.id] = (row, path.parent)
            pairs.append(_mmrb2_pair(row))
    is_published = verdicts_sha256(pairs) == MMRB2_VERDICTS_SHA256
    verdict_set = VerdictSet(
        name="mmrb2",
        title="MMRB2: pairs of interleaved answers, each rated by three experts",
        licence="CC BY-NC 4.0 (non-commercial use only)",
        source=f"{location} ({'' if is_published else 'not '}the published verdicts)",
        pairs=unique_pairs(location, pairs),
        has_answers=False,
        both_orders=True,
    )
    if all(row.prompt_content is None for row, _ in rows.values()):
        return verdict_set
    return with_answers(verdict_set, lambda pair: _mmrb2_contents(*rows[pair.id]))


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
        answers=(segments_of(a, None), segments_of(b, None)),
        images=(sum(kind == "image" for kind, _ in a), sum(kind == "image" for kind, _ in b)),
    )


def _mmrb2_contents(row: _Mmrb2Row, folder: Path) -> Contents:
    contents = (row.prompt_content or (), row.response_a.response_content)
    question, a = (segments_of(content, folder) for content in contents)
    return question, (a, segments_of(row.response_b.response_content, folder))


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
    pattern = re.compile(r"interleaved/[\w.-]+\.parquet")
    tables = [entry for entry in info.siblings or () if pattern.fullmatch(entry.rfilename)]
    if not tables or not info.sha:
        raise _other_dataset(f"there is no `interleaved/*.parquet` at revision `{revision}`")
    size = readable_size(sum(table.size or 0 for table in tables))
    logger.info(
        f"MMRB2 (CC BY-NC 4.0) needs {size} from the Hub, and as much on the disk for its images."
    )
    for table in tables:
        table_file = replace(file, filename=table.rfilename, revision=info.sha)
        name, write = table.rfilename.removesuffix(".parquet"), partial(_write_pairs, table_file)
        commit = install(table_file, _MMRB2.root(environment), name, write)
    return _MMRB2.stored(commit, environment)


def _write_pairs(file: HubFile, table: Path, destination: Path) -> None:
    """Write the pairs of a table and their images to a folder, unless it exists."""

    def write(folder: Path) -> None:
        (folder / "images").mkdir()
        content = json.dumps({"pairs": list(_table_pairs(table, folder))}).encode()
        _Mmrb2File.model_validate_json(content, strict=True)
        (folder / "interleaved.json").write_bytes(content)

    try:
        create_folder_once(destination, write, f"writing `{destination}`")
    except OSError as error:
        raise download_failure(file, error, is_downloading=True) from error
    except (ValueError, TypeError, KeyError) as error:  # of pyarrow, pydantic and JSON
        raise _other_dataset(f"`{file.filename}`: {problem_of(error)}") from error


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
                    suffix = image_suffix(image["bytes"]) or ".bin"  # no image: see `segments_of`
                    names.append(f"images/{number:04d}-{part}-{len(names)}{suffix}")
                    (folder / names[-1]).write_bytes(image["bytes"])
                contents[part] = _table_content(row[f"{part}_text"] or "", names)
            answers = {
                part: {"model_name": row[f"{part}_model"], "response_content": contents[part]}
                for part in ("response_a", "response_b")
            }
            yield {
                "id": row["pair_id"],
                "prompt_content": contents["prompt"],
                "prompt_source": row["prompt_source"],
                "prompt_metadata": json.loads(row["prompt_metadata"] or "{}"),
                **answers,
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


def mmrb2_judge_rows(text: str) -> Iterator[tuple[str, bool, str | None]]:
    """Ids of pairs, whether B is shown first, and the winner in the order shown, in a file of
    ``compute_accuracy.py``.

    The first entry of each order counts.
    """
    for pair, orders in TypeAdapter(dict[str, _Orders]).validate_json(text, strict=True).items():
        for is_reversed, entries in ((False, orders.forward), (True, orders.reverse)):
            yield pair, is_reversed, entries[0].judgement if entries else None
