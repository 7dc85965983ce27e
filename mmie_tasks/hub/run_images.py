"""Checks the images of a run before it begins, and opens them without ending it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import WeakSet

from loguru import logger

from mmie_tasks.core.errors import DataBroken, DataMissing, first_line
from mmie_tasks.hub.images import MAX_PIXELS, open_rgb, size_px

if TYPE_CHECKING:
    from PIL import Image  # imported where it is used: results commands need no image library


def check_images(benchmark: str, sample_ids: Mapping[str, str], hint: str) -> None:
    """Check the header of every image of a run, before anything is generated.

    Nothing is decoded, so a file that is truncated after its header is not noticed.

    Args:
        benchmark: The benchmark's name, for the message.
        sample_ids: Path of each image to the id of a sample that uses it.
        hint: What to do if images are missing.

    Raises:
        DataMissing: Files are missing or not images; the message has their number and the first.
    """
    unusable: dict[str, str] = {}
    for path in sample_ids:
        try:
            size_px(Path(path), MAX_PIXELS)
        except (DataMissing, DataBroken) as error:  # noqa: PERF203 - concerns one image
            unusable[path] = first_line(error)
    if unusable:
        path, problem = next(iter(unusable.items()))
        raise DataMissing(
            f"{len(unusable)} of the {len(sample_ids)} images of {benchmark} cannot be used. "
            f"The first, of sample {sample_ids[path]}: {problem}",
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
