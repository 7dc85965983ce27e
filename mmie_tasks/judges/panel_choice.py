"""The judges that were chosen for a benchmark: one, or several that score it together, a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mmie_tasks.core import options as core_options
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.suggestions import valid_names_text
from mmie_tasks.judges import registry
from mmie_tasks.judges.registry import JudgeChoice
from mmie_tasks.record.panel import Panel


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenJudges:
    """The judges of a run for a benchmark.

    Attributes:
        judges: One, or those of the panel in order.
        panel: How several judges make one verdict; None for a single judge.
    """

    judges: tuple[JudgeChoice, ...]
    panel: Panel | None = None


def join_judges(judges: Sequence[JudgeChoice], panel_options: str = "") -> ChosenJudges:
    """The judges of a benchmark that are chosen one by one: a panel if there are several.

    Args:
        judges: At least one.
        panel_options: ``k=v,...``, the value of ``--judge_args``; only for several judges.

    Raises:
        SettingWrong: A judge is there twice, or has no such option, or the panel has none such.

    >>> join_judges([JudgeChoice(name="replay"), JudgeChoice(name="mmie_score")]).panel
    Panel(rule='median', min_valid=2)
    """
    if len(judges) == 1:
        registry.parse_options(judges[0].name, judges[0].options)
        return ChosenJudges(judges=tuple(judges))
    numbered = tuple(
        replace(judge, source=f"{judge.source}, judge {number}")
        for number, judge in enumerate(judges, start=1)
    )
    for judge in numbered:
        _check_options(judge)
    refuse_equal_judges(judges, judges[0].source)
    return ChosenJudges(judges=numbered, panel=_parse_panel(panel_options, len(judges)))


def _check_options(judge: JudgeChoice) -> None:
    try:
        registry.parse_options(judge.name, judge.options)
    except SettingWrong as error:
        raise SettingWrong(f"{judge.source}: {error.message}", hint=error.hint) from None


def _parse_panel(text: str, judges: int) -> Panel:
    source = "`--judge_args`"
    pairs = [pair.strip().partition("=") for pair in text.split(",") if pair.strip()]
    options = {key: value for key, _, value in pairs}
    if len(options) < len(pairs) or not all(key and equals for key, equals, _ in pairs):
        raise SettingWrong(
            f"{source} for a panel is in an invalid form.", hint="`k=v,k=v`, each option once"
        )
    valid = core_options.option_types(_rule)
    if unknown := [key for key in options if key not in valid]:
        hint = (
            f"options of a judge follow it: `--judge openai:MODEL,{unknown[0]}=...`; those of a "
            f"panel: {valid_names_text(valid, unknown[0])}"
        )
        raise SettingWrong(f"{source}: a panel has no option `{unknown[0]}`.", hint=hint)
    rule = core_options.create("choice", JudgeChoice(name="panel", options=options), _rule, {})
    return Panel(rule=rule, min_valid=judges // 2 + 1)


def _rule(*, rule: Literal["median", "mean"] = "median") -> Literal["median", "mean"]:
    return rule


def refuse_equal_judges(judges: Sequence[JudgeChoice], source: str) -> None:
    """Raise `SettingWrong` if a judge is named twice with the same options: it would count
    twice.
    """
    choices = [(judge.name, judge.options) for judge in judges]
    for second, choice in enumerate(choices):
        first = choices.index(choice)
        if first < second:
            raise SettingWrong(
                f"{source}: the judges {first + 1} and {second + 1} of the panel are the same.",
                hint="another judge, another model or other options",
            )
