"""MileBench's samples as a `datasets.Dataset` of image paths, from a local folder or the Hub.

On the Hub, the datasets are in six archives. A run downloads those that contain its datasets.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from loguru import logger

from mmie_tasks.benchmarks.data_file import DataFile, entries_of
from mmie_tasks.benchmarks.milebench.prompts import question_content
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    VARIANT_OF,
    MileSample,
    Variant,
    datasets_in,
    rule_of,
)
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.suggestions import nearest
from mmie_tasks.hub.archives import unpack
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.dataset import HubDataset
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.run_images import check_images

if TYPE_CHECKING:
    import datasets

DatasetRow: TypeAlias = dict[str, object]

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
_FOLDER = (
    "set `MILEBENCH_DATA` to a folder with the unpacked datasets (`<DATASET>/<DATASET>.json` "
    "beside `<DATASET>/images/`)"
)
_LAYOUT = f"{_FOLDER}, or leave it out to download from the Hub"


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples of one dataset in random order (`fair_order`), or of all datasets round-robin.

    Columns: ``id`` (``DocVQA/131``), ``dataset``, ``selection`` (without variant), ``variant``,
    ``question_type``, ``instruction``, ``context``, ``choices``, ``gold`` (null if the annotation
    has none), ``images`` and ``combined`` (paths of files that may be missing), ``image_set``
    (shared by samples with the same images) and ``data`` (the revision).

    Args:
        selection: ``DocVQA``, ``all``, or either with ``@adv`` or ``@combined1``. In a local
            folder, ``all`` selects the datasets that exist.
        environment: ``MILEBENCH_DATA``, and the variables of the Hub download.

    Raises:
        SettingWrong: No dataset or variant has that name, or a variable has an invalid value.
        DataMissing: The data does not exist, or could not be downloaded.
        DataBroken: A file or a sample is unusable; names file, row and field.
    """
    import datasets

    names, variant = _parse_selection(selection)
    per_dataset = _load_rows(names, variant, environment)
    turns = itertools.chain.from_iterable(itertools.zip_longest(*per_dataset))
    chosen = {"selection": selection.partition("@")[0]}
    rows = [chosen | row for row in turns if row is not None]
    revisions = {str(row["dataset"]): str(row["data"]) for row in rows}
    if len(set(revisions.values())) > 1:  # local files have one each
        digest = _digest([f"{name} {revisions[name]}" for name in sorted(revisions)])
        rows = [{**row, "data": f"sha256:{digest}"} for row in rows]
    text = datasets.Value("string")
    features = {k: [text] if isinstance(v, list) else text for k, v in rows[0].items()}
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def check_data(docs: datasets.Dataset) -> None:
    """Checks that every image of a task exists.

    Raises:
        DataMissing: Files are missing; gives the number and the first name.
    """
    owners: dict[str, str] = {}
    for doc in docs:
        for path in doc["combined" if doc["variant"] == "combined1" else "images"]:
            owners.setdefault(path, doc["id"])
    hint = "unpack the archive with its images, or unset `MILEBENCH_DATA` to download it"
    check_images("this MileBench task", owners, hint)


def _parse_selection(selection: str) -> tuple[Sequence[str], Variant]:
    name, _, suffix = selection.partition("@")
    variant = cast("Variant", suffix or "test")
    if variant not in (variants := tuple(VARIANT_OF.values())):
        raise SettingWrong(f"MileBench has no variant `{suffix}`.", hint=f"one of {variants}")
    names = DATASETS if name == "all" else (name,)
    if name not in ("all", *DATASETS):
        close = nearest(name, DATASETS) or DATASETS
        raise SettingWrong(f"MileBench has no dataset `{name}`.", hint=f"one of {', '.join(close)}")
    if not (published := [dataset for dataset in names if dataset in datasets_in(variant)]):
        raise SettingWrong(f"`{name}` was not published as `{variant}`.", hint=f"use `{name}`")
    return published, variant


def _load_rows(
    names: Sequence[str], variant: Variant, environment: Mapping[str, str]
) -> list[list[DatasetRow]]:
    """Rows per dataset; some of several datasets may be missing in a local folder."""
    per_dataset: list[list[DatasetRow]] = []
    errors: dict[str, DataMissing] = {}
    for name in names:
        try:
            per_dataset.append(_rows(name, variant, environment))
        except DataMissing as error:  # noqa: PERF203 - the other datasets are read
            errors[name] = error
    if errors and not (per_dataset and environment.get("MILEBENCH_DATA")):
        raise next(iter(errors.values()))
    if errors:
        root = environment["MILEBENCH_DATA"]
        logger.warning(f"MileBench without {', '.join(errors)}: not in `{root}`.")
    return per_dataset


def _rows(name: str, variant: Variant, environment: Mapping[str, str]) -> list[DatasetRow]:
    folder, revision = dataset_folder(name, environment)
    file = DataFile.read(folder / f"{name}{'-adv' * (variant == 'adv')}.json", _LAYOUT)
    value = file.json()
    content = value if isinstance(value, dict) else {}
    meta = content.get("meta_data")
    meta = meta if isinstance(meta, dict) else {}
    instructions = meta.get("task_instruction")
    if not isinstance(instructions, list) or not all(isinstance(i, str) for i in instructions):
        raise file.broken("`meta_data.task_instruction` is not a list of texts")
    question_type = str(meta.get("question_type"))
    try:
        rule = rule_of(name, question_type)
    except BadSample as error:
        raise file.broken(str(error)) from error
    source = {"question_type": question_type, "data": revision or file.digest}

    def read(_position: int, entry: object) -> DatasetRow:
        sample = MileSample.from_annotation(
            entry, dataset=name, rule=rule, instructions=instructions
        )
        if variant == "combined1":
            question_content(sample, combined=True)  # raises now, not in the middle of the run
        return _row(sample, variant, folder) | source

    rows = file.samples(content.get("data"), read, itemgetter("id"))
    return fair_order(rows, itemgetter("id"))


def _row(sample: MileSample, variant: Variant, folder: Path) -> DatasetRow:
    combined = folder / "combined_1_images"
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "variant": variant,
        "instruction": sample.instruction,
        "context": sample.context,
        "choices": list(sample.choices),
        "gold": sample.gold,
        "images": [str(inside(folder / "images", name)) for name in sample.images],
        "combined": [str(inside(combined, name)) for name in sample.combined],
        "image_set": _digest(sample.images),
    }


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()[:12]


# The files


def dataset_folder(dataset: str, environment: Mapping[str, str]) -> tuple[Path, str]:
    """The folder with ``<dataset>.json``, downloaded and unpacked if necessary, and its commit on
    the Hub; empty for a local folder.

    Raises:
        DataMissing: The dataset is not in the local folder, or its archive cannot be downloaded.
        DataBroken: The archive is damaged, or lacks the dataset.
    """
    if local := environment.get("MILEBENCH_DATA"):
        root = Path(local).expanduser()
        if not root.is_dir():
            raise DataMissing(f"`MILEBENCH_DATA` is `{root}`: no such folder.", hint=_LAYOUT)
        if folder := _find_dataset(root, dataset):
            return folder, ""
        raise DataMissing(
            f"MileBench's dataset `{dataset}` is not in `{root}`, which contains: "
            f"{entries_of(root)}.",
            hint=_LAYOUT,
        )
    unpacked = _archive(_part_of(dataset)).fetch()
    if folder := _find_dataset(unpacked.folder, dataset):
        return folder, unpacked.source.rpartition("@")[2]
    raise DataBroken(
        f"`{unpacked.folder}` should contain `{dataset}/{dataset}.json`, and contains "
        f"{entries_of(unpacked.folder)}.",
        hint=f"delete that folder and run again: `rm -r '{unpacked.folder}'`",
    )


def _find_dataset(root: Path, dataset: str) -> Path | None:
    folders = (root / prefix / dataset for prefix in _PREFIXES)
    return next((folder for folder in folders if folder.is_dir()), None)


def _part_of(dataset: str) -> int:
    return next(part for part, names in enumerate(PARTS) if dataset in names)


def _archive(part: int) -> HubDataset:
    name = f"MileBench_part{part}"
    filename = f"{name}.tar.gz"
    fill = partial(_fill, filename)
    return HubDataset(repo=REPO, files=(filename,), fill=fill, name=name, alternative=_FOLDER)


def _fill(filename: str, snapshot: Path, folder: Path) -> None:
    unpack(snapshot / filename, folder)


def assets(tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The archives with the datasets of these tasks, or of all tasks if there are none."""
    name = "milebench: data"
    datasets = datasets_of(tasks)
    names = ("all",) if set(datasets) == set(DATASETS) else datasets
    check = Check(subject=name, describe=lambda: _describe_data(names, environment))
    everything = Check(subject=name, describe=lambda: _describe_data(("all",), environment))
    local = environment.get("MILEBENCH_DATA")
    if asset := local_asset(name, "MILEBENCH_DATA", local, (everything,)):
        return [asset]
    parts = sorted({_part_of(dataset) for dataset in datasets})
    return [_archive(part).asset(f"{name}, part {part}", check) for part in parts]


def datasets_of(tasks: Iterable[str]) -> tuple[str, ...]:
    """The datasets of these tasks; all without tasks.

    >>> datasets_of(["milebench_DocVQA"]), len(datasets_of(["milebench_DocVQA", "milebench_adv"]))
    (('DocVQA',), 26)
    """
    datasets = itertools.chain.from_iterable(
        datasets_in(VARIANT_OF[task]) if task in VARIANT_OF else (task.removeprefix("milebench_"),)
        for task in tasks
    )
    return tuple(dict.fromkeys(datasets)) or DATASETS


def _describe_data(names: Sequence[str], environment: Mapping[str, str]) -> str:
    counts: Counter[str] = Counter()
    for name in names:
        docs = dataset(name, environment)
        check_data(docs)
        counts.update(docs["dataset"])
    datasets = "1 dataset" if len(counts) == 1 else f"{len(counts)} datasets"
    return f"{counts.total():,} samples of {datasets}; no image is missing"
