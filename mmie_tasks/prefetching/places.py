"""Where `huggingface_hub` keeps what it downloads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def hub_cache() -> Path:
    """The folder of repositories, as this process's environment has it."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).absolute()


def hub_folders() -> Mapping[str, Path]:
    """The variable that leads a machine to that folder, and what to copy for it."""
    from huggingface_hub import constants

    home = Path(constants.HF_HOME).absolute()
    return {"HF_HOME": home} if hub_cache() == home / "hub" else {"HF_HUB_CACHE": hub_cache()}
