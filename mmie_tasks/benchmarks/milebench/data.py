"""MileBench's samples as a `datasets.Dataset` whose images are paths, and its combined images."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

from loguru import logger

from mmie_tasks.benchmarks.milebench.assets import REPAIR, Annotation, annotation
from mmie_tasks.benchmarks.milebench.prompts import combined
from mmie_tasks.benchmarks.milebench.sample import DATASETS, VARIANTS, BadSample, Sample, Variant, has_variant, rule_of
from mmie_tasks.benchmarks.odd_rows import OddRows
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.files import atomic_write
from mmie_tasks.hub.images import inside, open_bounded, open_file, open_rgb

if TYPE_CHECKING:
    import datasets
    from PIL import Image

DatasetRow: TypeAlias = dict[str, object]

LAYOUT_VERSION = "1"  # part of every file name: change it when a drawn pixel would change
CELL_SIDE_PX = 800
FONT_SIZE_PX = 8 * 4  # the official script's --font_size, enlarged four times for the caption
PADDING_PX, PADDING_ABOVE_PX = 12, 22
# Modes the official script resizes without conversion.
_RESIZED_UNCONVERTED = {"1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"}


def dataset(selection: str, environment: Mapping[str, str]) -> datasets.Dataset:
    """The samples of one dataset, or of all of them in turns.

    Columns: ``id`` (``DocVQA/131``), ``dataset``, ``variant``, ``question_type``, ``instruction``,
    ``context``, ``choices``, ``gold`` (null if the annotation has none), ``images`` and
    ``combined`` (paths of files, none of them opened), ``image_set`` (shared by samples with the
    same images) and ``data`` (the revision, and the samples that were left out: see `OddRows`).

    Args:
        selection: ``DocVQA``, ``all``, or either with ``@adv`` or ``@combined1``. ``all`` goes
            round the datasets, so that the first n samples are from as many of them as possible.
            In a local folder it takes the datasets that the folder has.
        environment: Read: ``MILEBENCH_DATA``, ``MMIE_TASKS_ODD_ROWS`` and what the Hub download
            reads.

    Raises:
        SettingWrong: No dataset or variant has that name, or a variable has an invalid value.
        DataMissing: The data does not exist, or could not be downloaded.
        DataBroken: A file, or too many samples in it (see `OddRows`), cannot be used; names it.
    """
    import datasets

    names, variant = _parse_selection(selection)
    odd_rows = OddRows("MileBench", REPAIR, environment)
    per_dataset = _load_rows(names, variant, environment, odd_rows)
    odd_rows.log()
    rows = [row for turn in itertools.zip_longest(*per_dataset) for row in turn if row is not None]
    revisions = {str(row["dataset"]): str(row["data"]) for row in rows}
    if len(set(revisions.values())) > 1:  # local files have one each: a digest of all of them
        digest = _digest([f"{name} {revisions[name]}" for name in sorted(revisions)])
        rows = [{**row, "data": f"sha256:{digest}"} for row in rows]
    if suffix := odd_rows.suffix:
        rows = [{**row, "data": f"{row['data']}{suffix}"} for row in rows]
    text = datasets.Value("string")
    features = {k: [text] if isinstance(v, list) else text for k, v in rows[0].items()}
    return datasets.Dataset.from_list(rows, features=datasets.Features(features))


def _parse_selection(selection: str) -> tuple[Sequence[str], Variant]:
    name, _, suffix = selection.partition("@")
    variant = cast("Variant", suffix or "test")
    if variant not in VARIANTS:
        raise SettingWrong(f"MileBench has no variant `{suffix}`.", hint=f"one of {VARIANTS}")
    names = DATASETS if name == "all" else (name,)
    if name not in ("all", *DATASETS):
        close = difflib.get_close_matches(name, DATASETS) or DATASETS
        raise SettingWrong(f"MileBench has no dataset `{name}`.", hint=f"one of {', '.join(close)}")
    if not (published := [dataset for dataset in names if has_variant(dataset, variant)]):
        raise SettingWrong(f"`{name}` was not published as `{variant}`.", hint=f"use `{name}`")
    return published, variant


def _load_rows(
    names: Sequence[str], variant: Variant, environment: Mapping[str, str], odd_rows: OddRows
) -> list[list[DatasetRow]]:
    """Rows per dataset. Only if there are several, and in a local folder, may some be missing."""
    is_lenient = len(names) > 1 and bool(environment.get("MILEBENCH_DATA"))
    per_dataset: list[list[DatasetRow]] = []
    errors: dict[str, DataMissing] = {}
    for name in names:
        try:
            per_dataset.append(_rows(name, variant, environment, odd_rows))
        except DataMissing as error:  # noqa: PERF203 - the other datasets are read
            errors[name] = error
    if errors and not (per_dataset and is_lenient):
        raise next(iter(errors.values()))
    if errors:
        root = environment["MILEBENCH_DATA"]
        logger.warning(f"MileBench without {', '.join(errors)}: not in `{root}`.")
    return per_dataset


def _rows(name: str, variant: Variant, environment: Mapping[str, str], odd_rows: OddRows) -> list[DatasetRow]:
    source = annotation(name, environment, adversarial=variant == "adv")
    if not source.entries:
        raise DataBroken(f"`{source.path}`: `data` is empty.", hint=REPAIR)
    try:
        rule = rule_of(name, source.question_type)
    except BadSample as error:
        raise DataBroken(f"`{source.path}`: {error}.", hint=REPAIR) from error
    rows: list[DatasetRow] = []
    positions: dict[str, int] = {}  # of every id
    for position, entry in enumerate(source.entries):
        try:
            sample = Sample.from_annotation(entry, dataset=name, rule=rule, instructions=source.instructions)
            first = positions.setdefault(sample.id, position)
            if first != position:  # answers are matched to samples by id
                problem = f"`sample_id` {sample.sample_id} occurs twice, at {first} and {position}"
                odd_rows.add(source.path, position, problem)
                continue
            if variant == "combined1":
                combined(sample)  # raises now what it would raise in the middle of the run
            rows.append(_row(sample, variant, source))
        except BadSample as error:
            odd_rows.add(source.path, position, str(error))
    odd_rows.check(source.path, len(rows))
    return rows


def _row(sample: Sample, variant: Variant, source: Annotation) -> DatasetRow:
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
        raise BadSample(f"{sample.id}: {error.message.rstrip('.')}") from error


def combined_image(images: Sequence[Path], cache: Path) -> Path:
    """Draw all images into one JPEG, for models that take only one image.

    A grid with captions ``Image 1``, ``Image 2`` and so on, as ``data/combine_images.py``
    (MileBench/MileBench at 9583e1f): as many columns as the square root of the count, rounded up;
    each image resized to 800 x 800 pixels (Lanczos), made RGBA, captioned white on a black box at
    its bottom centre, and pasted without its alpha, so that pixels hidden by transparency show.
    Saved with Pillow's JPEG settings, because a model sees the JPEG.

    It differs in the font: the official ``arialuni.ttf`` is not shipped, so the caption is set in
    Pillow's built-in font (`ImageFont.load_default`) at the same size.

    Args:
        images: The image files, in the order of their numbers.
        cache: The folder for drawn images. The file's name is a hash of the images' bytes and of
            the layout, so the same images are drawn once.

    Returns:
        The JPEG, ``(rows * 800, columns * 800, 3)``.

    Raises:
        DataMissing: An image does not exist.
        DataBroken: An image cannot be decoded or is too large, or there are none.
    """
    if not images:
        raise DataBroken(
            "A combined image was requested for a sample with no images.", hint="run the task without `_combined1`"
        )
    digest = hashlib.sha256(f"combined image, layout {LAYOUT_VERSION}".encode())
    for image in images:
        with open_file(image) as file:
            digest.update(hashlib.sha256(file.read()).digest())
    path = cache / f"{digest.hexdigest()}.jpg"
    if not path.is_file():
        with atomic_write(path) as part:
            _grid(images).save(part, format="JPEG")
    return path


def _grid(images: Sequence[Path]) -> Image.Image:
    from PIL import Image

    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    grid = Image.new("RGB", (columns * CELL_SIDE_PX, rows * CELL_SIDE_PX))
    for index, path in enumerate(images):
        row, column = divmod(index, columns)
        image = open_bounded(path)
        if image.mode not in _RESIZED_UNCONVERTED:
            image = open_rgb(path)
        resized = image.resize((CELL_SIDE_PX, CELL_SIDE_PX), Image.Resampling.LANCZOS)
        cell = _with_caption(resized.convert("RGBA"), f"Image {index + 1}")
        grid.paste(cell, (column * CELL_SIDE_PX, row * CELL_SIDE_PX))
    return grid


def _with_caption(cell: Image.Image, caption: str) -> Image.Image:
    """Draw the caption onto the cell, ``(800, 800, 4)``.

    The text starts as far above the bottom as its box is high, plus its own top margin: the lowest
    pixels of a ``g`` are cut off, as in the official script.
    """
    from PIL import ImageDraw, ImageFont

    draw = ImageDraw.Draw(cell)
    font = ImageFont.load_default(FONT_SIZE_PX)
    left, top, right, bottom = draw.textbbox((0, 0), caption, font=font)
    width, height = right - left, bottom - top
    x, y = (cell.width - width) // 2, cell.height - height
    box = (x - PADDING_PX, y - PADDING_ABOVE_PX, x + width + PADDING_PX, y + height + PADDING_PX)
    draw.rectangle(box, fill="black")
    draw.text((x, y), caption, fill="white", font=font)
    return cell
