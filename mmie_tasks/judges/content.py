"""The content of a request: the bytes of its images, and the request's part of a cache's key."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from mmie_tasks.judges.base import JudgeRequest, RequestBroken

MAX_IMAGE_BYTES = 64 * 1024 * 1024


def image_bytes(path: Path) -> bytes:
    """The bytes of an image file, unchanged.

    Raises:
        RequestBroken: The file cannot be read, is empty, or exceeds `MAX_IMAGE_BYTES`.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = file.read(size) if size <= MAX_IMAGE_BYTES else b""
    except OSError as error:
        raise RequestBroken(f"the image `{path}` cannot be read: {error.strerror}") from error
    if not content:
        raise RequestBroken(
            f"the image `{path}` is empty or larger than {MAX_IMAGE_BYTES // 2**20} MiB"
        )
    return content


def content_key(request: JudgeRequest) -> str:
    """SHA-256 of a request's system message, schema, parts, token limit and attempt, in hex.

    Images are hashed by their bytes, not their paths, so the key is the same on every machine. The
    hashed text begins with ``request 1`` if there is neither a system message nor a schema, or
    else with ``request 2``.

    Raises:
        RequestBroken: An image cannot be read.
    """
    instructions: list[tuple[bytes, bytes]] = []
    if request.system:
        instructions.append((b"system", _encoded(request.system)))
    if request.schema:
        schema = (request.schema.name, request.schema.description, request.schema.parameters)
        instructions += [(b"schema", _encoded(text)) for text in schema]
    digest = hashlib.sha256(b"mmie-tasks request %d\n" % (2 if instructions else 1))
    contents = (
        (b"image", image_bytes(part)) if isinstance(part, Path) else (b"text", _encoded(part))
        for part in request.parts
    )
    for kind, content in (*instructions, *contents):
        digest.update(b"%s %d\n" % (kind, len(content)))  # so that "ab", "c" is not "a", "bc"
        digest.update(content)
    digest.update(b"max_tokens %d attempt %d" % (request.max_tokens, request.attempt))
    return digest.hexdigest()


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")
