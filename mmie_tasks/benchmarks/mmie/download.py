"""Where MMIE's data comes from: a data file and an archive of a gated dataset on the Hub.

The resulting folder has ``data.json`` and, with the archive's folders, ``images/``.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from mmie_tasks.hub.archives import unpack
from mmie_tasks.hub.asset import Asset, Check, local_asset
from mmie_tasks.hub.dataset import HubDataset

REPO = "MMIE/MMIE"
ARCHIVE = "images.tar.gz"

ANNOTATION = "data.json"
IMAGES = "images"


def _fill(snapshot: Path, folder: Path) -> None:
    shutil.copyfile(snapshot / ANNOTATION, folder / ANNOTATION)
    unpack(snapshot / ARCHIVE, folder / IMAGES)


DATASET = HubDataset(
    repo=REPO,
    files=(ANNOTATION, ARCHIVE),
    fill=_fill,
    alternative=f"set `MMIE_DATA` to a folder with `{ANNOTATION}` and `{IMAGES}/`",
)


def asset(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """Data file and images; `describe` checks them (see `Check`)."""
    name = "mmie: data"
    check = Check(subject=name, describe=describe)
    local = local_asset(name, "MMIE_DATA", environment.get("MMIE_DATA"), (check,))
    return local or DATASET.asset(name, check)
