"""A file of 50 kB on a loopback Hub, and how a process of its own installs it."""

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
import os
from pathlib import Path
from mmie_tasks.hub.download import HubFile, copy_once, install
file = HubFile(repo="owner/images", filename="a/one.bin", alternative="set `IMAGES=DIR`")
root = Path(os.environ["MMIE_TASKS_CACHE"])
commit = install(file, root, "one.bin", copy_once)
answer = {"content": (root / commit / "one.bin").read_bytes().hex(), "commit": commit}
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
