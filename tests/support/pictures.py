"""Pictures of a text-to-image model, and the bodies in which a server sends them.

A picture is a PNG of the requested size with coloured squares, the same for the same prompt and
seed.
"""

import base64
import hashlib
import random
import struct
import zlib
from io import BytesIO
from typing import Any

from PIL import Image

from support.loopback import error

Body = dict[str, Any]

MODERATION = error(
    400, code="moderation_blocked", message="Your request was rejected by the safety system."
)


def picture(prompt, seed=None, width=512, height=512):
    """The PNG for a prompt and a seed: 4 x 4 coloured squares."""
    colours = random.Random(hashlib.sha256(f"{seed}\n{prompt}".encode()).digest()).randbytes(48)  # noqa: S311
    squares = Image.frombytes("RGB", (4, 4), colours)
    return png(squares.resize((width, height), Image.Resampling.NEAREST))


def noise(width=512, height=512):
    """A PNG as large as one of a photograph: 400 KB for 512 x 512 pixels."""
    dice = random.Random(1)  # noqa: S311
    grain = dice.randbytes(width * height * 3).translate(bytes(byte & 0xF0 for byte in range(256)))
    return png(Image.frombytes("RGB", (width, height), grain))


def png(image):
    file = BytesIO()
    image.save(file, "PNG", compress_level=1)
    return file.getvalue()


def header_only(width, height):
    """A PNG whose header says this size, in pixels, and which has hardly any content."""
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))
    file = b"\x89PNG\r\n\x1a\n"
    for kind, content in chunks:
        file += struct.pack(">I", len(content)) + kind + content
        file += struct.pack(">I", zlib.crc32(kind + content))
    return file


def images(content, **more):
    """The reply with one image: its bytes, or the text in their place."""
    text = base64.b64encode(content).decode() if isinstance(content, bytes) else content
    return {"created": 0, "data": [{"b64_json": text, **more}]}


def drawn(body):
    """The picture that a request is for."""
    width, _, height = str(body.get("size", "512x512")).partition("x")
    content = picture(body["prompt"], body.get("seed"), int(width), int(height))
    return images(content, revised_prompt="another")


def without(*parameters, status=400):
    """A server that knows no such parameters."""

    def says(body):
        if unknown := [name for name in parameters if name in body]:
            message = f"Unknown parameter: '{unknown[0]}'."
            return error(status, code="unknown_parameter", param=unknown[0], message=message)
        return drawn(body)

    return says
