"""OpenING's settings."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mmie_tasks.benchmarks.settings import TaskSettings


class OpeningSettings(TaskSettings):
    """OpenING's settings.

    Attributes:
        prompts: A JSON file with other texts than the official ones.
        missing_images: ``blind`` judges a question without its missing pictures, as the official
            script does; by default it is unscored.
        steps: ``untold`` does not tell the model the number of steps of the gold answer, as one of
            the 25 official scripts.
    """

    prompts: Path | None = None
    missing_images: Literal["unscored", "blind"] = "unscored"
    steps: Literal["told", "untold"] = "told"
