"""MileBench from the Hub: the one archive that holds a dataset, downloaded, checked, unpacked.

Below `mmie_tasks.core.paths.cache_dir` there is then::

    milebench/<commit>/MileBench_part0/<dataset>/<dataset>.json, images/, ...
    milebench/commits/<what was asked>/MileBench_part0.txt          the commit, in words
    milebench/downloads/<etag>/MileBench_part0.tar.gz.part          while it is being downloaded

The text file is written last. With it and the unpacked folder nobody is asked again, and the
machine may be offline. To follow a branch that has moved, delete the text file.

An archive that the Hub's own cache holds already is used from there and stays. Any other is
downloaded by `mmie_tasks.hub.download`, which goes on where a killed run stopped, and deleted
once it is unpacked: nothing is kept twice.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import cast

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.download import HubFile, InCache, OnHub, download, locate, remove, turn, verify

REPO = "FreedomIntelligence/MileBench"
_HUB = "https://huggingface.co"

# Which archive holds which dataset: as the OpenVINO sample that evaluates MileBench has it.
PARTS: tuple[tuple[str, ...], ...] = (
    ("ALFRED", "ActionLocalization", "ActionPrediction", "ActionSequence", "CharacterOrder"),
    ("CLEVR-Change", "CounterfactualInference", "DocVQA", "EgocentricNavigation", "GPR1200"),
    (
        "IEdit",
        "ImageNeedleInAHaystack",
        "MMCoQA",
        "MovingAttribute",
        "MovingDirection",
        "MultiModalQA",
    ),
    (
        "ObjectExistence",
        "ObjectInteraction",
        "ObjectShuffle",
        "SceneTransition",
        "StateChange",
        "nuscenes",
    ),
    ("OCR-VQA", "SlideVQA", "Spot-the-Diff"),
    ("TQA", "TextNeedleInAHaystack", "WebQA", "WikiVQA"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pin:
    size_bytes: int | None
    sha256: tuple[str, str]  # its first and last hex digits


# The archives as of commit a97b35f (16 May 2024); the commit's full name is not known to us, so it
# is their content that is pinned.
_PINS = (
    _Pin(size_bytes=3_974_906_269, sha256=("c7258cc5", "328b40")),
    _Pin(size_bytes=2_625_281_958, sha256=("e90d5d4e", "27090a")),
    _Pin(size_bytes=2_018_154_102, sha256=("0e84fef4", "9c9505")),
    _Pin(size_bytes=2_461_787_975, sha256=("ac682d19", "d2b16")),
    _Pin(size_bytes=2_512_746_509, sha256=("05471d50", "209be")),
    _Pin(size_bytes=None, sha256=("77283fae", "")),
)
_REVISION = re.compile(r"[\w][\w.\-/]*", re.ASCII)
_PREFIXES = ("", "MileBench", "MLBench")  # folders that archives have had around the datasets


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFolder:
    """The folder that holds ``<dataset>.json``, and the commit (40 hex digits) it is from."""

    folder: Path
    revision: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive on the Hub, and the folder that it is unpacked below."""

    file: HubFile
    root: Path

    @property
    def stem(self) -> str:
        """Its name without endings, which its unpacked folder has."""
        return self.file.filename.removesuffix(".tar.gz")

    @property
    def note(self) -> Path:
        """The text file with the commit it was unpacked of."""
        revision = f"revision={self.file.revision.replace('/', '%2F')}"
        asked = "pinned" if self.file.sha256 else revision
        return self.root / "commits" / asked / f"{self.stem}.txt"

    def unpacked(self) -> str:
        """The commit it was unpacked of; empty where it was not."""
        commit = self.note.read_text(encoding="ascii").strip() if self.note.is_file() else ""
        return commit if commit and (self.root / commit / self.stem).is_dir() else ""


def dataset_folder(dataset: str, environment: Mapping[str, str]) -> HubFolder:
    """A dataset's folder, downloaded and unpacked first where it is not there yet.

    Args:
        dataset: Its official name, as in `PARTS`.
        environment: ``MILEBENCH_REVISION`` (branch, tag or commit) takes what the Hub has there;
            unset, it is ``main`` and the archive must be the one pinned here. From another Hub
            (``HF_ENDPOINT``) a different archive is taken with a warning, and kept apart: whoever
            set it answers for what it serves. And what `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No such dataset; or the archive cannot be downloaded or unpacked here.
        DataBroken: The archive, or what it holds, is not what it should be.
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    archive = archive_of(part_of(dataset), environment)
    root, stem = archive.root, archive.stem
    commit = archive.unpacked()
    if not commit:
        commit = _unpacked(archive.file, root, stem)
        with atomic_write(archive.note) as unfinished:
            unfinished.write_text(f"{commit}\n", encoding="ascii")
    return HubFolder(folder=_below(root / commit / stem, dataset), revision=commit)


def archive_of(part: int, environment: Mapping[str, str]) -> Archive:
    """An archive as `dataset_folder` asks for it; nobody is asked yet.

    Raises:
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    mirror = _mirror(environment)
    revision = environment.get("MILEBENCH_REVISION", "")
    root = cache_dir(environment) / "milebench"
    if mirror and not revision:
        root /= f"mirror-{mirror}"
    return Archive(file=_archive(part, revision, binding=not mirror), root=root)


def part_of(dataset: str) -> int:
    """The number of the archive that holds a dataset.

    Raises:
        DataMissing: No archive does; names what is there.
    """
    for part, names in enumerate(PARTS):
        if dataset in names:
            return part
    folded = {name.lower(): name for names in PARTS for name in names}
    close = difflib.get_close_matches(dataset.lower(), folded, cutoff=0.5) or folded
    listed = ", ".join(f"`{folded[name]}`" for name in close)
    raise DataMissing(f"MileBench has no dataset `{dataset}`.", hint=f"it has {listed}")


def _mirror(environment: Mapping[str, str]) -> str:
    """A name for the Hub that ``HF_ENDPOINT`` points to; empty for the real one."""
    endpoint = environment.get("HF_ENDPOINT", "").rstrip("/")
    return "" if endpoint in ("", _HUB) else re.sub(r"[^\w.-]+", "_", endpoint)


def _archive(part: int, revision: str, *, binding: bool) -> HubFile:
    if revision and (".." in revision or not _REVISION.fullmatch(revision)):
        raise SettingWrong(
            f"`MILEBENCH_REVISION` is {revision!r}, which cannot be a revision.",
            hint="name a branch, a tag or a commit, or unset it",
        )
    pin = None if revision else _PINS[part]
    folder = "set `MILEBENCH_DATA` to a folder with the unpacked datasets"
    return HubFile(
        repo=REPO,
        filename=f"MileBench_part{part}.tar.gz",
        revision=revision or "main",
        size_bytes=pin.size_bytes if pin else None,
        sha256=pin.sha256 if pin else None,
        binding=binding,
        instead=f"{folder}, or `MILEBENCH_REVISION` to the commit you want" if pin else folder,
    )


def _unpacked(archive: HubFile, root: Path, stem: str) -> str:
    """Download and unpack an archive, unless either was done before; the commit it belongs to."""
    found = locate(archive)
    folder = root / found.commit / stem
    check = partial(verify, archive, sha256=found.sha256)
    match found:
        case InCache(path=path):
            unpack_once(path, folder, check)
        case OnHub():
            with turn(archive, root / "downloads"):
                _download_and_unpack(found, root / "downloads", folder, check)
    return found.commit


def _download_and_unpack(
    found: OnHub, downloads: Path, folder: Path, check: Callable[[Path], None]
) -> None:
    """The archive goes when the folder is there; what else fails leaves it for the next run."""
    if not folder.is_dir():
        archive = download(found, downloads)
        unpack_once(archive, folder, check)
        logger.info(f"Deleting `{archive}`: it is unpacked, and no later run needs it.")
    remove(found.file, downloads)


def _below(unpacked: Path, dataset: str) -> Path:
    for prefix in _PREFIXES:
        folder = unpacked / prefix / dataset
        if (folder / f"{dataset}.json").is_file():
            return folder
    found = ", ".join(sorted(path.name for path in unpacked.iterdir())[:20]) or "nothing"
    raise DataBroken(
        f"`{unpacked}` should hold `{dataset}/{dataset}.json`, and holds {found}.",
        hint=f"delete that folder and run again: `rm -r '{unpacked}'`",
    )


# MileBench's annotation files: in a local folder, or in the archives on the Hub.
#
# Layout (FreedomIntelligence/MileBench, inside its archives): ``<DATASET>/<DATASET>.json``,
# ``<DATASET>/<DATASET>-adv.json``, ``<DATASET>/images/``, ``<DATASET>/combined_1_images/``.

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
