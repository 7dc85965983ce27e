"""Downloads those of MileBench's six archives on the Hub that contain the needed datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.hub.archives import unpack
from mmie_tasks.hub.asset import Asset, Check
from mmie_tasks.hub.dataset import HubDataset, HubFolder

REPO = "FreedomIntelligence/MileBench"

# The datasets in each archive, as in the OpenVINO sample that evaluates MileBench.
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

_PREFIXES = ("", "MileBench", "MLBench")  # folders around the datasets in some archives

_ALTERNATIVE = "set `MILEBENCH_DATA` to a folder with the unpacked datasets"


def dataset_folder(dataset: str) -> HubFolder:
    """The folder with ``<dataset>.json``, downloaded and unpacked if necessary.

    Args:
        dataset: The official name, as in `PARTS`.

    Raises:
        DataMissing: The archive cannot be downloaded or unpacked.
        DataBroken: The archive is damaged, or lacks the dataset.
    """
    archive = _archive(part_of(dataset))
    unpacked = archive.fetch()
    if (folder := find_dataset(unpacked.folder, dataset)) is None:
        names = ", ".join(sorted(path.name for path in unpacked.folder.iterdir())[:20])
        raise DataBroken(
            f"`{unpacked.folder}` should contain `{dataset}/{dataset}.json`, and contains "
            f"{names or 'nothing'}.",
            hint=f"delete that folder and run again: `rm -r '{unpacked.folder}'`",
        )
    return replace(unpacked, folder=folder)


def find_dataset(root: Path, dataset: str) -> Path | None:
    """The folder of a dataset, in the root or a known folder of the archives; None if missing."""
    folders = (root / prefix / dataset for prefix in _PREFIXES)
    return next((folder for folder in folders if folder.is_dir()), None)


def part_of(dataset: str) -> int:
    """The number of the archive that contains a dataset."""
    return next(part for part, names in enumerate(PARTS) if dataset in names)


def archive_asset(part: int, datasets: Sequence[str], check: Check) -> Asset:
    """An archive with these datasets; `check` is shared by all archives."""

    def fetch() -> str:
        sources = {dataset_folder(dataset).source for dataset in datasets}
        return f"{', '.join(datasets)} of {', '.join(sorted(sources))} are here"

    asset = _archive(part).asset(f"milebench: data, part {part}", check)
    return replace(asset, fetch=fetch)


def _archive(part: int) -> HubDataset:
    name = f"MileBench_part{part}"
    return HubDataset(
        repo=REPO,
        files=(f"{name}.tar.gz",),
        fill=partial(_fill, f"{name}.tar.gz"),
        name=name,
        alternative=_ALTERNATIVE,
    )


def _fill(filename: str, snapshot: Path, folder: Path) -> None:
    unpack(snapshot / filename, folder)
