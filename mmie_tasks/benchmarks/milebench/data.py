"""Reads MileBench from a local folder or the Hub into a `datasets.Dataset` with image paths."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from loguru import logger

from mmie_tasks.benchmarks.json_file import read_json_file, read_samples
from mmie_tasks.benchmarks.milebench import download
from mmie_tasks.benchmarks.milebench.prompts import question_content
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    VARIANT_OF,
    Sample,
    Variant,
    datasets_in,
    rule_of,
)
from mmie_tasks.benchmarks.order import fair_order
from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.suggestions import nearest
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.images import inside
from mmie_tasks.hub.run_images import check_images

if TYPE_CHECKING:
    import datasets

DatasetRow: TypeAlias = dict[str, object]

REPAIR = (
    "repair it, or replace it by the published file; if a run has downloaded it, delete its "
    "folder and run again"
)
"""The hint of errors about an unusable annotation file."""
_LAYOUT = (
    "the official layout is `<DATASET>/<DATASET>.json` beside `<DATASET>/images/`; "
    "point `MILEBENCH_DATA` at the folder above, or unset it to download from the Hub"
)


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
    is_lenient = len(names) > 1 and bool(environment.get("MILEBENCH_DATA"))
    per_dataset: list[list[DatasetRow]] = []
    errors: dict[str, DataMissing] = {}
    for name in names:
        try:
            per_dataset.append(_rows(name, variant, environment))
        except DataMissing as error:  # noqa: PERF203 - the other datasets are read
            errors[name] = error
    if errors and not (per_dataset and is_lenient):
        raise next(iter(errors.values()))
    if errors:
        root = environment["MILEBENCH_DATA"]
        logger.warning(f"MileBench without {', '.join(errors)}: not in `{root}`.")
    return per_dataset


def _rows(name: str, variant: Variant, environment: Mapping[str, str]) -> list[DatasetRow]:
    folder, revision = _folder(name, environment)
    path = folder / (f"{name}-adv.json" if variant == "adv" else f"{name}.json")
    if not path.is_file():
        raise DataMissing(f"`{folder}` contains no `{path.name}`.", hint=_LAYOUT)
    file = read_json_file(path, layout=_LAYOUT, repair=REPAIR)
    meta, instructions, entries = _parts(path, file.value)
    question_type = str(meta.get("question_type"))
    try:
        rule = rule_of(name, question_type)
    except BadSample as error:
        raise DataBroken(f"`{path}`: {error}.", hint=REPAIR) from error

    def read(_position: int, entry: object) -> DatasetRow:
        sample = Sample.from_annotation(entry, dataset=name, rule=rule, instructions=instructions)
        if variant == "combined1":
            question_content(
                sample, combined=True
            )  # raises errors now, not in the middle of the run
        source = {"question_type": question_type, "data": revision or file.digest}
        return _row(sample, variant, folder) | source

    rows = read_samples(path, entries, read, itemgetter("id"), repair=REPAIR)
    return fair_order(rows, itemgetter("id"))


def _parts(
    path: Path, value: object
) -> tuple[Mapping[str, object], Sequence[str], Sequence[object]]:
    """The metadata, its instructions, and the entries of an annotation file."""
    content = value if isinstance(value, dict) else {}
    meta, entries = content.get("meta_data"), content.get("data")
    meta = meta if isinstance(meta, dict) else {}
    instructions = meta.get("task_instruction")
    if not isinstance(instructions, list) or not all(isinstance(i, str) for i in instructions):
        problem = "`meta_data.task_instruction` is not a list of texts"
    elif not isinstance(entries, list) or not entries:
        problem = "`data` is empty, or not a list"
    else:
        return meta, instructions, entries
    raise DataBroken(f"`{path}`: {problem}.", hint=REPAIR)


def _row(sample: Sample, variant: Variant, folder: Path) -> DatasetRow:
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "variant": variant,
        "instruction": sample.instruction,
        "context": sample.context,
        "choices": list(sample.choices),
        "gold": sample.gold,
        "images": _paths(folder / "images", sample.images, sample),
        "combined": _paths(folder / "combined_1_images", sample.combined, sample),
        "image_set": _digest(sample.images),
    }


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()[:12]


def _paths(folder: Path, names: Iterable[str], sample: Sample) -> list[str]:
    try:
        return [str(inside(folder, name)) for name in names]
    except DataBroken as error:
        raise BadSample(f"{sample.id}: {error.message.rstrip('.')}") from error


def _folder(dataset: str, environment: Mapping[str, str]) -> tuple[Path, str]:
    """The folder of a dataset, and its commit on the Hub; empty for a local folder."""
    if not (local := environment.get("MILEBENCH_DATA")):
        hub_folder = download.dataset_folder(dataset)
        return hub_folder.folder, hub_folder.source.rpartition("@")[2]
    root = Path(local).expanduser()
    if not root.is_dir():
        raise DataMissing(f"`MILEBENCH_DATA` is `{root}`: there is no such folder.", hint=_LAYOUT)
    if folder := download.find_dataset(root, dataset):
        return folder, ""
    folders = ", ".join(sorted(f.name for f in root.iterdir() if f.is_dir())) or "no folder at all"
    raise DataMissing(
        f"MileBench's dataset `{dataset}` is not in `{root}`, which contains: {folders}.",
        hint=_LAYOUT,
    )


# Assets


def assets(tasks: Sequence[str], environment: Mapping[str, str]) -> Sequence[Asset]:
    """The archives with the datasets of these tasks, or of all tasks if there are none.

    Raises:
        SettingWrong: A setting of MileBench is invalid.
    """
    name = "milebench: data"
    datasets = datasets_of(tasks)
    names = ("all",) if set(datasets) == set(DATASETS) else datasets
    check = Check(subject=name, describe=lambda: _describe_data(names, environment))
    everything = Check(subject=name, describe=lambda: _describe_data(("all",), environment))
    if local := local_asset(
        name, "MILEBENCH_DATA", environment.get("MILEBENCH_DATA"), (everything,)
    ):
        return [local]
    parts: dict[int, list[str]] = {}
    for dataset in datasets:
        parts.setdefault(download.part_of(dataset), []).append(dataset)
    return [download.archive_asset(part, parts[part], check) for part in sorted(parts)]


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
