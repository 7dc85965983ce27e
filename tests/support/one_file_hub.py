"""A file of 50 kB on a loopback Hub, and how a process of its own makes a folder of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.hub_server import HubServer, ask

REPO = "owner/images"
CONTENT = os.urandom(50_000)
FETCH = """
import os, shutil
from mmie_tasks.hub.dataset import HubDataset
def fill(snapshot, folder):
    shutil.copyfile(snapshot / "a/one.bin", folder / "one.bin")
dataset = HubDataset(
    repo="owner/images", variable="REVISION", files=("a/one.bin",), fill=fill,
    alternative="set `IMAGES=DIR`",
)
made = dataset.fetch(os.environ)
answer = {"content": (made.folder / "one.bin").read_bytes().hex(), "commit": made.source.commit}
"""
INTO_THE_HUBS_CACHE = """
from huggingface_hub import hf_hub_download
answer = hf_hub_download("owner/images", "a/one.bin", repo_type="dataset")
"""


@contextmanager
def one_file_hub() -> Iterator[HubServer]:
    with HubServer() as server:
        server.holds(REPO, "a/one.bin", CONTENT)
        yield server


def fetch(hub: HubServer, home: Path) -> dict[str, Any]:
    return ask(hub.url, home, FETCH)


def assets(home: Path, repo: str) -> Path:
    """The folder with what is made of a repository."""
    return home / "hf/assets/mmie-tasks" / repo.replace("/", "--")
