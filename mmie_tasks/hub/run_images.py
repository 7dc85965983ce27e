"""Checks that the images of a run exist, and opens them without ending it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import open_rgb

if TYPE_CHECKING:
    from PIL import Image  # imported where it is used: results commands need no image library


def check_images(benchmark: str, sample_ids: Mapping[str, str], hint: str) -> None:
    """Check that the images of a run exist, before anything is generated. None is opened.

    Args:
        benchmark: The benchmark's name, for the message.
        sample_ids: Path of each image to the id of a sample that uses it.
        hint: What to do if images are missing.

    Raises:
        DataMissing: Files are missing; the message has their number and the first.
    """
    missing = [path for path in sample_ids if not os.path.isfile(path)]  # noqa: PTH113 - quicker
    if missing:
        raise DataMissing(
            f"{len(missing)} of the {len(sample_ids)} images of {benchmark} do not exist. "
            f"The first, of sample {sample_ids[missing[0]]}: `{missing[0]}`.",
            hint=hint,
        )


_OPENERS: WeakSet[ImageOpener] = WeakSet()  # of this process


def forget_last_run() -> None:
    """Forget which images could not be opened: a process may evaluate several times."""
    for opener in list(_OPENERS):
        opener.failures.clear()


class ImageOpener:
    """Opens images for a tested model without ending its run.

    An image that cannot be opened is replaced by a blank one. Its sample then has no score, because
    the model did not see the image. The next evaluation in the same process opens it again.

    Attributes:
        failures: Sample id to why an image of the sample could not be opened in this run.
    """

    def __init__(self) -> None:
        self.failures: dict[str, str] = {}
        _OPENERS.add(self)

    def open(self, sample_id: str, path: Path) -> Image.Image:
        """The sample's image as `open_rgb` returns it, or a blank image."""
        from PIL import Image

        try:
            return open_rgb(path)
        except (DataMissing, DataBroken) as error:
            if sample_id not in self.failures:
                logger.warning(f"Sample {sample_id} will have no score. {error}")
            self.failures[sample_id] = first_line(error)
            return Image.new("RGB", (64, 64))
