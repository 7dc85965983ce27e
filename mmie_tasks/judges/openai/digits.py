"""The probabilities of a reply's digits, from the log-probabilities of a chat completion."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from mmie_tasks.http.bodies import json_list, json_object
from mmie_tasks.record.reply import DigitToken

_LEAST_LOGPROB = -1e99
_MAX_LOGPROB, _MAX_TOTAL = 1e-4, 1.01  # with errors of rounding; logits in their place exceed them
_DIGIT = re.compile(r"\s*([0-9])\s*")
_BLANKS = b" \t\n\r\f\v"


def digits_of(logprobs: object, text: str) -> tuple[DigitToken, ...] | None:
    """The digits of a reply that are tokens of their own, from the log-probabilities of a chat
    completion.

    Args:
        logprobs: The field of that name of the reply's choice: parsed JSON of any shape.
        text: The reply's text.

    Returns:
        None if the fields that are read are missing or malformed, or if the tokens do not hold the
        text exactly once, apart from blanks.

    >>> five, four = {"token": " 5", "logprob": -0.1}, {"token": " 4", "logprob": -2.5}
    >>> tokens = [{"token": "Score:", "logprob": 0}, {**five, "top_logprobs": [five, four]}]
    >>> (digit,) = digits_of({"content": tokens}, "Score: 5")
    >>> [(digit.offset, digit.logprobs[4], digit.logprobs[5])]
    [(7, -2.5, -0.1)]
    """
    tokens = [json_object(token) for token in json_list(json_object(logprobs).get("content"))]
    spellings = [spelling for token in tokens if (spelling := _spelling_of(token)) is not None]
    if len(spellings) < len(tokens):
        return None
    # Tokens may hold part of a character, so positions are in bytes. Blanks do not count: some
    # servers decode every token by itself, which loses those before words.
    positions = [
        index
        for index, character in enumerate(text)
        for byte in character.encode(errors="surrogatepass")
        if byte not in _BLANKS
    ]
    joined, squeezed_text = (
        content.translate(None, _BLANKS)
        for content in (b"".join(spellings), text.encode(errors="surrogatepass"))
    )
    begin = joined.find(squeezed_text)
    if begin < 0 or begin != joined.rfind(squeezed_text):
        return None
    digits, end = [], -begin
    for token, spelling in zip(tokens, spellings, strict=True):
        squeezed = spelling.translate(None, _BLANKS)
        end += len(squeezed)
        if (digit := _digit_of(spelling)) is None:
            continue
        position = end - len(squeezed) + squeezed.index(str(digit).encode())
        if not 0 <= position < len(positions):
            continue  # of hidden reasoning
        values = _digit_logprobs(token, spelling)
        if values is None:
            return None
        digits.append(DigitToken(offset=positions[position], logprobs=values))
    return tuple(digits)


def _spelling_of(entry: object) -> bytes | None:
    """The bytes of a token; None if they are malformed."""
    fields = json_object(entry)
    match fields.get("token"), fields.get("bytes"):
        case str(characters), None:
            return characters.encode(errors="surrogatepass")
        case str(), list(codes) if all(type(code) is int and 0 <= code <= 255 for code in codes):
            return bytes(codes)
    return None


def _digit_of(spelling: bytes) -> int | None:
    """The digit of a token that is a digit, with or without white space around it."""
    match = _DIGIT.fullmatch(spelling.decode(errors="replace"))
    return int(match[1]) if match else None


def _digit_logprobs(
    token: Mapping[str, object], spelling: bytes
) -> tuple[float | None, ...] | None:
    """The log-probabilities of the digits 0 to 9 as this token; None if they are malformed.

    A digit has several spellings, with and without white space; their probabilities are added up.
    """
    alternatives, own_logprob = json_list(token.get("top_logprobs")), _logprob_of(token)
    if own_logprob is None or not alternatives:
        return None
    # The generated token may be missing among its alternatives, or be listed twice.
    pairs = dict.fromkeys((_spelling_of(entry), _logprob_of(entry)) for entry in alternatives)
    if spelling not in (other for other, _ in pairs):
        pairs[spelling, own_logprob] = None
    values: list[list[float]] = [[] for _ in range(10)]
    total = 0.0
    for other, logprob in pairs:
        if other is None or logprob is None:
            return None
        total += math.exp(logprob)
        if (digit := _digit_of(other)) is not None:
            values[digit].append(logprob)
    if total > _MAX_TOTAL:
        return None
    return tuple(
        round(min(0.0, float(np.logaddexp.reduce(logs))), 4) if logs else None for logs in values
    )


def _logprob_of(entry: object) -> float | None:
    """The log-probability of a token; None if it is none."""
    match json_object(entry).get("logprob"):
        case int() | float() as logprob if (
            type(logprob) is not bool and _LEAST_LOGPROB < logprob <= _MAX_LOGPROB
        ):
            return float(logprob)
    return None
