"""Golden vectors: inputs with the outputs of the official code."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@cache
def vectors(name: str) -> dict[str, Any]:
    """The whole file."""
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
