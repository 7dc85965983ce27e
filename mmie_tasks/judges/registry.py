"""Judges by name, and their options: built-in ones, and those of other packages.

A judge is registered as a callable with keyword parameters that returns a `Judge`. The parameters are its options, and
their annotations the types. A parameter ``environment`` is not an option: it receives the environment. To add a
built-in judge: a module here and an entry in `BUILT_IN`. To add one from another package:

    [project.entry-points."mmie_tasks.judges"] my_judge = "my_package:MyJudge"
"""

from __future__ import annotations

import difflib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
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

PANEL = "panel"
"""In a choice, the name that stands for several judges together."""


@dataclass(frozen=True, slots=True)
class BuiltInJudge:
    """A judge of this package.

    Attributes:
        factory: Where its factory is, as ``module:function``.
        model_variables: Environment variables that name its model, in order of precedence. They
            replace the model of a benchmark's default, never one that the user chose.
        is_cached: Whether its replies are worth a cache; not those of a recording.
        can_compare: Whether it follows any instruction, such as to compare two answers; a model that was trained to
            give points only does not.
    """

    factory: str
    model_variables: tuple[str, ...] = ()
    is_cached: bool = True
    can_compare: bool = True


BUILT_IN: Mapping[str, BuiltInJudge] = {
    "mmie_score": BuiltInJudge("mmie_tasks.judges.mmie_score.judge:MmieScoreJudge", can_compare=False),
    "openai": BuiltInJudge(
        "mmie_tasks.judges.openai:open_judge",
        model_variables=("JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION"),
    ),
    "replay": BuiltInJudge("mmie_tasks.judges.replay:open_judge", is_cached=False),
}

JudgeFactory: TypeAlias = Callable[..., Judge]

_SECRETS = ("api_key", "key", "token", "password", "secret")
_OPTION_KINDS = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeChoice:
    """A judge by name, with its options as the user typed them.

    Attributes:
        name: One of `names`, or `PANEL`.
        options: Name to value, as text.
        source: Where the choice was made, for messages.
    """

    name: str
    options: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def parse_choice(text: str, source: str) -> JudgeChoice:
    """Parse ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``; a first part without ``=`` is the model, of a panel its file.

    Raises:
        SettingWrong: The text has another form.

    >>> parse_choice("openai:gpt-4o,timeout=60", "here").options
    {'model': 'gpt-4o', 'timeout': '60'}
    """
    name, _, rest = text.strip().partition(":")
    pairs = [pair.strip() for pair in rest.split(",") if pair.strip()]
    if pairs and "=" not in pairs[0]:
        pairs[0] = f"{'file' if name == PANEL else 'model'}={pairs[0]}"
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not (name and key and equals) or key in options:
            # The message does not repeat the pair: it may hold an API key.
            raise SettingWrong(
                f"{source} names a judge in an invalid form, at option {len(options) + 1}.",
                hint="`NAME`, `NAME:MODEL` or `NAME:k=v,k=v`, each option once",
            )
        options[key] = value
    if not name:
        raise SettingWrong(f"{source} names no judge.", hint=f"one of {names()}")
    return JudgeChoice(name=name, options=options, source=source)


def names() -> tuple[str, ...]:
    """The names of all judges, built-in ones first."""
    return (*BUILT_IN, *sorted(_installed().keys() - BUILT_IN.keys()))


def model_variables(name: str) -> tuple[str, ...]:
    """Environment variables that name a judge's model; none for judges of other packages."""
    return BUILT_IN[name].model_variables if name in BUILT_IN else ()


def is_cached(name: str) -> bool:
    """Whether a judge's replies are cached; those of other packages' judges are."""
    return name not in BUILT_IN or BUILT_IN[name].is_cached


def can_compare(name: str) -> bool:
    """Whether a judge can compare two answers; judges of other packages are taken to."""
    return name not in BUILT_IN or BUILT_IN[name].can_compare


def factory_of(name: str) -> JudgeFactory:
    """The factory of the judge with this name.

    Raises:
        SettingWrong: There is no such judge, or its package cannot be imported.
    """
    if built_in := BUILT_IN.get(name):
        module, _, function = built_in.factory.partition(":")
        factory: JudgeFactory = getattr(import_module(module), function)
        return factory
    entry = _installed().get(name)
    if entry is None:
        raise SettingWrong(f"There is no judge `{name}`.", hint=f"one of {_listed(names(), name)}")
    try:
        loaded: JudgeFactory = entry.load()
    except (ImportError, AttributeError) as error:
        raise SettingWrong(
            f"The judge `{name}` cannot be loaded from `{entry.value}`: {error}.",
            hint="reinstall its package, or check what it imports",
        ) from error
    if not callable(loaded):
        raise SettingWrong(
            f"The judge `{name}` is `{entry.value}`, which cannot be called.",
            hint=f"name a class or function in `{ENTRY_POINTS}`",
        )
    return loaded


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def create(name: str, options: Mapping[str, str], environment: Mapping[str, str]) -> Judge:
    """Create a judge, without its cache, from options as the user typed them. Sends no request.

    Raises:
        SettingWrong: There is no such judge, an option is missing, or as `parse_options`.
    """
    factory = factory_of(name)
    arguments = parse_options(name, options)
    parameters = inspect.signature(factory).parameters
    if ENVIRONMENT in parameters:
        arguments[ENVIRONMENT] = environment
    missing = [
        key
        for key, parameter in parameters.items()
        if parameter.kind in _OPTION_KINDS and parameter.default is inspect.Parameter.empty and key not in arguments
    ]
    if missing:
        needed = ", ".join(f"{key}=..." for key in missing)
        raise SettingWrong(f"The judge `{name}` needs `{needed}`.", hint=f"`name={name},{needed}`")
    return factory(**arguments)


def parse_options(name: str, options: Mapping[str, str]) -> dict[str, object]:
    """The options of a judge in their declared types, without ``cache``, which every judge has.

    Raises:
        SettingWrong: No such option, a value of another type or range, or an API key, which would
            be written into logs and results; the message does not repeat the key.
    """
    if secret := next((key for key in _SECRETS if key in options), None):
        raise SettingWrong(
            f"A judge takes no `{secret}=`: its options are written into logs and results.",
            hint="`export OPENAI_API_KEY=...`, or name your variable with `api_key_env=NAME`",
        )
    types = option_types(name)
    if unknown := [key for key in options if key not in (*types, "cache")]:
        listed = _listed((*types, "cache"), unknown[0])
        raise SettingWrong(f"The judge `{name}` has no option `{unknown[0]}`.", hint=f"its options: {listed}")
    return {key: _parsed(name, key, text, types[key]) for key, text in options.items() if key != "cache"}


def option_types(name: str) -> dict[str, object]:
    """The options of a judge and their types; text where none is declared."""
    factory = factory_of(name)
    function = factory.__init__ if inspect.isclass(factory) else factory
    annotations = dict(getattr(function, "__annotations__", {}))
    for key in ("return", ENVIRONMENT):  # may be importable by type checkers only
        annotations.pop(key, None)
    namespace = getattr(inspect.unwrap(function), "__globals__", {})
    hints = typing.get_type_hints(SimpleNamespace(__annotations__=annotations), namespace, include_extras=True)
    return {
        key: hints.get(key, str)
        for key, parameter in inspect.signature(factory).parameters.items()
        if key != ENVIRONMENT and parameter.kind in _OPTION_KINDS
    }


def _parsed(name: str, key: str, text: str, hint: Any) -> object:  # noqa: ANN401 - a type
    if text.lower() == "none" and type(None) in typing.get_args(hint):
        return None
    try:
        return TypeAdapter(hint).validate_python(text)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]["msg"]
        raise SettingWrong(
            f"The judge `{name}` cannot use the option `{key}={text}`. {problem}.",
            hint=f"`{key}=` with such a value, or leave it out",
        ) from None


def _listed(valid_names: Iterable[str], name: str) -> str:
    """The valid names, those most similar to a misspelt one first."""
    ordered = sorted(valid_names)
    similar = difflib.get_close_matches(name, ordered)
    return ", ".join(f"`{n}`" for n in (*similar, *(n for n in ordered if n not in similar)))


def warn_about_name_conflicts() -> None:
    """Log a warning for each judge of another package that has the name of a built-in one."""
    installed = _installed()
    for name in BUILT_IN.keys() & installed.keys():
        logger.warning(
            f"mmie-tasks: the judge `{name}` of `{installed[name].value}` is not used: a built-in "
            f"judge has that name. hint: rename it in `{ENTRY_POINTS}`"
        )
