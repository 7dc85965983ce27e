"""A judge of MIA-Bench for the loopback server, which gives full marks."""

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
    """The bytes of the only image of a request."""
    (url,) = (p["image_url"]["url"] for p in body["messages"][0]["content"] if "image_url" in p)
    return base64.b64decode(url.partition(",")[2])


def weights_of(body: Body) -> list[int]:
    """The weights of the components, read from the prompt."""
    (listed,) = re.findall(r"worth ([\d, and]+) scores", prompt_of(body))
    return [int(number) for number in re.findall(r"\d+", listed)]


def full_marks(body: Body) -> str:
    """A reply in the official form, out of 10, with full marks for every component."""
    weights = weights_of(body)
    parts = [f"score of component {i}: {w}/{w}" for i, w in enumerate(weights, 1)]
    return ", ".join([*parts, f"total score: {sum(weights)}/10"]) + ". All of it is there."


def is_check(body: Body) -> bool:
    """Whether a request only checks that the judge is available."""
    return "worth" not in prompt_of(body)


def failing_every_other(body: Body) -> str | Sent:
    """A content filter error if the weights are 4, 3 and 3, full marks otherwise."""
    if weights_of(body) == [4, 3, 3]:
        return error(400, code="content_filter", message="withheld")
    return full_marks(body)
