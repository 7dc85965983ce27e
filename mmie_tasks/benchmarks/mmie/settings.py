"""MMIE's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mmie_tasks.benchmarks.settings import TaskSettings


class MmieSettings(TaskSettings):
    """MMIE's settings.

    Attributes:
        prompts: A file with the judge's templates: a copy of the official ``prompts.py``, for a
            machine without internet, or a JSON file with other templates.
        missing_images: ``stop`` ends a run if images of its questions are missing; ``count``
            continues without them, as the official script does.
    """

    prompts: Path | None = None
    missing_images: Literal["stop", "count"] = "stop"
