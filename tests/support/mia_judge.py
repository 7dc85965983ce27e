"""A judge of MIA-Bench for the loopback server: it grades by what it is asked, and gives all."""

from __future__ import annotations

import base64
import re
from typing import Any

from support.judge_server import Sent, error

Body = dict[str, Any]


def prompt_of(body: Body) -> str:
    """The text of a request."""
    return next(p["text"] for p in body["messages"][0]["content"] if p["type"] == "text")


def image_of(body: Body) -> bytes:
    """The bytes of its one image."""
    (url,) = (p["image_url"]["url"] for p in body["messages"][0]["content"] if "image_url" in p)
    return base64.b64decode(url.partition(",")[2])


def weights_of(body: Body) -> list[int]:
    """What its components are worth, as the prompt says."""
    (listed,) = re.findall(r"worth ([\d, and]+) scores", prompt_of(body))
    return [int(number) for number in re.findall(r"\d+", listed)]


def full_marks(body: Body) -> str:
    """The official sentence with full marks for everything, out of 10 as it asks."""
    weights = weights_of(body)
    parts = [f"score of component {i}: {w}/{w}" for i, w in enumerate(weights, 1)]
    return ", ".join([*parts, f"total score: {sum(weights)}/10"]) + ". All of it is there."


def is_check(body: Body) -> bool:
    """Whether this is no sample, but a look whether the judge is there."""
    return "worth" not in prompt_of(body)


def failing_every_other(body: Body) -> str | Sent:
    """Refuses what is worth 4, 3 and 3 for its content; full marks for the others."""
    if weights_of(body) == [4, 3, 3]:
        return error(400, code="content_filter", message="withheld")
    return full_marks(body)
