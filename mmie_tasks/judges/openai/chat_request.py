"""The body and cost of a chat completion, online or in the Batch API."""

from __future__ import annotations

import base64
import mimetypes
from pathlib import Path

from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.hub.images import image_suffix
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.content import image_bytes
from mmie_tasks.judges.openai.completion import usage_of
from mmie_tasks.judges.openai.dialect import Dialect
from mmie_tasks.judges.openai.schemas import schema_fields
from mmie_tasks.judges.openai.settings import Settings

_CHARACTERS_PER_TOKEN = 3
_TOKENS_PER_IMAGE = 2000


def chat_body(request: JudgeRequest, settings: Settings, dialect: Dialect) -> dict[str, object]:
    """The body of a chat completion, with the bytes of the request's images.

    One user message with the parts in order follows the system message, if any.

    Raises:
        RequestBroken: An image cannot be read.
    """
    limit = request.max_tokens if settings.max_tokens is None else settings.max_tokens
    content: list[dict[str, object]] = []
    for part in request.parts:
        if isinstance(part, str):
            content.append({"type": "text", "text": replace_surrogates(part)})
            continue
        data = image_bytes(part)
        image = {"url": f"data:{mime_type(data, part)};base64,{base64.b64encode(data).decode()}"}
        if settings.detail:
            image["detail"] = settings.detail
        content.append({"type": "image_url", "image_url": image})
    system = [{"role": "system", "content": request.system}] if request.system else []
    body: dict[str, object] = {
        "model": settings.model,
        "messages": [*system, {"role": "user", "content": content}],
        dialect.max_tokens_name: limit + dialect.headroom,
        **settings.extra_fields,
    }
    if request.schema:
        body |= schema_fields(request.schema, dialect.schema_style)
    if settings.temperature is not None and dialect.takes_temperature:
        body["temperature"] = settings.temperature
    return body


def mime_type(content: bytes, path: Path) -> str:
    """The MIME type of an image by its first bytes, or else by the file's suffix.

    >>> mime_type(b"GIF89a", Path("a.png"))
    'image/gif'
    """
    if suffix := image_suffix(content):
        return {".jpg": "image/jpeg", ".tif": "image/tiff"}.get(suffix, f"image/{suffix[1:]}")
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def cost_of(request: JudgeRequest, completion: object, settings: Settings) -> float | None:
    """The cost of a request in US dollars; None if the price is unknown.

    If the server does not report the tokens, the cost is a high estimate: the longest reply, 2,000
    tokens per image and a token per 3 characters.
    """
    if settings.price is None:
        return None
    if (cost_usd := usage_of(completion, settings.price).cost_usd) is not None:
        return cost_usd
    parts = [*request.parts, request.system, request.schema.parameters if request.schema else ""]
    input_tokens = sum(
        _TOKENS_PER_IMAGE if isinstance(part, Path) else len(part) // _CHARACTERS_PER_TOKEN + 1
        for part in parts
        if part
    )
    return settings.price.cost_usd(input_tokens, settings.max_tokens or request.max_tokens)
