"""A file of 50 kB on a loopback Hub, and how a process of its own fetches it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.hub_server import HubServer, ask, ask_and_kill

REPO = "owner/images"
CONTENT = os.urandom(50_000)
FETCH = """
import os
from pathlib import Path
from mmie_tasks.hub.download import HubFile, download, download_lock, locate, verify
file = HubFile(repo="owner/images", filename="a/one.bin", alternative="set `IMAGES=DIR`", **{})
location, folder = locate(file), Path(os.environ["MMIE_TASKS_CACHE"])
if location.cached_path:
    path = location.cached_path
else:
    with download_lock(file, folder):
        path = download(location, folder)
verify(file, path, location.sha256)
answer = {{"content": path.read_bytes().hex(), "commit": location.commit, "path": str(path)}}
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


def fetch(hub: HubServer, home: Path, **pins: object) -> dict[str, Any]:
    return ask(hub.url, home, FETCH.format(pins))


def part_of(hub: HubServer, home: Path) -> Path:
    return home / "cache" / hub.hashes[REPO, "a/one.bin"] / "a%2Fone.bin.part"


def fetch_and_kill(hub: HubServer, home: Path, bytes_on_disk: int = 16_000) -> int:
    """A download that stalls and is then killed; how many bytes it left."""
    part = part_of(hub, home)
    hub.hangs(after=bytes_on_disk + 10_000)  # 8 KiB may wait in the process, and die with it
    ask_and_kill(hub.url, home, FETCH.format({}), when=lambda: part.exists() and part.stat().st_size >= bytes_on_disk)
    return part.stat().st_size
