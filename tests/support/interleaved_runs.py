"""Runs of ``--model interleaved`` on MMIE: a scripted writer behind a chat server, and what is read
of a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.judge_server import Body

STORY = (
    "A girl in a red coat opens the door.\n[picture]\nHer dog waits outside.\n[picture]\nThey "
    "walk.\n[picture]\nEnd."
)
"""Three markers, of which the judge can see two: the question has a picture."""

FIRST, SECOND = "A girl in a red coat opens the door.", "Her dog waits outside."


def writes(body: Body) -> str:
    """The writer: a story where it is told how to ask for pictures, else a number."""
    return STORY if "[picture]" in last_text(body) else "42"


def last_text(body: Body) -> str:
    """The last text of a chat request."""
    content = body["messages"][-1]["content"]
    return (
        content
        if isinstance(content, str)
        else [part["text"] for part in content if part["type"] == "text"][-1]
    )


def arguments(writer: str, drawer: str, **more: str) -> tuple[str, ...]:
    """The runner's options for a writer and a drawer; ``,`` inside them is written ``;``."""
    pairs = {"lvlm": writer, "t2i": drawer, **more}
    text = ",".join(f"{name}={value.replace(',', ';')}" for name, value in pairs.items())
    return ("--model", "interleaved", "--model_args", text)


def facts(samples: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The facts of each sample, by its id."""
    return {line["record"]["id"]: line["record"]["facts"] for line in samples}


def pictures(cache: Path) -> dict[str, bytes]:
    """The drawn pictures in a cache, by their file names."""
    files = sorted(
        path for path in cache.glob("**/pictures/**/*") if path.suffix in (".png", ".jpg", ".webp")
    )
    return {path.name: path.read_bytes() for path in files}
