"""Launchers by name, for ``--launcher_args name=...``: all judges.

The runner accepts a dotted class path as a value of ``AVAILABLE_LAUNCHERS`` and imports it when the
name is used (``llm_judge/launcher/__init__.py:13``). Each judge has a launcher class, created when
it is imported: ``launchers.openai``. It has nothing to start; the hooks read its choices.
``name=default`` is one too, which leaves every benchmark that no option names its own judge. Other
packages register judges in the group ``mmie_tasks.judges`` (see `mmie_tasks.judges.registry`).
"""

from __future__ import annotations

from types import ModuleType

from mmie_tasks.benchmarks.registry import require_judged
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.suggestions import did_you_mean
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import DEFAULT, PANEL_HINT, JudgeChoices, from_launcher_args

SOURCE = "`--launcher_args`"


class Launchers(dict[str, str]):
    """Name to dotted class path. An unknown name ends the run with a list of the names."""

    def __missing__(self, name: str) -> str:
        valid = ", ".join(f"`{launcher}`" for launcher in self)
        hint = f"`name=` is one of {valid}{did_you_mean(name, self)}; {PANEL_HINT}"
        raise SystemExit(f"There is no judge or launcher `{name}`.\n\nhint: {hint}")


def add_launchers(launcher: ModuleType) -> None:
    """Add our launchers to the runner's. A name that it has already keeps its meaning.

    Args:
        launcher: The module ``lmms_eval.llm_judge.launcher``.
    """
    available: dict[str, str] = getattr(launcher, "AVAILABLE_LAUNCHERS", {})
    registry.warn_about_name_conflicts()
    ours = {name: f"{__name__}.{name}" for name in _names()}
    launcher.AVAILABLE_LAUNCHERS = Launchers({**ours, **available})  # type: ignore[attr-defined]


class JudgeLauncher:
    """A launcher of the runner that selects the judge ``name``, or the judges of single benchmarks.

    The runner creates it on every rank before the model is loaded, so a wrong option ends the run
    early. Keys and servers are checked later: the runner also creates it for ``--predict_only``.

    Args:
        options: The judge's options, as the runner has parsed them; those that begin with a
            benchmark (``mmie.name``, ``mmie.model``) are of that benchmark's judge.

    Attributes:
        choices: The judges that it selects.

    Raises:
        SystemExit: There is no such benchmark or judge, it has no such option, or the value has the
            wrong type.
    """

    name = ""

    def __init__(self, **options: object) -> None:
        try:
            values = {key: str(value) for key, value in options.items()}
            self.choices = from_launcher_args({"name": self.name, **values}, SOURCE)
            require_judged(self.choices, SOURCE)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None

    def launch(self, *_: object) -> None:
        """Do nothing: there is no server to start."""

    def clean(self) -> None:
        """Do nothing: there is no server to stop."""


def parse_launcher_args(launcher_args: object) -> JudgeChoices:
    """The judges that ``--launcher_args`` names; empty without it, or for another launcher.

    The launcher is made as the runner makes it, which is too late for the check of the judges: in
    ``simple_evaluate`` itself (``evaluator.py:508``).

    Raises:
        SystemExit: There is neither a judge nor a launcher of that name, or as `JudgeLauncher`.
    """
    from lmms_eval.llm_judge import launcher
    from lmms_eval.utils import simple_parse_args_string

    if not isinstance(launcher_args, str):
        return {}
    options: dict[str, object] = simple_parse_args_string(launcher_args)
    name = str(options.pop("name", ""))
    if name not in _names():
        _ = launcher.AVAILABLE_LAUNCHERS[name]  # ends the run if there is none
        return {}
    return chosen_judges(_launcher_class(name)(**options))


def chosen_judges(launcher: object) -> JudgeChoices:
    """The judges that a launcher selects; empty for another object than a launcher of ours."""
    return launcher.choices if isinstance(launcher, JudgeLauncher) else {}


def _names() -> tuple[str, ...]:
    return (DEFAULT, *registry.names())


def __getattr__(name: str) -> type[JudgeLauncher]:
    if name not in _names():
        raise AttributeError(f"there is no judge `{name}`")
    return _launcher_class(name)


def _launcher_class(name: str) -> type[JudgeLauncher]:
    return type(f"{name}_launcher", (JudgeLauncher,), {"name": name})
