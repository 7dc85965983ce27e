"""Judges as launchers, so that ``--launcher_args name=<judge>,k=v`` selects one.

A class for each judge, made when it is asked for by name: ``judge_launchers.openai``. There is
nothing to start, so a launcher only says which judge the run uses.
"""

from __future__ import annotations

from typing import NoReturn

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.choice import JudgeChoice
from mmie_tasks.judges.registry import check_options, names
from mmie_tasks.judging.session import register_launcher


class JudgeLauncher:
    """A launcher of the runner that selects the judge ``name``.

    The runner makes it on every rank, before the model is loaded: so what is wrong with an option
    ends the run there. Keys and networks are looked at later, because the launcher is also made
    for a run that only generates.

    Args:
        options: The judge's options, as the runner has read them.

    Raises:
        SystemExit: The judge has no such option, or the value is not of its type.
    """

    name = ""

    def __init__(self, **options: object) -> None:
        typed = {key: str(value) for key, value in options.items()}
        choice = JudgeChoice(name=self.name, options=typed, source="`--launcher_args`")
        try:
            check_options(choice.name, choice.options)
        except MmieTasksError as error:
            raise SystemExit(str(error)) from None
        register_launcher(self, choice)

    def launch(self, *_: object) -> None:
        """Nothing is started."""

    def clean(self) -> None:
        """Nothing is to be stopped."""


def unknown(name: str, known: tuple[str, ...]) -> NoReturn:
    """End a run whose ``--launcher_args`` names nothing that exists.

    Raises:
        SystemExit: Always.
    """
    listed = ", ".join(f"`{each}`" for each in known)
    text = f"There is no judge or launcher `{name}`.\n\nhint: `name=` is one of {listed}"
    raise SystemExit(text)


def __getattr__(name: str) -> type[JudgeLauncher]:
    if name not in names():
        raise AttributeError(f"there is no judge `{name}`")
    return type(f"{name}_launcher", (JudgeLauncher,), {"name": name})
