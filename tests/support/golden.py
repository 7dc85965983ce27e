"""Golden vectors: inputs with the outputs of the official code."""

import json
from functools import cache
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent.parent / "golden"


@cache
def vectors(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
