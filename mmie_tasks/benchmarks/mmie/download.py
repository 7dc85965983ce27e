"""Where MMIE's data comes from: a data file and an archive of a gated dataset on the Hub.

Below `mmie_tasks.core.files.cache_dir` a download leaves::

    mmie/<commit>/data.json
    mmie/<commit>/images/...                       the archive, with the folders inside it
    mmie/commits/<revision>.txt                    see `mmie_tasks.hub.commits`
    mmie/downloads/images.tar.gz/                  until it is unpacked
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mmie_tasks.hub.archives import unpack_once
from mmie_tasks.hub.asset import Asset, DownloadPlan, combined_plan, data_asset, plan_file
from mmie_tasks.hub.commits import HubDataset, HubFolder
from mmie_tasks.hub.download import HubFile, copy_once, install

# The Hub

REPO = "MMIE/MMIE"
ARCHIVE = "images.tar.gz"

ANNOTATION = "data.json"
IMAGES = "images"

_DATASET = HubDataset(
    repo=REPO, name="mmie", variable="MMIE_REVISION", required=(ANNOTATION, IMAGES)
)
_ALTERNATIVE = f"set `MMIE_DATA` to a folder with `{ANNOTATION}` and `{IMAGES}/`"


def hub_folder(environment: Mapping[str, str]) -> HubFolder:
    """The folder with the data file and ``images``, downloaded and unpacked first if necessary.

    ``HF_ENDPOINT``, ``HF_HOME``, ``HF_TOKEN`` and ``HF_HUB_OFFLINE`` are read by `huggingface_hub`
    itself.

    Args:
        environment: Read: ``MMIE_REVISION`` (branch, tag or commit; by default ``main``), and what
            `mmie_tasks.core.files.cache_dir` reads.

    Raises:
        DataMissing: No access, no such repository, revision or file, no connection, or a full disk.
        DataBroken: The archive cannot be unpacked.
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    if cached := _DATASET.cached(environment):
        return cached
    revision, root = _DATASET.revision(environment), _DATASET.root(environment)
    commit = install(_hub_file(ANNOTATION, revision), root, ANNOTATION, copy_once)
    if not (root / commit / IMAGES).is_dir():
        install(_hub_file(ARCHIVE, commit), root, IMAGES, unpack_once)
    return _DATASET.stored(commit, environment)


def is_here(environment: Mapping[str, str]) -> bool:
    """Whether the data was downloaded; does not connect."""
    return _DATASET.cached(environment) is not None


def _hub_file(name: str, revision: str) -> HubFile:
    return HubFile(repo=REPO, filename=name, revision=revision, alternative=_ALTERNATIVE)


# Assets


def asset(environment: Mapping[str, str], describe: Callable[[], str]) -> Asset:
    """Data file and images; `describe` checks them (see `Check`).

    Raises:
        SettingWrong: ``MMIE_REVISION`` cannot be a revision.
    """
    cached = _DATASET.cached(environment)

    def plan() -> DownloadPlan:
        root, revision = _DATASET.root(environment), _DATASET.revision(environment)
        annotation = plan_file(_hub_file(ANNOTATION, revision), root, ANNOTATION, unpacked=False)
        images = plan_file(_hub_file(ARCHIVE, revision), root, IMAGES, unpacked=True)
        return combined_plan(f"{annotation.source}, {ARCHIVE}", (annotation, images))

    return data_asset(
        name="mmie: data",
        variables=["MMIE_DATA"],
        source=cached.revision if cached else REPO,
        is_here=lambda: is_here(environment),
        plan=plan,
        fetch=lambda: f"{hub_folder(environment).revision} is here",
        environment=environment,
        describe=describe,
        settings=(_DATASET.variable,),
    )
