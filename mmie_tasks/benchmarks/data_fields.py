"""Values in the rows of a benchmark's data files: the type that they must have, or `BadSample`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mmie_tasks.core.errors import BadSample


def text_of(value: object, location: str) -> str:
    """The value, if it is a text without a lone surrogate, which no model can be sent.

    Raises:
        BadSample: The value is not such a text; names `location`, its row and field.

    >>> text_of(3, "row 7: `question`")
    Traceback (most recent call last):
    mmie_tasks.core.errors.BadSample: row 7: `question` is int, not text
    """
    if not isinstance(value, str):
        raise BadSample(f"{location} is {type(value).__name__}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:  # JSON can hold half a character; nothing else can
        raise BadSample(f"{location} holds a lone surrogate at {error.start}") from error
    return value


def items_of(value: object, location: str) -> Sequence[object]:
    """The value, if it is a list; raises `BadSample` otherwise."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise BadSample(f"{location} is {type(value).__name__}, not a list")
    return value


def texts_of(value: object, location: str) -> tuple[str, ...]:
    """The value, if it is a list of texts; raises `BadSample` otherwise."""
    return tuple(text_of(x, f"{location}[{i}]") for i, x in enumerate(items_of(value, location)))


def object_of(value: object, location: str) -> Mapping[str, object]:
    """The value, if it is a JSON object; raises `BadSample` otherwise."""
    if not isinstance(value, Mapping):
        raise BadSample(f"{location} is {type(value).__name__}, not an object")
    return value
