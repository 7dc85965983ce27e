"""Where MileBench's data comes from: six archives on the Hub.

Below `mmie_tasks.core.files.cache_dir` a download leaves::

    milebench/<commit>/MileBench_part0/<dataset>/<dataset>.json, images/, ...
    milebench/commits/<revision>/MileBench_part0.txt               see `mmie_tasks.hub.commits`
    milebench/downloads/MileBench_part0.tar.gz/                    until it is unpacked

Only the archives that contain the needed datasets are downloaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import cache_dir
from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.asset import CACHE_VARIABLE, Asset, Check, plan_file
from mmie_tasks.hub.commits import CommitNote, HubFolder, revision_setting
from mmie_tasks.hub.download import HubFile, install

REPO = "FreedomIntelligence/MileBench"
_REVISION = "MILEBENCH_REVISION"

# Archive to the datasets in it, as in the OpenVINO sample that evaluates MileBench.
PARTS: tuple[tuple[str, ...], ...] = (
    ("ALFRED", "ActionLocalization", "ActionPrediction", "ActionSequence", "CharacterOrder"),
    ("CLEVR-Change", "CounterfactualInference", "DocVQA", "EgocentricNavigation", "GPR1200"),
    (
        *("IEdit", "ImageNeedleInAHaystack", "MMCoQA"),
        *("MovingAttribute", "MovingDirection", "MultiModalQA"),
    ),
    (
        *("ObjectExistence", "ObjectInteraction", "ObjectShuffle"),
        *("SceneTransition", "StateChange", "nuscenes"),
    ),
    ("OCR-VQA", "SlideVQA", "Spot-the-Diff"),
    ("TQA", "TextNeedleInAHaystack", "WebQA", "WikiVQA"),
)

_HEAD = "53c7a58"  # of the repository since 19 May 2024; the full name is not known to us

_PREFIXES = ("", "MileBench", "MLBench")  # folders that archives have had around the datasets


# The Hub


@dataclass(frozen=True, slots=True, kw_only=True)
class _Archive:
    """An archive on the Hub, and the folder that it is stored below."""

    file: HubFile
    root: Path

    @property
    def stem(self) -> str:  # also the name of its unpacked folder
        return self.file.filename.removesuffix(".tar.gz")

    @property
    def note(self) -> CommitNote:
        folder = self.root / "commits" / self.file.revision.replace("/", "%2F")
        return CommitNote(path=folder / f"{self.stem}.txt")

    def unpacked_commit(self) -> str:
        """The commit that was unpacked; empty if none was."""
        commit = self.note.read()
        return commit if commit and (self.root / commit / self.stem).is_dir() else ""


def dataset_folder(dataset: str, environment: Mapping[str, str]) -> HubFolder:
    """The folder with ``<dataset>.json``, downloaded and unpacked first if necessary.

    Args:
        dataset: Its official name, as in `PARTS`.
        environment: Read: ``MILEBENCH_REVISION`` (branch, tag or commit; by default ``main``), and
            what `mmie_tasks.core.files.cache_dir` reads.

    Raises:
        DataMissing: The archive cannot be downloaded or unpacked.
        DataBroken: The archive is damaged, or lacks the dataset.
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    archive = _archive_of(part_of(dataset), environment)
    if not (commit := archive.unpacked_commit()):
        commit = install(archive.file, archive.root, archive.stem, unpack_once)
        archive.note.write(commit)
        if archive.file.revision == "main" and not commit.startswith(_HEAD):
            logger.warning(
                f"MileBench: `main` of {REPO} is at {commit}, and this package was written for "
                f"{_HEAD}; `{_REVISION}` selects a commit."
            )
    unpacked = archive.root / commit / archive.stem
    if (folder := find_dataset(unpacked, dataset)) is None:
        names = ", ".join(sorted(path.name for path in unpacked.iterdir())[:20]) or "nothing"
        raise DataBroken(
            f"`{unpacked}` should contain `{dataset}/{dataset}.json`, and contains {names}.",
            hint=f"delete that folder and run again: `rm -r '{unpacked}'`",
        )
    return HubFolder(folder=folder, repo=REPO, commit=commit)


def find_dataset(root: Path, dataset: str) -> Path | None:
    """The folder of a dataset in a folder, or in one of those that archives have had around the
    datasets.
    """
    folders = (root / prefix / dataset for prefix in _PREFIXES)
    return next((folder for folder in folders if folder.is_dir()), None)


def _archive_of(part: int, environment: Mapping[str, str]) -> _Archive:
    """The archive with this number, as `dataset_folder` would download it; does not connect."""
    file = HubFile(
        repo=REPO,
        filename=f"MileBench_part{part}.tar.gz",
        revision=revision_setting(environment, _REVISION, REPO) or "main",
        alternative="set `MILEBENCH_DATA` to a folder with the unpacked datasets",
    )
    return _Archive(file=file, root=cache_dir(environment) / "milebench")


def part_of(dataset: str) -> int:
    """The number of the archive that contains a dataset."""
    return next(part for part, names in enumerate(PARTS) if dataset in names)


def archive_asset(
    part: int, datasets: Sequence[str], environment: Mapping[str, str], check: Check
) -> Asset:
    """An archive with these datasets; `check` is shared by all archives.

    Raises:
        SettingWrong: ``MILEBENCH_REVISION`` cannot be a revision.
    """
    archive = _archive_of(part, environment)
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
        settings=(_REVISION,),
        checks=(check,),
    )
