"""MileBench's annotation files: in a local folder, or in the archives on the Hub.

Layout (FreedomIntelligence/MileBench, inside its archives): ``<DATASET>/<DATASET>.json``,
``<DATASET>/<DATASET>-adv.json``, ``<DATASET>/images/``, ``<DATASET>/combined_1_images/``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mmie_tasks.errors import DataBroken, DataMissing, MmieTasksError
from mmie_tasks.sources.milebench_hub import dataset_folder

_PREFIXES = ("", "MileBench", "MLBench")  # folders older archives put around the datasets
_LAYOUT = (
    "the official layout is `<DATASET>/<DATASET>.json` beside `<DATASET>/images/`; "
    "point `MILEBENCH_DATA` at the folder above, or unset it to download from the Hub"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """One annotation file, read and checked as far as it is the same for every dataset."""

    path: Path
    question_type: str
    instructions: Sequence[str]
    entries: Sequence[object]
    revision: str  # of the data: a commit on the Hub, or a digest of the local file

    @property
    def images(self) -> Path:
        """The folder the image names are relative to."""
        return self.path.parent / "images"

    @property
    def combined(self) -> Path:
        """The folder of the combined pictures; few archives have it."""
        return self.path.parent / "combined_1_images"


def annotation(dataset: str, environment: Mapping[str, str], *, adversarial: bool) -> Annotation:
    """Find and read the annotation file of a dataset.

    From ``MILEBENCH_DATA`` where that is set, otherwise from the Hub. Folder and file names are
    recognised whatever their case and separators (``action_localization``, ``CLEVR_Change``).

    Raises:
        DataMissing: No such folder or file, or the Hub does not give it.
        DataBroken: The file is not JSON of the official form.
    """
    revision = ""
    if local := environment.get("MILEBENCH_DATA"):
        folder = _local_folder(Path(local).expanduser(), dataset)
    else:
        fetched = dataset_folder(dataset, environment)
        folder, revision = fetched.folder, fetched.revision
    path = _annotation_file(folder, f"{dataset}-adv" if adversarial else dataset)
    content = path.read_bytes()
    return _checked(path, content, revision or f"sha256:{hashlib.sha256(content).hexdigest()[:12]}")


def _same(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _local_folder(root: Path, dataset: str) -> Path:
    if not root.is_dir():
        raise DataMissing(f"`MILEBENCH_DATA` is `{root}`: there is no such folder.", hint=_LAYOUT)
    for prefix in _PREFIXES:
        base = root / prefix
        for folder in sorted(base.iterdir()) if base.is_dir() else ():
            if folder.is_dir() and _same(folder.name) == _same(dataset):
                return folder
    if _same(root.name) == _same(dataset):
        return root
    there = ", ".join(sorted(f.name for f in root.iterdir() if f.is_dir())) or "no folder at all"
    raise DataMissing(
        f"MileBench's dataset `{dataset}` is not in `{root}`; there: {there}.", hint=_LAYOUT
    )


def _annotation_file(folder: Path, stem: str) -> Path:
    for path in sorted(folder.glob("*.json")):
        if _same(path.stem) == _same(stem):
            return path
    raise DataMissing(f"`{folder}` holds no `{stem}.json`.", hint=_LAYOUT)


def _broken(path: Path, what: str) -> MmieTasksError:
    return DataBroken(f"`{path}`: {what}.", hint="fetch this annotation file again, or repair it")


def _checked(path: Path, content: bytes, revision: str) -> Annotation:
    try:
        whole = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested without end
        raise _broken(path, f"not JSON ({error})") from error
    meta = whole.get("meta_data") if isinstance(whole, dict) else None
    entries = whole.get("data") if isinstance(whole, dict) else None
    if not isinstance(meta, dict) or not isinstance(entries, list):
        raise _broken(path, "no `meta_data` object and `data` list in it")
    instructions = meta.get("task_instruction")
    if not isinstance(instructions, list) or not all(isinstance(i, str) for i in instructions):
        raise _broken(path, "`meta_data.task_instruction` is not a list of texts")
    _check_ids(path, entries)
    return Annotation(
        path=path,
        question_type=str(meta.get("question_type")),
        instructions=cast("list[str]", instructions),
        entries=entries,
        revision=revision,
    )


def _check_ids(path: Path, entries: Sequence[object]) -> None:
    """Samples are joined to answers by their ids, so none may stand twice."""
    first: dict[str, int] = {}
    for position, entry in enumerate(entries):
        if not isinstance(entry, dict):
            continue  # reading the sample says what is wrong with it
        sample_id = str(entry.get("sample_id"))
        if sample_id in first:
            raise _broken(
                path, f"`sample_id` {sample_id} stands twice, at {first[sample_id]} and {position}"
            )
        first[sample_id] = position
