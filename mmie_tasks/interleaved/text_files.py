"""How a writer's text is stored: the JSON file of one request, named by what changes its text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from mmie_tasks.core.files import atomic_write


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """The writer's output for one request.

    Attributes:
        text: The whole output.
        tokens: Numbers of tokens by name, as the runner counts them; None if the writer does not
            report them.
    """

    text: str
    tokens: Mapping[str, int] | None = None


def text_path(folder: Path, key: str) -> Path:
    """The file for the request with this key, which is everything that changes its text."""
    name = hashlib.sha256(key.encode(errors="surrogatepass")).hexdigest()[:32]
    return folder / name[:2] / f"{name}.json"


def read_text(path: Path) -> WrittenText | None:
    """The text in a file; None if there is none that can be read."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    match content:
        case {"text": str(text), "tokens": dict() | None as tokens}:
            return WrittenText(text=text, tokens=tokens)
    return None


def save_texts(texts: Mapping[Path, WrittenText]) -> None:
    """Write texts to their files. A file that cannot be written ends no run: a warning says so."""
    try:
        for path, written in texts.items():
            with atomic_write(path) as part:
                part.write_text(json.dumps({"text": written.text, "tokens": written.tokens}))
    except OSError as error:
        logger.warning(
            f"interleaved: what the writer writes cannot be saved ({error.strerror or error}): if "
            "this run is killed, it is written again."
        )
