"""The question of an MMIE sample to the tested model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.record.segment import Segment, Segments


def question_content(sample: Sample) -> list[str | Path]:
    """Text and images of the question to the tested model, in order, with line ends around texts; a
    missing image is left out, as in the request to the judge.
    """
    content: list[str | Path] = []
    for segment in question_segments(sample):
        image = None if segment.problem or segment.image is None else Path(segment.image)
        for part in (segment.text or None, image):
            if part is None:
                continue
            if content and (isinstance(part, str) or isinstance(content[-1], str)):
                content.append("\n")
            content.append(part)
    return content


def question_segments(sample: Sample) -> Segments:
    """The segments of the question; the problem ``missing`` marks an image that is not a file."""
    return tuple(map(_with_missing, sample.question))


def _with_missing(segment: Segment) -> Segment:
    if segment.image is None:
        return segment
    is_file = os.path.isfile(segment.image)  # noqa: PTH113 - 4x quicker
    return replace(segment, problem="" if is_file else "missing")
