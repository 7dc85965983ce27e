"""MileBench as a `datasets.Dataset` whose images are paths, from a folder or from the Hub."""

from __future__ import annotations

import difflib
import hashlib
import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from loguru import logger

from mmie_tasks.benchmarks.milebench.assets import Annotation, annotation
from mmie_tasks.benchmarks.milebench.prompts import combined
from mmie_tasks.benchmarks.milebench.sample import (
    DATASETS,
    VARIANTS,
    BadSample,
    Sample,
    Variant,
    has_variant,
    rule_of,
)
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.hub.images import inside

if TYPE_CHECKING:
    import datasets


Row = dict[str, object]
_TEXTS = ("id", "dataset", "variant", "question_type", "instruction", "context", "gold", "data")
_LISTS = ("images", "choices", "combined")


def dataset(wanted: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples of one dataset, or of all of them in turns.

    Columns: ``id`` (``DocVQA/131``), ``dataset``, ``variant``, ``question_type``, ``instruction``,
    ``context``, ``choices``, ``gold`` (null where the annotation has none), ``images`` and
    ``combined`` (paths of files, none of them opened), ``image_set`` (samples over the same images
    share it) and ``data`` (the revision).

    Args:
        wanted: ``DocVQA``, ``all``, or either with ``@adv`` or ``@combined1``. ``all`` goes round
            the datasets, so that the first n samples see as many of them as possible, and in a
            local folder takes those that are there.
        environment: Read: ``MILEBENCH_DATA`` and what the Hub download reads.

    Raises:
        SettingWrong: No dataset or variant of that name.
        DataMissing: The data is not there.
        DataBroken: A file or sample in it cannot be used; names it.
    """
    import datasets

    names, variant = _parse(wanted)
    rows = _in_turns(_of_one_revision(_present(names, variant, environment)))
    text, texts = datasets.Value("string"), [datasets.Value("string")]
    features = dict.fromkeys((*_TEXTS, "image_set"), text) | dict.fromkeys(_LISTS, texts)
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def _parse(wanted: str) -> tuple[Sequence[str], Variant]:
    name, _, suffix = wanted.partition("@")
    variant = cast("Variant", suffix or "test")
    if variant not in VARIANTS:
        raise SettingWrong(f"MileBench has no variant `{suffix}`.", hint=f"one of {VARIANTS}")
    names = DATASETS if name == "all" else (name,)
    if name not in ("all", *DATASETS):
        close = difflib.get_close_matches(name, DATASETS) or DATASETS
        raise SettingWrong(f"MileBench has no dataset `{name}`.", hint=f"one of {', '.join(close)}")
    published = [one for one in names if has_variant(one, variant)]
    if not published:
        raise SettingWrong(f"`{name}` was not published as `{variant}`.", hint=f"use `{name}`")
    return published, variant


def _present(
    names: Sequence[str], variant: Variant, environment: Mapping[str, str]
) -> list[list[Row]]:
    """Rows per dataset. Only of several, and only in a local folder, may some be missing."""
    lenient = len(names) > 1 and bool(environment.get("MILEBENCH_DATA"))
    attempts = {name: _attempt(name, variant, environment) for name in names}
    found = [rows for rows in attempts.values() if isinstance(rows, list)]
    errors = {name: e for name, e in attempts.items() if isinstance(e, DataMissing)}
    if errors and not (found and lenient):
        raise next(iter(errors.values()))
    if errors:
        root = environment["MILEBENCH_DATA"]
        logger.warning(f"MileBench without {', '.join(errors)}: not in `{root}`.")
    return found


def _attempt(
    name: str, variant: Variant, environment: Mapping[str, str]
) -> list[Row] | DataMissing:
    try:
        return _rows(name, variant, environment)
    except DataMissing as error:
        return error


def _rows(name: str, variant: Variant, environment: Mapping[str, str]) -> list[Row]:
    source = annotation(name, environment, adversarial=variant == "adv")
    try:
        rule = rule_of(name, source.question_type)
        samples = [
            Sample.from_annotation(e, dataset=name, rule=rule, instructions=source.instructions)
            for e in source.entries
        ]
        if variant == "combined1":
            for sample in samples:
                combined(sample)  # says now what it would say in the middle of the run
    except BadSample as error:
        raise DataBroken(
            f"`{source.path}`: {error}.", hint="fetch this annotation file again, or repair it"
        ) from error
    if not samples:
        raise DataBroken(f"`{source.path}`: `data` is empty.", hint="fetch it again")
    return [_row(sample, variant, source) for sample in samples]


def _row(sample: Sample, variant: Variant, source: Annotation) -> Row:
    return {
        "id": sample.id,
        "dataset": sample.dataset,
        "variant": variant,
        "question_type": source.question_type,
        "instruction": sample.instruction,
        "context": sample.context,
        "choices": list(sample.choices),
        "gold": sample.gold,
        "images": _paths(source.images, sample.images, sample),
        "combined": _paths(source.combined, sample.combined, sample),
        "image_set": _digest(sample.images),
        "data": source.revision,
    }


def _digest(names: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(names).encode("utf-8", "replace")).hexdigest()[:12]


def _paths(folder: Path, names: Iterable[str], sample: Sample) -> list[str]:
    try:
        return [str(inside(folder, name)) for name in names]
    except DataBroken as error:
        raise DataBroken(f"Sample {sample.id}: {error}", hint="see above") from error


def _of_one_revision(per_dataset: list[list[Row]]) -> list[list[Row]]:
    """Datasets of several revisions (local files have one each) get a digest of them all."""
    revisions = {str(rows[0]["dataset"]): str(rows[0]["data"]) for rows in per_dataset}
    if len(set(revisions.values())) > 1:
        whole = f"sha256:{_digest([f'{name} {revisions[name]}' for name in sorted(revisions)])}"
        for row in itertools.chain.from_iterable(per_dataset):
            row["data"] = whole
    return per_dataset


def _in_turns(per_dataset: Iterable[list[Row]]) -> list[Row]:
    turns = itertools.zip_longest(*per_dataset)
    return [row for turn in turns for row in turn if row is not None]
