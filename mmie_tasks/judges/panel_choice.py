"""The choice of several judges that score the same benchmark together: a panel.

In a `JudgeChoice`, and in ``--launcher_args``, the options of the N-th judge begin with ``N.``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import PositiveInt

from mmie_tasks.core import options as core_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.options import Choice
from mmie_tasks.judges import registry
from mmie_tasks.judges.registry import PANEL, JudgeChoice
from mmie_tasks.record.panel import Panel, Rule

_HINT = "`--judge a --judge b`; a single judge is not a panel"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenJudges:
    """The judges of a run for a benchmark.

    Attributes:
        judges: One, or those of the panel in order.
        panel: How several judges make one verdict; None for a single judge.
    """

    judges: tuple[JudgeChoice, ...]
    panel: Panel | None = None


def join_judges(judges: Sequence[JudgeChoice], source: str) -> JudgeChoice:
    """The panel of several judges that are chosen one by one.

    Raises:
        SettingWrong: One of them is a panel.

    >>> choices = [JudgeChoice(name="replay"), JudgeChoice(name="openai", options={"model": "m"})]
    >>> join_judges(choices, "here").options
    {'1.name': 'replay', '2.name': 'openai', '2.model': 'm'}
    """
    if any(judge.name == PANEL for judge in judges):
        message = f"{source} names a panel with other judges of the same benchmarks."
        raise SettingWrong(message, hint="name all judges: `--judge a --judge b`")
    options = {
        f"{number}.{key}": value
        for number, judge in enumerate(judges, start=1)
        for key, value in {"name": judge.name, **judge.options}.items()
    }
    return JudgeChoice(name=PANEL, options=options, source=source)


def judges_of(choice: JudgeChoice) -> ChosenJudges:
    """The chosen judge itself, or the judges of a panel.

    Raises:
        SettingWrong: The numbers of the judges have gaps; there is only one judge, or one twice;
            there is no such judge, option or rule; a value is of another type or range.
    """
    if choice.name != PANEL:
        return ChosenJudges(judges=(choice,))
    own: dict[str, str] = {}
    numbered: dict[int, dict[str, str]] = {}
    for key, value in choice.options.items():
        if match := re.fullmatch(r"(\d+)\.(.*)", key):
            numbered.setdefault(int(match[1]), {})[match[2]] = value
        else:
            own[key] = value
    judges = _numbered_judges(numbered, choice.source)
    return ChosenJudges(judges=judges, panel=_panel(own, len(judges), choice.source))


def _panel(options: Mapping[str, str], judges: int, source: str) -> Panel:
    valid = core_options.option_types(_create_panel)
    if unknown := [key for key in options if key not in valid]:
        hint = (
            f"options of a judge follow it: `--judge openai:MODEL,{unknown[0]}=...`; those of a "
            f"panel: {core_options.listed(valid, unknown[0])}"
        )
        raise SettingWrong(f"{source}: a panel has no option `{unknown[0]}`.", hint=hint)
    default = Choice(name=PANEL, options={"min_valid": str(judges // 2 + 1), **options})
    panel = _create_panel(**core_options.parse_options("choice", default, _create_panel))  # type: ignore[arg-type]
    if panel.min_valid > judges:
        raise SettingWrong(
            f"{source}: `min_valid={panel.min_valid}` is more than the {judges} judges of the "
            "panel.",
            hint=f"`min_valid=` with a number from 1 to {judges}",
        )
    return panel


def _create_panel(*, rule: Rule = "mean", min_valid: PositiveInt) -> Panel:
    return Panel(rule=rule, min_valid=min_valid)


def _numbered_judges(
    numbered: Mapping[int, dict[str, str]], source: str
) -> tuple[JudgeChoice, ...]:
    if sorted(numbered) != list(range(1, len(numbered) + 1)) or len(numbered) < 2:
        numbers = ", ".join(map(str, sorted(numbered))) or "none"
        message = f"{source}: a panel needs judges 1, 2 and so on without gaps; it has {numbers}."
        raise SettingWrong(message, hint=_HINT)
    judges = []
    for number, options in sorted(numbered.items()):
        where = f"{source}, judge {number}"
        name = options.pop("name", "")
        try:
            registry.parse_options(name, options)
        except SettingWrong as error:
            raise SettingWrong(f"{where}: {error.message}", hint=error.hint) from None
        judges.append(JudgeChoice(name=name, options=options, source=where))
    refuse_equal_judges(judges, source)
    return tuple(judges)


def refuse_equal_judges(judges: Sequence[JudgeChoice], source: str) -> None:
    """Raise `SettingWrong` if a judge is named twice with the same options: it would count
    twice.
    """
    for index, judge in enumerate(judges):
        for earlier, other in enumerate(judges[:index]):
            if (judge.name, judge.options) == (other.name, other.options):
                message = (
                    f"{source}: the judges {earlier + 1} and {index + 1} of the panel are the same."
                )
                raise SettingWrong(message, hint="another judge, another model or other options")
