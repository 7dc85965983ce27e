"""Rows of a benchmark's data file, checked by pydantic: a bad one is a `BadSample`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from mmie_tasks.core.errors import BadSample


class DataRow(BaseModel):
    """A row of a data file; fields that it does not declare are ignored."""

    model_config = ConfigDict(frozen=True)


RowT = TypeVar("RowT", bound=DataRow)


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:  # JSON can hold half a character; nothing else can
        raise ValueError(f"holds a lone surrogate at {error.start}") from error
    return text


def _with_words(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


DataText: TypeAlias = Annotated[str, Field(strict=True), AfterValidator(_unicode)]
"""A text without a lone surrogate, which no model can be sent."""

DataWords: TypeAlias = Annotated[DataText, AfterValidator(_with_words)]
"""A text that is not only white space."""


def read_row(kind: type[RowT], value: object, location: str, id_field: str = "id") -> RowT:
    """The row; raises `BadSample`, which names `location`, the row's id and the field.

    >>> class Row(DataRow):
    ...     id: str
    ...     texts: list[DataText]
    >>> read_row(Row, {"id": "a", "texts": ["b", 3]}, "row 7")
    Traceback (most recent call last):
    mmie_tasks.core.errors.BadSample: row 7, id 'a': `texts[1]`: Input should be a valid string
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in first["loc"])
        problem = first["msg"].removeprefix("Value error, ")
        if first["type"] == "model_type":
            problem = "not an object"
        if field:
            problem = f"`{field.lstrip('.')}`: {problem}"
        if isinstance(value, Mapping) and id_field in value:
            location += f", id {value[id_field]!r}"
        raise BadSample(f"{location}: {problem}") from error
