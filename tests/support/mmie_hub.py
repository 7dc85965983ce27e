"""A small MMIE on a loopback Hub: ``data.json`` and ``images.tar.gz``."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from support.hub_server import HubServer
from support.mmie_data import conversations_folder

REPO = "MMIE/MMIE"
ANNOTATION = "data.json"
ARCHIVE = "images.tar.gz"


def archive(images: Path, prefix: str = "images/", filler_bytes: int = 0) -> bytes:
    """The files of a folder, packed below `prefix`; and noise, to make it larger."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as tar:
        for path in sorted(images.iterdir()):
            tar.add(path, f"{prefix}{path.name}")
        if filler_bytes:
            info = tarfile.TarInfo(f"{prefix}filler")
            info.size = filler_bytes
            tar.addfile(info, io.BytesIO(os.urandom(filler_bytes)))
    return content.getvalue()


@contextmanager
def mmie_hub(n: int = 3, prefix: str = "images/", filler_bytes: int = 0) -> Iterator[HubServer]:
    """A Hub with `n` samples, and files that must not be downloaded."""
    with TemporaryDirectory() as folder, HubServer() as hub:
        path = conversations_folder(Path(folder), n)
        hub.holds(REPO, ANNOTATION, (path / ANNOTATION).read_bytes())
        hub.holds(REPO, ARCHIVE, archive(path / "images", prefix, filler_bytes))
        hub.holds(REPO, "overview.json", b"[]")
        yield hub
