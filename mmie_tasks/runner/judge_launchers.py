"""Judges as launchers, so that ``--launcher_args name=<judge>,k=v`` selects one.

Each judge has a launcher class, which is created when the runner imports it by name:
``judge_launchers.openai``. There is nothing to start; the launcher only registers the choice.
"""

from __future__ import annotations

from typing import NoReturn

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.choice import JudgeChoice
from mmie_tasks.judges.registry import check_options, names
from mmie_tasks.judging.session import register_launcher

SOURCE = "`--launcher_args`"


class JudgeLauncher:
    """A launcher of the runner that selects the judge ``name``.

    The runner creates it on every rank before the model is loaded, so a wrong option ends the run
    early. Keys and servers are checked later: the runner also creates it for ``--predict_only``.

    Args:
        options: The judge's options, as the runner has parsed them.

    Raises:
        SystemExit: The judge has no such option, or the value has the wrong type.
    """

    name = ""

    def __init__(self, **options: object) -> None:
        texts = {key: str(value) for key, value in options.items()}
        try:
            check_options(self.name, texts)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        register_launcher(self, JudgeChoice(name=self.name, options=texts, source=SOURCE))

    def launch(self, *_: object) -> None:
        """Do nothing: there is no server to start."""

    def clean(self) -> None:
        """Do nothing: there is no server to stop."""


def parse_launcher_args(launcher_args: object) -> JudgeChoice | None:
    """The judge that ``--launcher_args`` names; None without one, or for another launcher.

    Raises:
        SettingWrong: The judge has no such option.
        SystemExit: There is neither a judge nor a launcher of that name.
    """
    from lmms_eval.llm_judge import launcher
    from lmms_eval.utils import simple_parse_args_string

    if not isinstance(launcher_args, str):
        return None
    options = {key: str(value) for key, value in simple_parse_args_string(launcher_args).items()}
    name = options.pop("name", "")
    if name not in names():
        _ = launcher.AVAILABLE_LAUNCHERS[name]  # ends the run if there is none
        return None
    check_options(name, options)
    return JudgeChoice(name=name, options=options, source=SOURCE)


def refuse_unknown(name: str, available: tuple[str, ...]) -> NoReturn:
    """End a run whose ``--launcher_args`` names neither a judge nor a launcher.

    Raises:
        SystemExit: Always.
    """
    listed = ", ".join(f"`{launcher}`" for launcher in available)
    raise SystemExit(f"There is no judge or launcher `{name}`.\n\nhint: `name=` is one of {listed}")


def __getattr__(name: str) -> type[JudgeLauncher]:
    if name not in names():
        raise AttributeError(f"there is no judge `{name}`")
    return type(f"{name}_launcher", (JudgeLauncher,), {"name": name})
