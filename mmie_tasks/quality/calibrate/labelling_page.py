"""The labelling page: one HTML file in which people score answers without knowing the model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from markupsafe import Markup

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import readable_size
from mmie_tasks.core.wording import counted
from mmie_tasks.quality.calibrate.judged_samples import PlannedAnswer
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.sample import LoggedSample
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.embedded_image import EmbeddedImage, embed_images
from mmie_tasks.results.labels import csv_cell, id_in_csv
from mmie_tasks.results.page import inert_json, rendered
from mmie_tasks.results.page_data import (
    MAX_SEGMENTS,
    Json,
    has_image,
    page_data,
    plain,
    segments_json,
)

MAX_SIDE_PX = 1024
"""The longest side of a picture in the page."""

BUDGET_CHARACTERS = 200 * 1024 * 1024
"""The largest size of all pictures of a page together, as base64."""

_QUALITY = 80
_MAX_BUTTONS = 10  # a scale of up to so many whole points has a button and a key for each
_ASSETS = Path(__file__).resolve().parent / "assets"


@dataclass(frozen=True, slots=True, kw_only=True)
class LabellingPage:
    """A page, to be written as UTF-8.

    Attributes:
        missing_images: How many images are not shown, each with a note that has the reason; an
            image counts every time that it should be shown.
    """

    html: str
    missing_images: int


def labelling_page(
    answers: Sequence[PlannedAnswer], *, title: str, scale: Scale, seed: int, guide: str = ""
) -> LabellingPage:
    """The page in which people score these answers, in this order.

    Its export has a row of `mmie_tasks.results.labels.COLUMNS` for each scored sample, with the id
    as `mmie_tasks.results.labels.id_in_csv` writes it. The title must name neither model nor run.
    Whole points up to 10 are scored with buttons, other scales in a number field. `guide` is shown
    with the keys: the benchmark's rubric, for example.

    Raises:
        SettingWrong: The pictures are too large for one page.
    """
    images = _embedded_images([answer.sample for answer in answers])
    addresses = dict.fromkeys(image.address for image in images.values() if image.address)
    pictures = {address: f"x-picture-{number}" for number, address in enumerate(addresses)}
    samples = [_sample_json(answer, images, pictures) for answer in answers]
    identity = json.dumps([seed, [[answer.id, answer.answer] for answer in answers]])
    content = {
        "key": hashlib.sha256(identity.encode()).hexdigest()[:16],
        "seed": str(seed),
        "full_marks": scale.full_marks,
        "whole": scale.whole,
        "buttons": scale.whole and scale.full_marks <= _MAX_BUTTONS,
        "samples": samples,
    }
    values = {
        "title": plain(title),
        "scale": scale,
        "guide": plain(guide),
        "content": content,
        "data": inert_json(content),
        "pictures": list(map(Markup, pictures)),  # base64: not escaped
    }
    html = rendered(_ASSETS, ("elements.js", "scores.js", "page.js"), values)
    parts = [sample[part] for sample in samples for part in ("question", "gold", "shown")]
    missing = sum("alt" in piece and piece["image"] is None for part in parts for piece in part)
    return LabellingPage(html=html, missing_images=missing)


def _embedded_images(samples: Sequence[LoggedSample]) -> Mapping[str, EmbeddedImage]:
    """The samples' image files, by their names in the log; each is read once."""
    parts = [part[:MAX_SEGMENTS] for s in samples for part in (s.question, s.gold, s.answer)]
    shown = [segment for part in parts for segment in part if has_image(segment)]
    files = list(dict.fromkeys(s.image for s in shown if s.image and not s.problem))
    images = embed_images(files, MAX_SIDE_PX, _QUALITY, BUDGET_CHARACTERS)
    if len(images) < len(files):
        raise SettingWrong(
            f"The pictures of {counted(len(samples), 'sample')} take more than "
            f"{readable_size(BUDGET_CHARACTERS)}, too much for one labelling page.",
            hint="plan fewer samples: a smaller number after `--plan`",
        )
    return images


def _sample_json(
    answer: PlannedAnswer, images: Mapping[str, EmbeddedImage], pictures: Mapping[str, str]
) -> Json:

    def part(segments: Sequence[Segment], owner: str, *, name_files: bool = True) -> list[Json]:
        find_image = images.__getitem__
        pieces = segments_json(segments, owner, find_image, MAX_SEGMENTS, name_files=name_files)
        return [
            {**piece, "image": pictures.get(piece["image"])} if "alt" in piece else piece
            for piece in map(page_data, pieces)
        ]

    # The path of a picture may tell the model's name. The judge sees no prompts of pictures, so
    # people see none either.
    sample = answer.sample
    nameless = [replace(s, image=None if s.problem else s.image, prompt="") for s in sample.answer]
    return {
        "id": plain(answer.id),
        "cell": csv_cell(id_in_csv(answer.id)),
        "answer": answer.answer,
        "question": part(sample.question, "the question"),
        "gold": part(sample.gold, "the reference answer"),
        "shown": part(nameless, "the answer", name_files=False),
    }
