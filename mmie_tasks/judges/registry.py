"""Judges by name, built in or from other packages."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module

from mmie_tasks.core.choice import Choice, read_options
from mmie_tasks.core.errors import MmieTasksError, SettingWrong, first_line
from mmie_tasks.core.log import warn
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.judges.base import Judge, JudgeMisconfigured, JudgeOptions
from mmie_tasks.judges.names import BUILT_IN, ENTRY_POINTS, installed_judges, judge_names


def judge_class(name: str) -> type[Judge]:
    """The class of the judge with this name.

    Raises:
        SettingWrong: The name is unknown, or its package cannot be imported or does not name a
            subclass of `Judge`.
    """
    if built_in := BUILT_IN.get(name):
        module, _, class_name = built_in.partition(":")
        found: type[Judge] = getattr(import_module(module), class_name)
        return found
    entry = installed_judges().get(name)
    if entry is None:
        names = valid_names_text(judge_names(), name)
        hint = f"`openai:{name}` if that is a model; the judges are {names}"
        raise SettingWrong(f"There is no judge `{name}`.", hint=hint)
    try:
        loaded: object = entry.load()
    except Exception as error:  # another package's module: nothing is lost, no run has begun
        raise SettingWrong(
            f"The judge `{name}` cannot be loaded from `{entry.value}`: "
            f"{type(error).__name__}: {first_line(error).rstrip('.')}.",
            hint="correct its module, or reinstall its package",
        ) from error
    if not (inspect.isclass(loaded) and issubclass(loaded, Judge)):
        raise SettingWrong(
            f"The judge `{name}` is `{entry.value}`, which is not a subclass of `Judge`.",
            hint=f"name a class in `{ENTRY_POINTS}` that inherits `mmie_tasks.extend.Judge`",
        )
    return loaded


def options_of(choice: Choice) -> JudgeOptions:
    """The options of a judge in their declared types; see `read_options`."""
    return read_options(choice.options, judge_class(choice.name).Options, "judge", choice.name)


def create(choice: Choice, environment: Mapping[str, str]) -> Judge:
    """Create a judge, without its cache. Sends no request.

    Raises:
        SettingWrong: The judge is unknown, or an option is not valid.
        JudgeMisconfigured: The judge is from another package and raised anything else.
    """
    options = options_of(choice)
    with plugin_errors(choice.name):
        judge = judge_class(choice.name).open(options, environment)
        judge.name = choice.name
        return judge


@contextmanager
def plugin_errors(name: str) -> Iterator[None]:
    """Turn unexpected errors of another package's judge into `JudgeMisconfigured`."""
    try:
        yield
    except MmieTasksError:
        raise
    except Exception as error:  # a plugin: nothing is lost, the run has not begun
        if name in BUILT_IN:
            raise
        message = f"The judge `{name}` cannot be used: {type(error).__name__}: {error}."
        raise JudgeMisconfigured(message, hint="check its options, or correct the judge") from error


def warn_about_name_conflicts() -> None:
    """Warn of each judge of another package that has the name of a built-in one."""
    others = installed_judges()
    for name in BUILT_IN.keys() & others.keys():
        warn(
            f"mmie-tasks: the judge `{name}` of `{others[name].value}` is not used: a built-in "
            "judge has that name.",
            hint=f"rename it in `{ENTRY_POINTS}`",
        )
