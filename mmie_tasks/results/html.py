"""What the HTML pages of results share: texts made safe, embedded pictures, the content policy, the
assets.

The texts of models, datasets and people are untrusted. They reach a page as JSON in which no tag
can begin, or through the template's escaping; the scripts put them into text nodes only. A policy
in the page's head allows these scripts by their hash, and no other script, request or form.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import math
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from PIL import Image

from mmie_tasks.core.errors import DataBroken, DataMissing
from mmie_tasks.core.tables import counted
from mmie_tasks.hub.images import TooManyPixels, check_end, open_rgb, size_px
from mmie_tasks.record.segment import Segment

Json: TypeAlias = dict[str, Any]
"""An object of a page's data, ready for JSON."""

_ASSETS = Path(__file__).resolve().parent / "assets"
"""Styles and scripts that all pages share."""

MAX_TEXT = 20_000  # characters of one segment
MAX_LABEL = 500  # characters of a fact, a reading, a name or a problem
MAX_SEGMENTS = 500

_MAX_TOTAL_TEXT = 200_000  # characters of a question, a gold answer or an answer
_MAX_PIXELS = 50_000_000  # of an image that is decoded: 150 MB as RGB
_MAX_NAME = 80  # characters of a file's name
# Decoded by Pillow itself: it hands other kinds to other programs (EPS to Ghostscript).
_IMAGE_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF")

_SYMBOLS = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\t\n"},
    **dict.fromkeys([*range(0x80, 0xA0), *range(0xD800, 0xE000)], "�"),
    0x7F: "␡",
}
_LINE_BREAK = re.compile("\r\n?")
_DECIMALS = 6  # of a number in the payload: more than is shown, fewer than a float has


def rendered(
    folder: Path,
    scripts: Sequence[str],
    values: Json,
    *,
    library: str = "",
    filters: Mapping[str, Callable[..., object]] | None = None,
) -> str:
    """The page of a folder's template ``page.html.j2``, to be written as UTF-8.

    The scripts, behind the shared one, are joined in their order; they share one scope. A content
    security policy allows them, the library and embedded images only. Style attributes are allowed,
    which the charts need; they cannot load anything. Values are escaped, and a missing one is an
    error.
    """
    environment = _environment(folder)
    environment.filters.update(filters or {})
    parts = _joined(_ASSETS / "elements.js", *(folder / script for script in scripts))
    script = Markup(f'"use strict";\n(() => {{\n{parts}}})();\n')  # noqa: S704  # ours
    style = Markup(_joined(_ASSETS / "base.css", folder / "page.css"))  # noqa: S704  # ours
    digests = [hashlib.sha256(text.encode()).digest() for text in (script, library) if text]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    policy = (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "connect-src 'none'; base-uri 'none'; form-action 'none'"
    )
    return environment.get_template("page.html.j2").render(
        values, policy=policy, style=style, script=script
    )


@cache
def _environment(folder: Path) -> Environment:
    """Reads a folder's template once."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _joined(*files: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def inert_json(value: object) -> Markup:
    r"""JSON in which neither a tag nor a comment can begin, inside a ``script`` element.

    >>> print(inert_json("</script>"))
    "\u003c/script\u003e"
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  # see above


def plain(text: str) -> str:
    r"""A text without characters that JSON in UTF-8 or a page cannot hold.

    Control characters become their symbols, lone surrogates the replacement character.

    >>> plain("a\x00b\r\nc\ud83d")
    'a␀b\nc�'
    """
    return _LINE_BREAK.sub("\n", text).translate(_SYMBOLS)


def page_data(data: Json) -> Json:
    r"""Data as JSON and a page can hold it: texts as `plain`, numbers with six decimals, None for
    numbers that JSON does not have.

    >>> page_data({"a": ["x\x00", (1 / 3, float("nan"))]})
    {'a': ['x␀', [0.333333, None]]}
    """
    return {plain(key): _page_value(value) for key, value in data.items()}


def _page_value(value: object) -> object:
    match value:
        case str():
            return plain(value)
        case float():
            return round(value, _DECIMALS) if math.isfinite(value) else None
        case list() | tuple():
            return [_page_value(item) for item in value]
        case dict():
            return page_data(value)
    return value


def cut(text: str, max_characters: int) -> str:
    """A text, shortened, with the number of characters left out.

    >>> cut("abcdef", 4)
    'abcd … (2 more characters in the log)'
    """
    left_out = len(text) - max_characters
    if left_out <= 0:
        return text
    return f"{text[:max_characters]} … ({counted(left_out, 'more character')} in the log)"


def ends(interval: tuple[float, float] | None) -> Json:
    """Both ends of an interval; None where there is none."""
    low, high = interval or (None, None)
    return {"low": low, "high": high}


@dataclass(frozen=True, slots=True)
class EmbeddedImage:
    """An image as a ``data:`` address, or None and the reason why there is none."""

    address: str | None
    note: str = ""

    @property
    def size_bytes(self) -> int:
        """What it adds to a page before it is written as text."""
        return len(self.address or "") * 3 // 4


def embed_image(image: str, max_side_px: int, quality: int) -> EmbeddedImage:
    """A logged file, relative to the current folder, as WEBP; never raises.

    Args:
        image: The file.
        max_side_px: Larger images are shrunk, so that their longest side has this size.
        quality: Of WEBP, 0 to 100.
    """
    try:
        path = Path(image)
        if not stat.S_ISREG(path.stat().st_mode):
            return EmbeddedImage(None, "not a file")
        size_px(path, _MAX_PIXELS)
        file = io.BytesIO()
        _shrunk(path, max_side_px).save(file, "WEBP", quality=quality, method=2)
        return EmbeddedImage(f"data:image/webp;base64,{base64.b64encode(file.getvalue()).decode()}")
    except (FileNotFoundError, NotADirectoryError, DataMissing):
        return EmbeddedImage(None, "the file no longer exists")
    except TooManyPixels:
        return EmbeddedImage(None, f"too large to show: more than {_MAX_PIXELS:,} pixels")
    except PermissionError:
        return EmbeddedImage(None, "the file cannot be read")
    except Exception:  # noqa: BLE001 - Pillow's readers: the image is lost, and the page says so
        return EmbeddedImage(None, "the file is not a readable image")


def _shrunk(path: Path, max_side_px: int) -> Image.Image:
    """The image as RGB, its longest side at most `max_side_px`; `DataBroken` if it is not of a
    format decoded here.
    """
    content = path.read_bytes()
    check_end(content, path)
    with Image.open(io.BytesIO(content)) as image:
        if image.format not in _IMAGE_FORMATS:
            raise DataBroken(f"`{path}` is {image.format}.", hint="open it with another program")
        if image.format in ("JPEG", "MPO"):  # decoded at an eighth or more of its size
            image.thumbnail((max_side_px, max_side_px))
            small: Image.Image = image.convert("RGB")
            return small
    full = open_rgb(path, _MAX_PIXELS)
    full.thumbnail((max_side_px, max_side_px))
    return full


def file_name(image: str) -> str:
    r"""The name of a file without its folders, shortened for display.

    >>> file_name("/data/images/kite.png"), file_name("C:\\images\\kite.png")
    ('kite.png', 'kite.png')
    """
    name = re.split(r"[/\\]", image[-4 * _MAX_NAME :])[-1]
    return name if len(name) <= _MAX_NAME else f"…{name[1 - _MAX_NAME :]}"


FindImage: TypeAlias = Callable[[str], EmbeddedImage]  # from the file of an image to what is shown


def has_image(segment: Segment) -> bool:
    """Whether the segment has an image, or says why its image could not be used."""
    return bool(segment.image or segment.problem)


def segments_json(
    segments: Sequence[Segment], owner: str, find_image: FindImage, max_images: int
) -> list[Json]:
    """Texts and images in their order, for the scripts; notes count what is left out.

    Args:
        segments: Of a question or an answer.
        owner: For the images' descriptions: ``the question``.
        find_image: Gives what is shown of an image.
        max_images: That are shown at most.
    """
    pieces: list[Json] = []
    images = hidden = 0
    text_budget = _MAX_TOTAL_TEXT
    for segment in segments[:MAX_SEGMENTS]:
        if segment.text:
            text = cut(segment.text, min(text_budget, MAX_TEXT))
            pieces += [*_left_out(hidden, "more image"), {"text": text}]
            text_budget -= min(len(segment.text), text_budget)
            hidden = 0
        if has_image(segment):
            images += 1
            if images > max_images:
                hidden += 1
            else:
                pieces.append(_image_json(segment, f"image {images} of {owner}", find_image))
    return [
        *pieces,
        *_left_out(hidden, "more image"),
        *_left_out(len(segments) - MAX_SEGMENTS, "more part"),
    ]


def _left_out(count: int, noun: str) -> list[Json]:
    return [{"image": None, "alt": "", "note": f"and {counted(count, noun)}"}] if count > 0 else []


def _image_json(segment: Segment, title: str, find_image: FindImage) -> Json:
    file = segment.image or ""
    prompt = {"prompt": cut(segment.prompt, MAX_TEXT)} if segment.prompt else {}
    if segment.problem:
        reference = f": {file[:MAX_LABEL]}" if file else ""
        note = cut(f"{segment.problem}{reference}", MAX_LABEL)
        return {"image": None, "alt": title, "note": note, **prompt}
    shown, alt = find_image(file), f"{title}: {file_name(file)}"
    return {"image": shown.address, "alt": alt, "note": shown.note, **prompt}
