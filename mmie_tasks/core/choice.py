"""Parses the choice of a judge or drawer, ``NAME[:MODEL][,key=value...]``, and reads its options.

A judge or drawer declares its options in a subclass of `ChoiceOptions`.
"""

from __future__ import annotations

import json
import re
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, field_validator

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text

_COMMA = re.compile(",")
_FORM = "`NAME[:MODEL][,k=v...]`, each option once"
_MAY_HOLD_SECRET = re.compile(r"\?|://[^/\s]*@")  # in a URL

OptionsT = TypeVar("OptionsT", bound="ChoiceOptions")


class ChoiceOptions(BaseModel):
    """The options that users may type, with types and defaults.

    The text ``none`` is read as None where the type allows it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _none(cls, value: object, info: ValidationInfo) -> object:
        annotation = cls.model_fields[info.field_name or ""].annotation
        allows_none = type(None) in typing.get_args(annotation)
        return None if allows_none and str(value).lower() == "none" else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A judge or drawer by name, with its options as the user typed them.

    Attributes:
        name: Name of the judge or drawer; may be unknown.
        options: Options by name, as text.
        source: Where the choice was made, for messages.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def text(self) -> str | None:
        """The text that `parse_choice` reads.

        None if it has a URL with a user, a password or a query, which may be secrets.

        >>> Choice(name="openai", options={"model": "gpt-4o"}).text
        'openai:model=gpt-4o'
        >>> Choice(name="openai", options={"base_url": "http://me:word@host/v1"}).text is None
        True
        """
        pairs = [f"{key}={value}" for key, value in self.options.items()]
        if any(_MAY_HOLD_SECRET.search(value) for value in self.options.values()):
            return None
        return f"{self.name}:{','.join(pairs)}" if pairs else self.name


def parse_choice(text: str, source: str, kind: str = "judge") -> Choice:
    """Parse ``NAME[:MODEL][,key=value...]``; `kind` is for messages.

    What follows the colon is an option, too, if it has the form ``word=``.

    Raises:
        SettingWrong: The form is wrong. The text is not repeated, as it may hold an API key.

    >>> parse_choice("openai:gpt-4o,timeout=60", "here").options
    {'model': 'gpt-4o', 'timeout': '60'}
    >>> parse_choice("replay,path=a", "") == parse_choice("replay:path=a", "")
    True
    """
    name, separator, rest = (*re.split("([:,])", text.strip(), maxsplit=1), "", "")[:3]
    if not name.strip():
        raise SettingWrong(f"{source} names no {kind}.", hint=_FORM)
    if separator == ":" and rest and not re.match(r"\s*\w+=", rest):
        rest = f"model={rest}"
    options = parse_pairs(rest, f"{source} names a {kind}", _FORM)
    return Choice(name=name.strip(), options=options, source=source)


def parse_pairs(text: str, subject: str, hint: str = "`k=v,k=v`, each once") -> dict[str, str]:
    """Parse ``k=v,k=v``.

    Raises:
        SettingWrong: A part has another form, or an option is repeated.
    """
    options: dict[str, str] = {}
    for pair in filter(None, map(str.strip, split_options(text))):
        key, equals, value = pair.partition("=")
        if not (key and equals) or key in options:
            message = f"{subject} in an invalid form, at option {len(options) + 1}."
            raise SettingWrong(message, hint=hint)
        options[key] = value
    return options


def split_options(text: str, separator: re.Pattern[str] = _COMMA) -> list[str]:
    """Split a text at the matches of a pattern, but not between braces, as of a JSON object.

    >>> split_options('a=1,b={"c": [1, 2], "d": {}},e=2')
    ['a=1', 'b={"c": [1, 2], "d": {}}', 'e=2']
    """
    parts, start = [], 0
    for match in separator.finditer(text):
        part = text[start : match.start()]
        if part.count("{") <= part.count("}"):
            parts.append(part)
            start = match.end()
    return [*parts, text[start:]]


def option_text(value: object) -> str:
    """The text of an option as a user types it; JSON for a mapping.

    >>> option_text({"top_k": True}), option_text(0.5)
    ('{"top_k": true}', '0.5')
    """
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def read_options(
    options: Mapping[str, str], model: type[OptionsT], kind: str, name: str = ""
) -> OptionsT:
    """The options in their declared types.

    Args:
        options: The options as the user typed them.
        model: The class that declares the options.
        kind: ``judge`` or ``drawer``, for messages.
        name: Name of the judge or drawer; empty if the kind has only one.

    Raises:
        SettingWrong: An option is unknown or missing, or has the wrong type or range. The message
            does not repeat the value of an unknown one, which may be an API key.
    """
    subject = f"The {kind} `{name}`" if name else f"A {kind}"
    if unknown := [key for key in options if key not in model.model_fields]:
        hint = f"its options: {valid_names_text(model.model_fields, unknown[0])}"
        raise SettingWrong(f"{subject} has no option `{unknown[0]}`.", hint=hint)
    try:
        return model.model_validate(options)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        key = "".join(map(str, problem["loc"][:1]))
        if problem["type"] == "missing":
            message, hint = f"{subject} needs `{key}=...`.", f"`{name}:{key}=...`"
        else:
            option = f"`{key}={options.get(key, '')}`"
            message = f"{subject} cannot use the option {option}. {problem['msg']}."
            hint = f"`{key}=` with such a value, or leave it out"
        raise SettingWrong(message, hint=hint) from None
