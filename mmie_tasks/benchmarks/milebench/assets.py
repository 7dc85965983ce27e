"""Where MileBench's files come from: a local folder, or six archives on the Hub.

Below `mmie_tasks.core.paths.cache_dir` a download leaves::

    milebench/<commit>/MileBench_part0/<dataset>/<dataset>.json, images/, ...
    milebench/commits/pinned/MileBench_part0.txt   see `mmie_tasks.hub.revisions`
    milebench/commits/revision=<revision>/...      the same, of an archive that is not pinned
    milebench/downloads/<etag>/MileBench_part0.tar.gz.part         while it is downloaded
    milebench/mirror-<host>/...                    the same, from another ``HF_ENDPOINT``

Only the archives that contain the needed datasets are downloaded.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, Variant, has_variant
from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.asset import CACHE_VARIABLE, Asset, Check, JsonFile, local_asset, plan_file, read_json_file
from mmie_tasks.hub.download import HubFile, install
from mmie_tasks.hub.revisions import CommitNote, HubFolder, revision_setting

REPO = "FreedomIntelligence/MileBench"

# Archive to the datasets in it, as in the OpenVINO sample that evaluates MileBench.
PARTS: tuple[tuple[str, ...], ...] = (
    ("ALFRED", "ActionLocalization", "ActionPrediction", "ActionSequence", "CharacterOrder"),
    ("CLEVR-Change", "CounterfactualInference", "DocVQA", "EgocentricNavigation", "GPR1200"),
    (*("IEdit", "ImageNeedleInAHaystack", "MMCoQA"), *("MovingAttribute", "MovingDirection", "MultiModalQA")),
    (*("ObjectExistence", "ObjectInteraction", "ObjectShuffle"), *("SceneTransition", "StateChange", "nuscenes")),
    ("OCR-VQA", "SlideVQA", "Spot-the-Diff"),
    ("TQA", "TextNeedleInAHaystack", "WebQA", "WikiVQA"),
)

REPAIR = "repair it, or replace it by the published file; if a run has downloaded it, delete its folder and run again"
"""What to do about an unusable annotation file: the hint of errors."""

_HUB = "https://huggingface.co"
_PREFIXES = ("", "MileBench", "MLBench")  # folders that archives have had around the datasets
_LAYOUT = (
    "the official layout is `<DATASET>/<DATASET>.json` beside `<DATASET>/images/`; "
    "point `MILEBENCH_DATA` at the folder above, or unset it to download from the Hub"
)


# Size in bytes, and the first and last hex digits of the SHA-256, of each archive as of commit
# a97b35f (16 May 2024). The full name of that commit is not known to us, so the content is pinned.
_PINS: tuple[tuple[int | None, tuple[str, str]], ...] = (
    (3_974_906_269, ("c7258cc5", "328b40")),
    (2_625_281_958, ("e90d5d4e", "27090a")),
    (2_018_154_102, ("0e84fef4", "9c9505")),
    (2_461_787_975, ("ac682d19", "d2b16")),
    (2_512_746_509, ("05471d50", "209be")),
    (None, ("77283fae", "")),
)

# The Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """An archive on the Hub.

    Attributes:
        file: The file on the Hub.
        root: The folder that it is stored below.
    """

    file: HubFile
    root: Path

    @property
    def stem(self) -> str:
        """The name of the archive without extensions, and of its unpacked folder."""
        return self.file.filename.removesuffix(".tar.gz")

    @property
    def note(self) -> CommitNote:
        """The note with the commit that was unpacked."""
        name = "pinned" if self.file.sha256 else f"revision={self.file.revision.replace('/', '%2F')}"
        return CommitNote(path=self.root / "commits" / name / f"{self.stem}.txt")

    def unpacked_commit(self) -> str:
        """The commit that was unpacked; empty if none was."""
        commit = self.note.read()
        return commit if commit and (self.root / commit / self.stem).is_dir() else ""


def dataset_folder(dataset: str, environment: Mapping[str, str]) -> HubFolder:
    """The folder with ``<dataset>.json``, downloaded and unpacked first if necessary.

    Args:
        dataset: Its official name, as in `PARTS`.
        environment: ``MILEBENCH_REVISION`` (branch, tag or commit) selects what the Hub has there; if it is not set, it
            is ``main`` and the archive must be the pinned one. From another Hub (``HF_ENDPOINT``) a different archive
            is accepted with a warning, and stored apart: whoever sets it is responsible for its content. Also read:
            what `mmie_tasks.core.paths.cache_dir` reads.

    Raises:
        DataMissing: No such dataset; or the archive cannot be downloaded or unpacked.
        DataBroken: The archive, or its content, is not the expected one.
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    archive = archive_of(part_of(dataset), environment)
    if not (commit := archive.unpacked_commit()):
        commit = install(archive.file, archive.root, archive.stem, unpack_once)
        archive.note.write(commit)
    unpacked = archive.root / commit / archive.stem
    folder = _find_dataset(unpacked, dataset)
    if folder is None or not (folder / f"{dataset}.json").is_file():
        names = ", ".join(sorted(path.name for path in unpacked.iterdir())[:20]) or "nothing"
        raise DataBroken(
            f"`{unpacked}` should contain `{dataset}/{dataset}.json`, and contains {names}.",
            hint=f"delete that folder and run again: `rm -r '{unpacked}'`",
        )
    return HubFolder(folder=folder, repo=REPO, commit=commit)


def _find_dataset(root: Path, dataset: str) -> Path | None:
    """The folder of a dataset in a folder, or in one of those that archives have had around the datasets."""
    for base in (root / prefix for prefix in _PREFIXES):
        for folder in sorted(base.iterdir()) if base.is_dir() else ():
            if folder.is_dir() and _letters(folder.name) == _letters(dataset):
                return folder
    return None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def archive_of(part: int, environment: Mapping[str, str]) -> Archive:
    """The archive with this number, as `dataset_folder` would download it; does not connect.

    Raises:
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    revision = revision_setting(environment, "MILEBENCH_REVISION", REPO)
    endpoint = environment.get("HF_ENDPOINT", "").rstrip("/")
    is_mirror = endpoint not in ("", _HUB)
    root = cache_dir(environment) / "milebench"
    if is_mirror and not revision:
        root /= "mirror-" + re.sub(r"[^\w.-]+", "_", endpoint)
    size_bytes, sha256 = (None, None) if revision else _PINS[part]
    alternative = "set `MILEBENCH_DATA` to a folder with the unpacked datasets"
    if not revision:
        alternative += ", or `MILEBENCH_REVISION` to the commit you want"
    file = HubFile(
        repo=REPO,
        filename=f"MileBench_part{part}.tar.gz",
        revision=revision or "main",
        size_bytes=size_bytes,
        sha256=sha256,
        binding=not is_mirror,
        alternative=alternative,
    )
    return Archive(file=file, root=root)


def part_of(dataset: str) -> int:
    """The number of the archive that contains a dataset.

    Raises:
        DataMissing: None does; lists similar names.
    """
    for part, names in enumerate(PARTS):
        if dataset in names:
            return part
    folded = {name.lower(): name for names in PARTS for name in names}
    close = difflib.get_close_matches(dataset.lower(), folded, cutoff=0.5) or folded
    listed = ", ".join(f"`{folded[name]}`" for name in close)
    raise DataMissing(f"MileBench has no dataset `{dataset}`.", hint=f"it has {listed}")


# Annotation files, in a local folder or in the archives


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotation:
    """An annotation file, checked as far as all datasets have the same form.

    Attributes:
        path: ``<DATASET>/<DATASET>.json`` or ``<DATASET>/<DATASET>-adv.json``.
        question_type: As in its ``meta_data``.
        instructions: The task instructions of its ``meta_data``.
        entries: Its samples, unchecked.
        revision: Of the data: a commit on the Hub, or a digest of the local file.
    """

    path: Path
    question_type: str
    instructions: Sequence[str]
    entries: Sequence[object]
    revision: str

    @property
    def images(self) -> Path:
        """The folder that image names are relative to."""
        return self.path.parent / "images"

    @property
    def combined(self) -> Path:
        """The folder of the combined images; few archives have it."""
        return self.path.parent / "combined_1_images"


def annotation(dataset: str, environment: Mapping[str, str], *, adversarial: bool) -> Annotation:
    """Find and read the annotation file of a dataset.

    From ``MILEBENCH_DATA`` if it is set, otherwise from the Hub. Folder and file names are
    recognised whatever their case and separators (``action_localization``, ``CLEVR_Change``).

    Raises:
        DataMissing: No such folder or file, or it cannot be downloaded.
        DataBroken: The file is not JSON of the official form.
    """
    commit = ""
    if local := environment.get("MILEBENCH_DATA"):
        folder = _local_folder(Path(local).expanduser(), dataset)
    else:
        hub_folder = dataset_folder(dataset, environment)
        folder, commit = hub_folder.folder, hub_folder.commit
    stem = f"{dataset}-adv" if adversarial else dataset
    files = (file for file in sorted(folder.glob("*.json")) if _letters(file.stem) == _letters(stem))
    if (path := next(files, None)) is None:
        raise DataMissing(f"`{folder}` contains no `{stem}.json`.", hint=_LAYOUT)
    return _checked_annotation(path, read_json_file(path, layout=_LAYOUT, repair=REPAIR), commit)


def _local_folder(root: Path, dataset: str) -> Path:
    if not root.is_dir():
        raise DataMissing(f"`MILEBENCH_DATA` is `{root}`: there is no such folder.", hint=_LAYOUT)
    if folder := _find_dataset(root, dataset):
        return folder
    if _letters(root.name) == _letters(dataset):
        return root
    folders = ", ".join(sorted(f.name for f in root.iterdir() if f.is_dir())) or "no folder at all"
    raise DataMissing(f"MileBench's dataset `{dataset}` is not in `{root}`, which contains: {folders}.", hint=_LAYOUT)


def _broken(path: Path, problem: str) -> MmieTasksError:
    return DataBroken(f"`{path}`: {problem}.", hint=REPAIR)


def _checked_annotation(path: Path, file: JsonFile, commit: str) -> Annotation:
    fields = file.value if isinstance(file.value, dict) else {}
    meta, entries = fields.get("meta_data"), fields.get("data")
    if not isinstance(meta, dict) or not isinstance(entries, list):
        raise _broken(path, "no `meta_data` object and `data` list in it")
    instructions = meta.get("task_instruction")
    if not isinstance(instructions, list) or not all(isinstance(i, str) for i in instructions):
        raise _broken(path, "`meta_data.task_instruction` is not a list of texts")
    return Annotation(
        path=path,
        question_type=str(meta.get("question_type")),
        instructions=cast("list[str]", instructions),
        entries=entries,
        revision=commit or file.digest,
    )


# Assets


def assets(tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The archives with the datasets of these tasks.

    Args:
        tasks: Tasks of MileBench; all if none is named.
        environment: Read: ``MILEBENCH_*``, and what `dataset_folder` reads.

    Raises:
        SettingWrong: A setting of MileBench is invalid.
    """
    name = "milebench: data"
    datasets = datasets_of(tasks)
    names = ("all",) if set(datasets) == set(DATASETS) else datasets
    check = Check(subject=name, describe=lambda: _describe_data(names, environment))
    everything = Check(subject=name, describe=lambda: _describe_data(("all",), environment))
    if local := local_asset(name, "MILEBENCH_DATA", environment, (everything,)):
        return [local]
    parts: dict[int, list[str]] = {}
    for dataset in datasets:
        parts.setdefault(part_of(dataset), []).append(dataset)
    return [_archive(part, parts[part], environment, check) for part in sorted(parts)]


def datasets_of(tasks: Iterable[str]) -> tuple[str, ...]:
    """The datasets that these tasks read; all if there are no tasks.

    >>> datasets_of(["milebench_DocVQA", "milebench_DocVQA_adv"])
    ('DocVQA',)
    """
    datasets: list[str] = []
    for task in tasks:  # named `milebench[_<dataset>][_<variant>]`
        words = task.split("_")[1:]
        variant = words.pop() if words and words[-1] in VARIANTS else "test"
        datasets += words[:1] or (name for name in DATASETS if has_variant(name, cast("Variant", variant)))
    return tuple(dict.fromkeys(datasets)) or DATASETS


def _archive(part: int, datasets: Sequence[str], environment: Mapping[str, str], check: Check) -> Asset:
    archive = archive_of(part, environment)
    commit, filename = archive.unpacked_commit(), archive.file.filename

    def fetch() -> str:
        revisions = {dataset_folder(dataset, environment).revision for dataset in datasets}
        return f"{', '.join(datasets)} of {', '.join(sorted(revisions))} are here"

    folder = cache_dir(environment).absolute()
    return Asset(
        name=f"milebench: data, part {part}",
        source=f"{REPO}@{commit}: {filename}" if commit else f"{REPO}: {filename}",
        folder=folder,
        is_here=lambda: bool(archive.unpacked_commit()),
        plan=lambda: plan_file(archive.file, archive.root.absolute(), archive.stem, unpacked=True),
        fetch=fetch,
        copies={CACHE_VARIABLE: folder},
        checks=(check,),
    )


def _describe_data(names: Sequence[str], environment: Mapping[str, str]) -> str:
    from mmie_tasks.benchmarks.milebench import data, task

    counts: Counter[str] = Counter()
    for name in names:
        docs = data.dataset(name, environment)
        task.check_data(docs)
        counts.update(docs["dataset"])
    datasets = "1 dataset" if len(counts) == 1 else f"{len(counts)} datasets"
    return f"{counts.total():,} samples of {datasets}; no image is missing"
