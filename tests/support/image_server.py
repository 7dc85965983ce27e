"""A text-to-image model on an OpenAI-compatible loopback server, with a script of faults.

    with image_server(delay_s=0.1, at_most=20) as server:
        server.then(MODERATION)          # the next request; then pictures again
        server.fails(500, times=2)       # as every method of `judge_server`
        server.says(without("seed"))     # from now on, by the request's body
        ...                              # draw at server.url
    server.asked      # bodies of all requests, as dicts, in order of arrival
    len(server), server.headers, server.times, server.statuses, server.most_at_once

A picture is a PNG of the requested size with coloured squares, the same for the same prompt and
seed. As a program, which prints its address: ``python -m support.image_server --port 0 --delay_s 1
--at_most 20``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import random
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BytesIO
from typing import Any

from PIL import Image

from support.judge_server import Body, JudgeServer, Says, Sent, error, judge_server

MODERATION = error(
    400, code="moderation_blocked", message="Your request was rejected by the safety system."
)
NOT_JSON = Sent(content=b"<html>Sign in</html>")
NO_PICTURE = Sent(content=b'{"created": 0, "data": []}')


def picture(prompt: str, seed: int | None = None, width: int = 512, height: int = 512) -> bytes:
    """The PNG for a prompt and a seed: 4 x 4 coloured squares."""
    colours = random.Random(hashlib.sha256(f"{seed}\n{prompt}".encode()).digest()).randbytes(48)  # noqa: S311
    image = Image.frombytes("RGB", (4, 4), colours).resize(
        (width, height), Image.Resampling.NEAREST
    )
    return png(image)


def noise(width: int = 512, height: int = 512) -> bytes:
    """A PNG as large as one of a photograph: 400 KB for 512 x 512 pixels."""
    dice = random.Random(1)  # noqa: S311
    grain = dice.randbytes(width * height * 3).translate(bytes(byte & 0xF0 for byte in range(256)))
    return png(Image.frombytes("RGB", (width, height), grain))


def png(image: Image.Image) -> bytes:
    file = BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def header_only(width: int, height: int) -> bytes:
    """A PNG whose header says this size, in pixels, and which has hardly any content."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    parts = (struct.pack(">I", len(content)) + kind + content for kind, content in chunks)
    sums = (struct.pack(">I", zlib.crc32(kind + content)) for kind, content in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        part + checksum for part, checksum in zip(parts, sums, strict=True)
    )


def images(content: bytes | str | None, **more: Any) -> Body:
    """The reply with one image: its bytes, or the text in their place."""
    text = base64.b64encode(content).decode() if isinstance(content, bytes) else content
    return {"created": 0, "data": [{"b64_json": text, **more}]}


def drawn(body: Body) -> Body:
    """The picture that a request is for."""
    width, _, height = str(body.get("size", "512x512")).partition("x")
    return images(
        picture(body["prompt"], body.get("seed"), int(width), int(height)), revised_prompt="another"
    )


def without(*parameters: str, status: int = 400) -> Callable[[Body], Body | Sent]:
    """A server that knows no such parameters."""

    def says(body: Body) -> Body | Sent:
        if unknown := [name for name in parameters if name in body]:
            message = f"Unknown parameter: '{unknown[0]}'."
            return error(status, code="unknown_parameter", param=unknown[0], message=message)
        return drawn(body)

    return says


@contextmanager
def image_server(says: Says = drawn, **settings: Any) -> Iterator[JudgeServer]:
    """Start a server, stop it at the end."""
    settings = {
        "models": ("image-model",),
        "route": "/images/generations",
        "check": None,
        **settings,
    }
    with judge_server(says, **settings) as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8378)
    parser.add_argument("--delay_s", type=float, default=0.0)
    parser.add_argument(
        "--at_most", type=float, default=math.inf, help="more requests at once get HTTP 429"
    )
    parser.add_argument("--key")
    parser.add_argument(
        "--noise", action="store_true", help="send the same large picture to all requests"
    )
    settings = vars(parser.parse_args())
    large = Sent(content=json.dumps(images(noise())).encode())
    with (
        image_server(large if settings.pop("noise") else drawn, **settings) as server,
        suppress(KeyboardInterrupt),
    ):
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        threading.Event().wait()


if __name__ == "__main__":
    main()
