"""A judge of MIA-Bench for the loopback server, which gives full marks."""

import base64
import random
import re

from support.judge_server import completion
from support.loopback import HANG_UP, Sent, error


def prompt_of(body):
    return next(p["text"] for p in body["messages"][0]["content"] if p["type"] == "text")


def image_of(body):
    (url,) = (p["image_url"]["url"] for p in body["messages"][0]["content"] if "image_url" in p)
    return base64.b64decode(url.partition(",")[2])


def weights_of(body):
    (listed,) = re.findall(r"worth ([\d, and]+) scores", prompt_of(body))
    return [int(number) for number in re.findall(r"\d+", listed)]


def full_marks(body):
    """A reply in the official form, out of 10, with full marks for every component."""
    weights = weights_of(body)
    parts = [f"score of component {i}: {w}/{w}" for i, w in enumerate(weights, 1)]
    return ", ".join([*parts, f"total score: {sum(weights)}/10"]) + ". All of it is there."


STORM = (
    (error(429), 10),
    (error(500), 10),
    (HANG_UP, 5),
    (Sent(content=b'{"choices": [{"mess'), 5),
    (completion(""), 4),
    (None, 66),
)
"""Faults, and full marks for None, in percent of the requests."""


def stormy(seed):
    """Full marks, and the faults of `STORM` in a random order."""
    draws = random.Random(seed)  # noqa: S311 - for a test
    faults, percents = zip(*STORM, strict=True)

    def says(body):
        (fault,) = draws.choices(faults, percents)
        return full_marks(body) if fault is None else fault

    return says
