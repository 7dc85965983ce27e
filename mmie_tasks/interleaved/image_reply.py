"""The reply of an image server: the picture in it, or why there is none."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.http.bodies import json_list, json_object, parse_json
from mmie_tasks.http.errors import UnusableBody, read_server_error, redact
from mmie_tasks.interleaved.drawer import DrawerRefused, DrawingError, Picture, PictureUnusable
from mmie_tasks.interleaved.pictures import picture_of

DrawnPicture: TypeAlias = Picture | DrawingError


class RemotePicture(PictureUnusable):
    """The reply has the address of a picture, which is not fetched. Another reply would have one,
    too.
    """


def read_reply(content: bytes, max_side_px: int, secrets: Sequence[str] = ()) -> DrawnPicture:
    """Read the body of a reply, any bytes: JSON with a picture in base64, or why there is none,
    without secrets.
    """
    try:
        body = json_object(parse_json(content))
        entry = json_object(next(iter(json_list(body.get("data"))), None))
        return picture_of(_image_of(entry, body, secrets), max_side_px)
    except UnusableBody as error:
        return PictureUnusable(str(error))
    except (PictureUnusable, DrawerRefused) as error:
        # Without a traceback, which would keep the body in memory.
        return type(error)(redact(str(error), secrets))


def _image_of(
    entry: Mapping[str, object], body: Mapping[str, object], secrets: Sequence[str]
) -> bytes:
    """The bytes of the image file in a reply."""
    encoded, url = (str(entry.get(key) or "").strip() for key in ("b64_json", "url"))
    text = encoded or url
    if not text:
        raise _missing_image(entry, body, secrets)
    if text.startswith("data:"):
        text = text.partition(",")[2]
    elif not encoded:
        address = url.partition("?")[0]
        raise RemotePicture(f"the server sent the address {address} in place of a picture")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise PictureUnusable("the server sent a picture whose base64 is damaged") from None


def _missing_image(
    entry: Mapping[str, object], body: Mapping[str, object], secrets: Sequence[str]
) -> PictureUnusable | DrawerRefused:
    message = ""
    for fields in (entry, body):
        error = read_server_error(200, fields, secrets)
        message = message or error.message
        if isinstance(refusal := fields.get("refusal"), str) and refusal.strip():
            return DrawerRefused(f"the drawer refused: {refusal}")
        if error.is_content_filter or fields.get("finish_reason") == "content_filter":
            return DrawerRefused(error.message or "the picture was withheld by a content filter")
    return PictureUnusable(f"the server sent JSON without a picture: {message or 'no reason'}")
