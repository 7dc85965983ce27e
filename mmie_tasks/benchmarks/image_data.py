"""Samples of texts and images as a `datasets.Dataset`, and a check of the images."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import datasets


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
