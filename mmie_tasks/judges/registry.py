"""Judges by name, and their options: built-in ones, and those of other packages.

A judge is registered as a factory that returns a `Judge`: see `core.options`. To add a built-in
judge: a module here and an entry in `BUILT_IN`. To add one from another package:

    [project.entry-points."mmie_tasks.judges"]
    my_judge = "my_package:MyJudge"
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TypeAlias

from mmie_tasks.core import options as core_options
from mmie_tasks.core.errors import MmieTasksError, SettingWrong, first_line
from mmie_tasks.core.log import warn
from mmie_tasks.core.options import Choice
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.judges.base import Judge, JudgeMisconfigured
from mmie_tasks.judges.model_variables import MODEL_VARIABLES

ENTRY_POINTS = "mmie_tasks.judges"


@dataclass(frozen=True, slots=True)
class BuiltInJudge:
    """A judge of this package.

    Attributes:
        factory: Where its factory is, as ``module:function``.
        model_variables: Environment variables that name its model, in order of precedence. They
            replace the model of a benchmark's default, never one that the user chose.
        is_cached: Whether its replies are worth a cache; not those of a recording.
        can_compare: Whether it follows any instruction, such as to compare two answers; a model
            that was trained to give points only does not.
    """

    factory: str
    model_variables: tuple[str, ...] = ()
    is_cached: bool = True
    can_compare: bool = True


BUILT_IN: Mapping[str, BuiltInJudge] = {
    "mmie_score": BuiltInJudge(
        "mmie_tasks.judges.mmie_score.judge:MmieScoreJudge", can_compare=False
    ),
    "openai": BuiltInJudge("mmie_tasks.judges.openai:open_judge", model_variables=MODEL_VARIABLES),
    "replay": BuiltInJudge("mmie_tasks.judges.replay:open_judge", is_cached=False),
}

JudgeFactory: TypeAlias = Callable[..., Judge]

_CACHE = ("cache",)  # an option that every judge has

JudgeChoice: TypeAlias = Choice
"""A judge by name, one of `names`, with its options as the user typed them."""


def parse_choice(text: str, source: str) -> JudgeChoice:
    """Parse ``NAME``, ``NAME:MODEL`` or ``NAME:k=v,...``.

    Raises:
        SettingWrong: The text has another form.

    >>> parse_choice("openai:gpt-4o,timeout=60", "here").options
    {'model': 'gpt-4o', 'timeout': '60'}
    """
    choice = core_options.parse_choice(text, source, "judge")
    if not choice.name:
        raise SettingWrong(f"{source} names no judge.", hint=f"one of {names()}")
    return choice


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
        SettingWrong: There is no such judge, its package cannot be imported, or what it names
            cannot be called.
    """
    if built_in := BUILT_IN.get(name):
        return core_options.import_factory(built_in.factory)
    entry = _installed().get(name)
    if entry is None:
        hint = f"one of {valid_names_text(names(), name)}"
        raise SettingWrong(f"There is no judge `{name}`.", hint=hint)
    try:
        loaded: JudgeFactory = entry.load()
    except Exception as error:  # another package's module: nothing is lost, no run has begun
        raise SettingWrong(
            f"The judge `{name}` cannot be loaded from `{entry.value}`: "
            f"{type(error).__name__}: {first_line(error).rstrip('.')}.",
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
        JudgeMisconfigured: The judge of another package raised anything else.
    """
    factory = factory_of(name)
    with plugin_errors(name):
        return core_options.create(
            "judge", Choice(name=name, options=options), factory, environment, _CACHE
        )


@contextmanager
def plugin_errors(name: str) -> Iterator[None]:
    """Raise whatever a judge of another package raises as `JudgeMisconfigured`; errors of built-in
    ones stay.
    """
    try:
        yield
    except MmieTasksError:
        raise
    except Exception as error:  # a plugin: nothing is lost, the run has not begun
        if name in BUILT_IN:
            raise
        message = f"The judge `{name}` cannot be used: {type(error).__name__}: {error}."
        raise JudgeMisconfigured(
            message, hint="check its options; else report the error to its authors"
        ) from error


def parse_options(name: str, options: Mapping[str, str]) -> dict[str, object]:
    """The options of a judge in their declared types, without ``cache``, which every judge has.

    Raises:
        SettingWrong: There is no such judge, or as `core.options.parse_options`.
    """
    return core_options.parse_options(
        "judge", Choice(name=name, options=options), factory_of(name), _CACHE
    )


def warn_about_name_conflicts() -> None:
    """Log a warning for each judge of another package that has the name of a built-in one."""
    installed = _installed()
    for name in BUILT_IN.keys() & installed.keys():
        warn(
            f"mmie-tasks: the judge `{name}` of `{installed[name].value}` is not used: a built-in "
            "judge has that name.",
            hint=f"rename it in `{ENTRY_POINTS}`",
        )
