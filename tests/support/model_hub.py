"""The tiny checkpoint on a loopback Hub, in a repository of models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from support.hub_server import HubServer, _Handler
from support.tiny_checkpoint import INTERNVL

REPO = "MMIE/MMIE-Score"
UNWANTED = ("modeling.py", "pytorch_model.bin", "README.md", "checkpoint-1/model.safetensors")

_MODEL_FILE = re.compile(r"/(?!api/|datasets/|signed/)[^/]+/[^/]+/resolve/.+")


class _ModelHandler(_Handler):
    """Addresses of models are those of datasets without ``datasets/``."""

    def _answer(self) -> None:
        if _MODEL_FILE.fullmatch(self.path):
            self.path = f"/datasets{self.path}"
        self.path = self.path.replace("/api/models/", "/api/datasets/", 1)
        super()._answer()


class ModelHub(HubServer):
    def __init__(self) -> None:
        super().__init__()
        handler = type("Handler", (_ModelHandler,), {"hub": self})
        self._server.RequestHandlerClass = handler


@contextmanager
def model_hub() -> Iterator[ModelHub]:
    """A Hub with the checkpoint, and files that must not be downloaded."""
    with ModelHub() as hub:
        for path in sorted((INTERNVL / "checkpoint").iterdir()):
            hub.holds(REPO, path.name, path.read_bytes())
        for name in UNWANTED:
            hub.holds(REPO, name, b"unwanted")
        yield hub
