"""Judges by name, and their options: ours, and those of other packages.

A kind of judge is a callable with keyword parameters; these are its options, their annotations its
types, and it returns a `Judge`. A parameter called ``environment`` is no option: it is given the
environment. To add one of ours: a module here, and a line in `BUILT_IN`. To add one from another
package:

    [project.entry-points."mmie_tasks.judges"]
    my_judge = "my_package:MyJudge"
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import SimpleNamespace
from typing import Any, TypeAlias

from loguru import logger
from pydantic import TypeAdapter, ValidationError

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges.base import Judge

ENTRY_POINTS = "mmie_tasks.judges"
ENVIRONMENT = "environment"

BUILT_IN: Mapping[str, str] = {
    "mmie_score": "mmie_tasks.judges.mmie_score:open_judge",
    "openai": "mmie_tasks.judges.openai:open_judge",
    "replay": "mmie_tasks.judges.replay:open_judge",
}

Kind: TypeAlias = Callable[..., Judge]

_SECRETS = ("api_key", "key", "token", "password", "secret")
_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD


def names() -> tuple[str, ...]:
    """Every judge there is, by name: ours first."""
    return (*BUILT_IN, *sorted(_installed().keys() - BUILT_IN.keys()))


def kind_named(name: str) -> Kind:
    """The kind of judge that has this name.

    Raises:
        SettingWrong: There is none, or its package cannot be imported.
    """
    if place := BUILT_IN.get(name):
        module, _, function = place.partition(":")
        built_in: Kind = getattr(import_module(module), function)
        return built_in
    entry = _installed().get(name)
    if entry is None:
        raise SettingWrong(f"There is no judge `{name}`.", hint=f"one of {_listed(names(), name)}")
    return _loaded(entry)


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _loaded(entry: EntryPoint) -> Kind:
    try:
        kind = entry.load()
    except (ImportError, AttributeError) as error:
        raise SettingWrong(
            f"The judge `{entry.name}` cannot be loaded from `{entry.value}`: {error}.",
            hint="install its package again, or look at what it imports",
        ) from error
    if not callable(kind):
        raise SettingWrong(
            f"The judge `{entry.name}` is `{entry.value}`, which cannot be called.",
            hint=f"name a class or function in `{ENTRY_POINTS}`",
        )
    loaded: Kind = kind
    return loaded


def make(name: str, options: Mapping[str, str], environment: Mapping[str, str]) -> Judge:
    """A judge, made from options as they were typed. Asks nobody anything yet.

    Raises:
        SettingWrong: No such judge, no such option, a value of the wrong type, or one missing.
    """
    kind = kind_named(name)
    parameters = inspect.signature(kind).parameters
    values = converted(name, options)
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
        and key not in values
        and key != ENVIRONMENT
    ]
    if missing:
        needed = ", ".join(f"{key}=..." for key in missing)
        raise SettingWrong(f"The judge `{name}` needs `{needed}`.", hint=f"`name={name},{needed}`")
    given = {ENVIRONMENT: environment} if ENVIRONMENT in parameters else {}
    return kind(**values, **given)


def converted(name: str, options: Mapping[str, str]) -> dict[str, object]:
    """The options of a judge in the types it wants.

    Raises:
        SettingWrong: It has no such option, or the value is not of the type; lists what there is.
    """
    types = option_types(name)
    if unknown := [key for key in options if key not in types]:
        listed = _listed((*types, "cache"), unknown[0])
        raise SettingWrong(
            f"The judge `{name}` has no option `{unknown[0]}`.", hint=f"its options: {listed}"
        )
    return {key: _value(name, key, text, types[key]) for key, text in options.items()}


def check_options(name: str, options: Mapping[str, str]) -> None:
    """See that a judge has these options, and that their values are of the right types.

    ``cache`` is an option of every judge.

    Raises:
        SettingWrong: It is not so; lists what exists.
    """
    refuse_secrets(options)
    converted(name, {key: value for key, value in options.items() if key != "cache"})


def refuse_secrets(options: Mapping[str, str]) -> None:
    """Refuse a key as an option: options are written into logs and results.

    Raises:
        SettingWrong: There is one. The value is not repeated.
    """
    if secret := next((name for name in _SECRETS if name in options), None):
        raise SettingWrong(
            f"A judge takes no `{secret}=`: its options are written into logs and results.",
            hint="`export OPENAI_API_KEY=...`, or name your variable with `api_key_env=NAME`",
        )


def option_types(name: str) -> dict[str, object]:
    """The options of a judge and their types; text where none is declared."""
    kind = kind_named(name)
    hints = _types(kind.__init__ if inspect.isclass(kind) else kind)
    return {
        key: hints.get(key, str)
        for key, parameter in inspect.signature(kind).parameters.items()
        if key != ENVIRONMENT and parameter.kind in (parameter.KEYWORD_ONLY, _EITHER)
    }


def _types(function: Callable[..., object]) -> dict[str, object]:
    """The types of its parameters. Not of what it returns: that may be known to checkers only."""
    declared = dict(getattr(function, "__annotations__", {}))
    parameters = {key: hint for key, hint in declared.items() if key not in ("return", ENVIRONMENT)}
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    return typing.get_type_hints(SimpleNamespace(__annotations__=parameters), namespace)


def _value(name: str, key: str, text: str, wanted: Any) -> object:  # noqa: ANN401 - a type
    none_allowed = type(None) in typing.get_args(wanted)
    if none_allowed and text.lower() == "none":
        return None
    try:
        return TypeAdapter(wanted).validate_python(text)
    except ValidationError:
        raise SettingWrong(
            f"The judge `{name}` was given `{key}={text}`, and `{key}` is {_in_words(wanted)}.",
            hint=f"`{key}=` with such a value, or leave it out",
        ) from None


def _in_words(wanted: Any) -> str:  # noqa: ANN401 - a type
    if typing.get_origin(wanted) is typing.Literal:
        return f"one of {', '.join(typing.get_args(wanted))}"
    kind = getattr(wanted, "__name__", None) or str(wanted).replace(" | None", "")
    return f"a value of type {kind}"


def _listed(known: Iterable[str], asked: str) -> str:
    """The names that exist, the ones most like what was asked first."""
    rest = sorted(known)
    close = difflib.get_close_matches(asked, rest)
    ordered = [*close, *(name for name in rest if name not in close)]
    return ", ".join(f"`{name}`" for name in ordered)


def warn_of_clashes() -> None:
    """Say in the log which installed judges are hidden by ours of the same name."""
    for name in BUILT_IN.keys() & _installed().keys():
        logger.warning(
            f"mmie-tasks: the judge `{name}` of `{_installed()[name].value}` is not used: ours has "
            f"that name. hint: give it another in `{ENTRY_POINTS}`"
        )
