"""``mmie-tasks export mmie``: a run as input of the official script, a JSON file and images."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from mmie_tasks.benchmarks.export_run import exported_run
from mmie_tasks.benchmarks.mmie import data
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import DataBroken, DataMissing, SettingWrong
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.hub.images import has_changed
from mmie_tasks.record.record import Record
from mmie_tasks.record.segment import Segment, Segments


def run_export(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run ``mmie-tasks export mmie ARGUMENTS``; returns what to print.

    Writes ``data.json`` and ``images/``; an existing folder is not touched.
    """
    run = exported_run(
        "mmie",
        arguments,
        description="Write a run as input of MMIE's official script: a folder with `data.json` and "
        "images.",
        output="the new folder",
    )
    folder, logged = run.output, run.records
    if folder.exists():
        raise SettingWrong(f"`{folder}` exists already.", hint="name a new folder with `-o`")
    if not (environment.get("MMIE_DATA") or data.DATASET.cached()):
        hint = (
            "set `MMIE_DATA` to the data that the run used, or download it: "
            f"`{as_called('mmie-tasks prefetch mmie')}`"
        )
        raise DataMissing("The export needs MMIE's data, which is not on this machine.", hint=hint)
    samples = {doc["id"]: MmieSample.from_doc(doc) for doc in data.dataset("all", environment)}
    if unknown := [sample_id for sample_id in logged if sample_id not in samples]:
        message = f"{len(unknown)} samples of the run are not in the data, the first: {unknown[0]}."
        raise DataBroken(message, hint="point `MMIE_DATA` at the data that the run used")
    with_answer = {
        sample_id: record for sample_id, record in logged.items() if not _is_without_answer(record)
    }
    unfinished = folder.with_name(f"{folder.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # left by a killed process
    images = _ExportedImages(unfinished)
    rows = [
        _export_row(samples[sample_id], record.answer, run.model, images)
        for sample_id, record in with_answer.items()
    ]
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    (unfinished / "data.json").write_text(f"{text}\n", encoding="utf-8")
    unfinished.replace(folder)
    left_out = len(logged) - len(with_answer)
    more = f"; {left_out} without an answer were left out" if left_out else ""
    if images.changed:
        more += f"; {counted(images.changed, 'image')} of answers changed since the run"
    return f"{len(rows)} samples and {len(images.names)} images written to `{folder}`{more}."


def _is_without_answer(logged: Record) -> bool:
    official = logged.official
    return isinstance(official, Unscored) and official.reason in ("no_answer", "not_text")


def _export_row(
    sample: MmieSample, shown: Segments, model: str, images: _ExportedImages
) -> dict[str, object]:
    question, answer, gold = (
        [images.part(segment) for segment in segments]
        for segments in (sample.question, shown, sample.gold)
    )
    return {
        "id": sample.id,
        "model": model,
        "question": question,
        "answer": answer,
        "gt_answer": gold or [{"text": "", "image": None}],  # the script needs one
        "category": sample.category,
        "field": sample.field,
    }


class _ExportedImages:
    """Copies each file once into ``images/``, numbered in order of first use."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "images"
        self._folder.mkdir(parents=True)
        self.names: dict[str, str] = {}  # copied file to its exported name
        self.changed = 0  # files that are not what the run judged

    def part(self, segment: Segment) -> dict[str, str | None]:
        """The segment in the script's form; a missing file keeps its name."""
        image = segment.image
        if image is not None and image not in self.names and Path(image).is_file():
            name = f"{len(self.names)}{Path(image).suffix.lower()}"
            shutil.copyfile(image, self._folder / name)
            self.names[image] = f"images/{name}"
            self.changed += has_changed(Path(image), segment.sha256)
        return {
            "text": segment.text,
            "image": None if image is None else self.names.get(image, Path(image).name),
        }
