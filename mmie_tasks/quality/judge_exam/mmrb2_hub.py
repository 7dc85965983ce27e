"""Downloads MMRB2 from the Hub: its tables become files as ``build_from_hf.py`` writes them.

The tables are those of the Hub's newest commit or a named one. Their images are written byte for
byte, below `mmie_tasks.core.files.cache_dir`::

    mmrb2/<commit>/interleaved/<table>/interleaved.json, images/...
    mmrb2/commits/<revision>.txt                   see `mmie_tasks.hub.commits`
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import create_folder_once, readable_size
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, download_failure, install
from mmie_tasks.hub.failures import download_errors
from mmie_tasks.hub.images import image_suffix
from mmie_tasks.quality.judge_exam.mmrb2_files import MMRB2_HINT, Mmrb2File
from mmie_tasks.quality.judge_exam.published_files import first_problem

MMRB2_REPO = "rl-research/multimodal-rewardbench-2"

_MMRB2 = HubDataset(
    repo=MMRB2_REPO, name="mmrb2", variable="MMRB2_REVISION", required=("interleaved",)
)


def mmrb2_from_hub(environment: Mapping[str, str]) -> HubFolder:
    """The folder with tables as files, downloaded first if necessary."""
    from huggingface_hub import HfApi

    if cached := _MMRB2.cached(environment):
        return cached
    revision = _MMRB2.revision(environment)
    file = HubFile(
        repo=MMRB2_REPO, filename="interleaved/", revision=revision, alternative=MMRB2_HINT
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
        Mmrb2File.model_validate_json(content, strict=True)
        (folder / "interleaved.json").write_bytes(content)

    try:
        create_folder_once(destination, write, f"writing `{destination}`")
    except OSError as error:
        raise download_failure(file, error, is_downloading=True) from error
    except (ValueError, TypeError, KeyError) as error:  # of pyarrow, pydantic and JSON
        raise _other_dataset(f"`{file.filename}`: {first_problem(error)}") from error


def _table_pairs(table: Path, folder: Path) -> Iterator[dict[str, object]]:
    """Rows of a table in the form of `Mmrb2Row`; their images are written below `folder`."""
    import pyarrow.parquet  # type: ignore[import-untyped]

    with pyarrow.parquet.ParquetFile(table) as parquet:
        rows = (row for batch in parquet.iter_batches(batch_size=16) for row in batch.to_pylist())
        for number, row in enumerate(rows):
            contents = {}
            for part in ("prompt", "response_a", "response_b"):
                names: list[str] = []
                for image in row[f"{part}_images"] or []:
                    suffix = (
                        image_suffix(image["bytes"]) or ".bin"
                    )  # no image: see `parts_in_order`
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
        hint=f"set `MMRB2_REVISION` to an older commit, or {MMRB2_HINT}",
    )
