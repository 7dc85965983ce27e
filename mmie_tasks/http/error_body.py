"""Reads error bodies of any form: their message, and the parameter and code that they name.

The page of judges lists the forms, each with its source.
"""

from __future__ import annotations

import ast
import html
import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

_MAX_JSON = 2**20  # characters; a longer body is read as plain text
_MAX_TEXT = 8_000  # characters of a text that are looked at
_MAX_KEYS, _MAX_ENTRIES, _MAX_DEPTH = 100, 5, 8

# Names of fields, without `_` and in lower case; the first that has a value wins.
_MESSAGES = (
    *("message", "msg", "errormessage", "errormsg", "errordescription", "statusmsg", "detail"),
    *("error", "errors", "metadata", "raw", "baseresp", "data", "description", "title"),
)
_CODES = ("code", "errorcode", "type", "errortype", "status", "statuscode")
_PARAMETERS = ("param", "parameter", "field", "loc")

_NO_CODE = re.compile(r"|[1-5]\d\d|0|error|fail(?:ed|ure)?|.*[:\s].*", re.IGNORECASE | re.DOTALL)
_LOCATIONS = ("body", "query", "path", "header")  # where FastAPI found a parameter
_OBJECT = re.compile(r"[\[{]\s*[\"'{]")
_PAGE = re.compile(
    r"<(?:!doctype|\?xml|html|head|body|title|center|h\d|p|div|pre|error)\b", re.IGNORECASE
)
_TITLE = re.compile(r"<title[^<>]*>\s*([^<]*[^<\s])", re.IGNORECASE)
_MARKUP = re.compile(
    r"<(script|style)\b[^<>]*>.*?(?:</\1>?|$)|<[^<>]*(?:>|$)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """The texts of an error body. Each may be empty; none is redacted."""

    message: str = ""  # the one closest to the cause: a gateway's own only if it quotes no other
    param: str = ""  # the parameter that the error names in a field
    code: str = ""  # or else its type; not the HTTP status


def read_error_body(body: object) -> ErrorBody:
    """Read an error body: bytes, a text or parsed JSON of any shape.

    >>> read_error_body(b'[{"error": {"code": 404, "message": "No.", "status": "NOT_FOUND"}}]')
    ErrorBody(message='No.', param='', code='NOT_FOUND')
    >>> read_error_body("<html><title>502 Bad Gateway</title><h1>nginx</h1></html>").message
    '502 Bad Gateway'
    """
    if isinstance(body, bytes):
        body = body[: _MAX_JSON + 1].decode(errors="replace")
    if isinstance(body, str) and len(body) <= _MAX_JSON:
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    return _read(body, _MAX_DEPTH)


def _read(value: object, depth: int) -> ErrorBody:
    match value:
        case str():
            return _read_text(value[:_MAX_TEXT], depth)
        case list() | tuple() if depth:
            entries = [_read(entry, depth - 1) for entry in value[:_MAX_ENTRIES]]
            messages = dict.fromkeys(entry.message for entry in entries if entry.message)
            first = next((entry for entry in entries if entry != ErrorBody()), ErrorBody())
            return replace(first, message="; ".join(messages))
        case dict() if depth:
            return _read_object(value, depth)
    return ErrorBody()


def _read_object(json_object: Mapping[object, object], depth: int) -> ErrorBody:
    fields = {
        str(key).replace("_", "").lower(): value
        for key, value in islice(json_object.items(), _MAX_KEYS)
    }
    # An object or a list in it is closer to the cause than a text.
    names = sorted(filter(fields.get, _MESSAGES), key=lambda name: isinstance(fields[name], str))
    parts = [_read(fields[name], depth - 1) for name in names]
    best = next((part for part in parts if part.message), None)
    best = best or next((part for part in parts if part != ErrorBody()), ErrorBody())
    codes = [fields.get(name) for name in _CODES]
    codes += [fields.get("error")] if "message" in names else []  # `error` is then a word
    code = best.code or next(filter(None, map(_code, codes)), "")
    if isinstance(inner := fields.get("innererror"), dict):  # Azure's
        code = " ".join(filter(None, (code, _code(inner.get("code")))))
    param = best.param or next(filter(None, map(_parameter, map(fields.get, _PARAMETERS))), "")
    unknown = json.dumps(fields[names[0]], default=str)[:_MAX_TEXT] if names else ""
    message = best.message if best != ErrorBody() else unknown
    return ErrorBody(message=message, param=param, code=code)


def _read_text(text: str, depth: int) -> ErrorBody:
    """A message, or the error in JSON or in Python's notation that it quotes."""
    quoted = _quoted_object(text) if depth else None
    error = ErrorBody() if quoted is None else _read(quoted, depth - 1)
    is_error = error.code or error.param or (isinstance(quoted, dict) and "error" in quoted)
    if error.message and is_error:
        return error
    return ErrorBody(message=" ".join(_without_markup(text).split()))


def _quoted_object(text: str) -> object:
    """The first object or list in a text; None if it has none that can be read."""
    if (start := _OBJECT.search(text)) is None:
        return None
    text = text[start.start() :]
    parsed: object
    try:
        parsed, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        try:
            parsed = ast.literal_eval(text[: max(text.rfind("}"), text.rfind("]")) + 1])
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
    return parsed


def _code(value: object) -> str:
    """A code; empty for an HTTP status, a sentence or an address."""
    is_number = type(value) is int and abs(value) < 10**9
    text = str(value)[:_MAX_TEXT].strip() if is_number or isinstance(value, str) else ""
    return "" if _NO_CODE.fullmatch(text) else text


def _parameter(value: object) -> str:
    """The name of a parameter: a text, or the last one in a path such as FastAPI's."""
    path = value if isinstance(value, (list, tuple)) else [value]
    names = [name for name in path[-10:] if isinstance(name, str) and name not in _LOCATIONS]
    return names[-1][:_MAX_TEXT].strip() if names else ""


def _without_markup(text: str) -> str:
    """The title or the words of a page; any other text unchanged."""
    if (page := _PAGE.search(text)) is None:
        return text
    before, markup = text[: page.start()], text[page.start() :]
    title = _TITLE.search(markup)
    return html.unescape(f"{before} {title[1] if title else _MARKUP.sub(' ', markup)}")
