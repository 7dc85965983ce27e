"""Options of components that are chosen by name: judges and drawers.

A component's factory is a callable with keyword parameters. The parameters are its options, and
their annotations the types. A parameter ``environment`` is not an option: it receives the
environment.
"""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import SimpleNamespace
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text

ENVIRONMENT = "environment"

_SECRETS = ("api_key", "key", "token", "password", "secret")
_OPTION_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

ComponentT = TypeVar("ComponentT")


_COMMA = re.compile(",")
_JSON_VALUE = re.compile(r"=\s*['\"]?\{")
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*"|[{}]')
_MAY_HOLD_SECRET = re.compile(r"\?|://[^/\s]*@")  # in an address


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A component by name, with its options as the user typed them.

    Attributes:
        name: Of the component; may be unknown.
        options: Name to value, as text.
        source: Where the choice was made, for messages.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = ""

    @property
    def text(self) -> str | None:
        """The form that `parse_choice` reads; None if an address in it holds a user, a password or
        a query, which may be secrets.

        >>> Choice(name="openai", options={"model": "gpt-4o"}).text
        'openai:model=gpt-4o'
        >>> Choice(name="openai", options={"base_url": "http://me:word@host/v1"}).text is None
        True
        """
        pairs = [f"{key}={value}" for key, value in self.options.items()]
        if any(_MAY_HOLD_SECRET.search(value) for value in self.options.values()):
            return None
        return f"{self.name}:{','.join(pairs)}" if pairs else self.name


def split_options(text: str, separator: re.Pattern[str] = _COMMA) -> list[str]:
    """Split a text at the matches of a pattern, but not within a value that begins with ``{``: it
    reaches to the matching brace, as JSON has them.

    >>> split_options('a=1,b={"c": [1, 2], "d": "},"},e=2')
    ['a=1', 'b={"c": [1, 2], "d": "},"}', 'e=2']
    """
    parts, start, position = [], 0, 0
    while match := separator.search(text, position):
        value = _JSON_VALUE.search(text, position)
        if value is not None and value.end() <= match.start():
            position = _end_of_object(text, value.end() - 1)
            continue
        parts.append(text[start : match.start()])
        start = position = match.end()
    return [*parts, text[start:]]


def _end_of_object(text: str, start: int) -> int:
    """The position after the brace that closes the one at the start; the text's end without it."""
    depth = 0
    for token in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if depth == 0:
            return token.end()
    return len(text)


def parse_choice(text: str, source: str, kind: str, first: str = "model") -> Choice:
    """Parse ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``, split by `split_options`.

    A first part without ``=`` is the value of the option `first`; `kind` is ``judge`` or
    ``drawer``, for messages.

    Raises:
        SettingWrong: The text has another form; the message does not repeat it: it may hold an API
            key.

    >>> parse_choice("openai:gpt-4o,timeout=60", "here", "judge").options
    {'model': 'gpt-4o', 'timeout': '60'}
    """
    name, _, rest = text.strip().partition(":")
    pairs = [pair.strip() for pair in split_options(rest) if pair.strip()]
    if pairs and "=" not in pairs[0]:
        pairs[0] = f"{first}={pairs[0]}"
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (name and key and equals) or key in options:
            raise SettingWrong(
                f"{source} names a {kind} in an invalid form, at option {len(options) + 1}.",
                hint="`NAME`, `NAME:MODEL` or `NAME:k=v,k=v`, each option once",
            )
        options[key] = value
    return Choice(name=name, options=options, source=source)


def option_text(value: object) -> str:
    """An option as it is typed: JSON for a map.

    >>> option_text({"top_k": True}), option_text(0.5)
    ('{"top_k": true}', '0.5')
    """
    return json.dumps(value) if isinstance(value, Mapping) else str(value)


def import_factory(path: str) -> Callable[..., Any]:
    """Import a factory of this package, given as ``module:function``."""
    module, _, function = path.partition(":")
    factory: Callable[..., Any] = getattr(import_module(module), function)
    return factory


def create(
    kind: str,
    choice: Choice,
    factory: Callable[..., ComponentT],
    environment: Mapping[str, str],
    ignored: tuple[str, ...] = (),
) -> ComponentT:
    """Call the factory of a chosen component with its options.

    Raises:
        SettingWrong: An option is missing, or as `parse_options`.
    """
    arguments = parse_options(kind, choice, factory, ignored)
    parameters = inspect.signature(factory).parameters
    if ENVIRONMENT in parameters:
        arguments[ENVIRONMENT] = environment
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.kind in _OPTION_KINDS
        and parameter.default is inspect.Parameter.empty
        and key not in arguments
    ]
    if missing:
        needed = ",".join(f"{key}=..." for key in missing)
        raise SettingWrong(
            f"The {kind} `{choice.name}` needs `{needed}`.", hint=f"`{choice.name}:{needed}`"
        )
    return factory(**arguments)


def parse_options(
    kind: str, choice: Choice, factory: Callable[..., object], ignored: tuple[str, ...] = ()
) -> dict[str, object]:
    """The options of a chosen component in their declared types, without those that are valid and
    to be ignored.

    Raises:
        SettingWrong: No such option, a value of another type or range, or an API key, which would
            be written into logs and results; the message does not repeat the key.
    """
    if secret := next((key for key in _SECRETS if key in choice.options), None):
        raise SettingWrong(
            f"A {kind} takes no `{secret}=`: its options are written into logs and results.",
            hint="`export OPENAI_API_KEY=...`, or name your variable with `api_key_env=NAME`",
        )
    types = option_types(factory)
    valid = (*types, *ignored)
    if unknown := [key for key in choice.options if key not in valid]:
        raise SettingWrong(
            f"The {kind} `{choice.name}` has no option `{unknown[0]}`.",
            hint=f"its options: {valid_names_text(valid, unknown[0])}",
        )
    subject = f"The {kind} `{choice.name}`"
    return {
        key: _parsed(subject, key, text, types[key])
        for key, text in choice.options.items()
        if key in types
    }


def option_types(factory: Callable[..., object]) -> dict[str, object]:
    """The options that a factory declares, and their types; text where none is declared."""
    function = factory.__init__ if inspect.isclass(factory) else factory
    annotations = dict(getattr(function, "__annotations__", {}))
    for key in ("return", ENVIRONMENT):  # may be importable by type checkers only
        annotations.pop(key, None)
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    hints = typing.get_type_hints(
        SimpleNamespace(__annotations__=annotations), namespace, include_extras=True
    )
    return {
        key: hints.get(key, str)
        for key, parameter in inspect.signature(factory).parameters.items()
        if key != ENVIRONMENT and parameter.kind in _OPTION_KINDS
    }


def _parsed(subject: str, key: str, text: str, hint: Any) -> object:  # noqa: ANN401 - a type
    if text.lower() == "none" and type(None) in typing.get_args(hint):
        return None
    try:
        return TypeAdapter(hint).validate_python(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise SettingWrong(
            f"{subject} cannot use the option `{key}={text}`. {problem}.",
            hint=f"`{key}=` with such a value, or leave it out",
        ) from None
