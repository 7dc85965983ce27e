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
        assembly: ``full`` keeps the text that the official assembly of a request cuts.
        missing_images: ``stop`` ends a run if images of its questions are missing; ``count``
            continues without them, as the official script does.
    """

    prompts: Path | None = None
    assembly: Literal["official", "full"] = "official"
    missing_images: Literal["stop", "count"] = "stop"
