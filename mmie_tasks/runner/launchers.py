"""A launcher for each judge, for ``--launcher_args name=JUDGE,key=value``.

The runner imports the dotted class path in ``AVAILABLE_LAUNCHERS`` when a name is used
(``llm_judge/launcher/__init__.py:13``). The classes (``launchers.openai``) are created on import.
They start nothing; the hooks read their choice of a judge, which is that of ``--judge``.
"""

from __future__ import annotations

from mmie_tasks.benchmarks.registry import is_setting
from mmie_tasks.core.choice import option_text
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.suggestions import did_you_mean
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import JudgeChoices, parse_judges
from mmie_tasks.judges.names import judge_names
from mmie_tasks.runner.plugin import named

_SOURCE = "`--launcher_args`"
_LAUNCHERS = "lmms_eval.llm_judge.launcher:AVAILABLE_LAUNCHERS"


def _several_judges() -> str:
    options = "--judge mmie=JUDGE --judge JUDGE:MODEL,k=v"
    program = as_called("mmie-tasks eval")
    return f"a judge for one benchmark, or several judges, need `{program} {options}`"


def add_launchers() -> None:
    """Add our launchers to those of the runner, whose own names take precedence."""
    registry.warn_about_name_conflicts()
    for name in judge_names():
        named(_LAUNCHERS).setdefault(name, f"{__name__}.{name}")


class JudgeLauncher:
    """A launcher that selects the judge ``name`` for all benchmarks.

    The runner creates a launcher on every rank before the model is loaded, so a wrong option ends
    the run early. Keys and servers are checked later, because ``--predict_only`` creates one, too.

    Raises:
        SystemExit: The judge is unknown, or an option is not valid.
    """

    name = ""

    def __init__(self, **options: object) -> None:
        pairs = "".join(f",{key}={option_text(value)}" for key, value in options.items())
        try:
            if named := [key for key in options if "." in key]:
                raise SettingWrong(f"{_SOURCE} has `{named[0]}=`.", hint=_several_judges())
            self.choices = parse_judges([self.name + pairs], _SOURCE, is_setting=is_setting)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None

    def launch(self, *_: object) -> None:
        """Do nothing: there is no server to start."""

    def clean(self) -> None:
        """Do nothing: there is no server to stop."""


def parse_launcher_args(launcher_args: object) -> JudgeChoices:
    """The judge in ``--launcher_args``; empty if there is none.

    The launcher is created here because the runner does so too late for the check of the judges:
    in ``simple_evaluate`` (``evaluator.py:508``).

    Raises:
        SystemExit: No judge or launcher has that name, or an option of the judge is not valid.
    """
    from lmms_eval.utils import simple_parse_args_string

    if not isinstance(launcher_args, str):
        return {}
    options: dict[str, object] = simple_parse_args_string(launcher_args)
    name = str(options.pop("name", ""))
    if name not in (launchers := named(_LAUNCHERS)):
        valid = ", ".join(f"`{launcher}`" for launcher in launchers)
        hint = f"`name=` is one of {valid}{did_you_mean(name, launchers)}; {_several_judges()}"
        raise SystemExit(f"There is no judge or launcher `{name}`.\n\nhint: {hint}")
    if name not in judge_names():
        return {}
    return chosen_judges(_launcher_class(name)(**options))


def chosen_judges(launcher: object) -> JudgeChoices:
    """The judge that a launcher selects; empty for any object but a `JudgeLauncher`."""
    return launcher.choices if isinstance(launcher, JudgeLauncher) else {}


def __getattr__(name: str) -> type[JudgeLauncher]:
    if name not in judge_names():
        raise AttributeError(f"there is no judge `{name}`")
    return _launcher_class(name)


def _launcher_class(name: str) -> type[JudgeLauncher]:
    return type(f"{name}_launcher", (JudgeLauncher,), {"name": name})
