"""``--judge NAME[:MODEL] --judge_args k=v,...`` as the ``--launcher_args`` of the runner."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.errors import SettingWrong
from mmie_tasks.judges.choosing import parse_choice

_JUDGE = ("--judge",)
_ARGS = ("--judge_args", "--judge-args")
_HINT = "`--judge NAME[:MODEL] --judge_args k=v,...`"


def with_launcher_args(arguments: Sequence[str]) -> list[str]:
    """The command line with our two options replaced by the runner's one.

    Raises:
        SettingWrong: An option has no value or comes twice, ``--judge_args`` without ``--judge``,
            a launcher beside a judge, no such judge, or no such option of it.

    >>> with_launcher_args(["eval", "--judge", "openai:gpt-4o", "--judge_args", "timeout=60"])
    ['eval', '--launcher_args', 'name=openai,model=gpt-4o,timeout=60']
    """
    rest, judge = _taken(arguments, _JUDGE)
    rest, judge_args = _taken(rest, _ARGS)
    if judge is None:
        if judge_args is not None:
            raise SettingWrong("`--judge_args` needs `--judge`.", hint=_HINT)
        return rest
    if any(word.partition("=")[0] == "--launcher_args" for word in rest):
        hint = "`--launcher_args name=JUDGE,k=v` says the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    both = judge if judge_args is None else f"{judge}{',' if ':' in judge else ':'}{judge_args}"
    choice = parse_choice(both, "`--judge`")

    from mmie_tasks.judges.registry import check_options

    check_options(choice.name, choice.options)
    pairs = "".join(f",{key}={value}" for key, value in choice.options.items())
    return [*rest, "--launcher_args", f"name={choice.name}{pairs}"]


def _taken(arguments: Sequence[str], names: Sequence[str]) -> tuple[list[str], str | None]:
    """The arguments without an option, and its value."""
    rest: list[str] = []
    value: str | None = None
    words = iter(arguments)
    for word in words:
        name, equals, attached = word.partition("=")
        if name not in names:
            rest.append(word)
            continue
        if value is not None:
            raise SettingWrong(f"`{name}` is given twice.", hint=_HINT)
        value = attached if equals else next(words, "")
        if not value:
            raise SettingWrong(f"`{name}` has no value.", hint=_HINT)
    return rest, value
