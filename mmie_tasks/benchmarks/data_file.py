"""Reads data files of benchmarks, and makes datasets of samples of texts and images."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from mmie_tasks.core.errors import BadSample, DataBroken, DataMissing
from mmie_tasks.core.files import json_problem

if TYPE_CHECKING:
    import datasets

SampleT = TypeVar("SampleT")

REPAIR = (
    "repair it, or replace it by the published file; if a run has downloaded it, delete its "
    "folder and run again"
)
"""The hint of errors about an unusable data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A data file that was read; the path is for messages."""

    path: Path
    content: bytes

    @classmethod
    def read(cls, path: Path, hint: str) -> DataFile:
        """Read a file; raises `DataMissing` with this hint if it cannot be read."""
        try:
            return cls(path=path, content=path.read_bytes())
        except OSError as error:
            raise DataMissing(f"`{path}` cannot be read: {error.strerror}.", hint=hint) from error

    @property
    def digest(self) -> str:
        """The revision of a local file: ``sha256:`` and 12 hex digits."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()[:12]}"

    def json(self) -> object:
        """The value of a file in UTF-8, which may begin with a byte order mark.

        Raises:
            DataBroken: The file is not JSON.
        """
        try:
            value: object = json.loads(self.content.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, or nested too deeply
            raise self.broken(f"not JSON ({json_problem(error)})") from error
        return value

    def samples(
        self, rows: object, read: Callable[[int, object], SampleT], id_of: Callable[[SampleT], str]
    ) -> list[SampleT]:
        """The samples of the file's rows. Ids must be unique: answers are matched by them.

        `read` turns position and row into a sample, and raises `BadSample` for an unusable row.

        Raises:
            DataBroken: There are no rows, or one cannot be used; names row and field.
        """
        if not isinstance(rows, list) or not rows:
            raise self.broken("no list of rows")
        samples: dict[str, SampleT] = {}
        positions: dict[str, int] = {}
        for position, row in enumerate(rows):
            try:
                sample = read(position, row)
            except BadSample as error:
                raise self.broken(str(error)) from error
            except DataBroken as error:  # a name that leads out of the folder of the data
                raise self.broken(f"row {position}: {error.message.rstrip('.')}") from error
            id_ = id_of(sample)
            if (first := positions.setdefault(id_, position)) != position:
                raise self.broken(f"row {position}: the id {id_!r} is that of row {first}")
            samples[id_] = sample
        return list(samples.values())

    def broken(self, problem: str) -> DataBroken:
        """The error for an unusable file; `problem` is a clause."""
        return DataBroken(f"`{self.path}`: {problem}.", hint=REPAIR)


def entries_of(folder: Path) -> str:
    """The names in a folder, for messages, at most 20."""
    return ", ".join(sorted(path.name for path in folder.iterdir())[:20]) or "nothing"


def image_dataset(
    samples: Sequence[Any], data: str, *, texts: Iterable[str], numbers: Iterable[str] = ()
) -> datasets.Dataset:
    """The dataset that lmms-eval iterates; nothing is opened.

    Columns: `texts`, `numbers` (whole), ``row`` (position, from 0), ``question`` and ``gold``
    (lists of ``text`` and ``image``, either null) and ``data``, the revision of the data. Samples
    have an attribute for every column except ``row`` and ``data``.
    """
    import datasets

    text, number = datasets.Value("string"), datasets.Value("int32")
    # Keep this order, that of earlier runs: lmms-eval hashes samples as they are.
    features = {**dict.fromkeys((*texts, "data"), text), **dict.fromkeys((*numbers, "row"), number)}
    columns: dict[str, list[object]] = {
        name: [getattr(sample, name) for sample in samples] for name in (*texts, *numbers)
    }
    for name in ("question", "gold"):
        features[name] = [{"text": text, "image": text}]
        columns[name] = [
            [{"text": segment.text, "image": segment.image} for segment in getattr(sample, name)]
            for sample in samples
        ]
    columns |= {"row": list(range(len(samples))), "data": [data] * len(samples)}
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def missing_images(docs: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Path of each question image without a file, to the id of the first sample that has it."""
    missing: dict[str, str] = {}
    for doc in docs:
        for segment in doc["question"]:
            if (path := segment["image"]) and not os.path.isfile(path):  # noqa: PTH113 - quicker
                missing.setdefault(path, doc["id"])
    return missing


def described(docs: datasets.Dataset) -> str:
    """A sentence about the samples and how many images are missing."""
    count = len(missing_images(docs))
    return f"{len(docs):,} samples of {docs[0]['data']}; {count or 'no'} images are missing"
