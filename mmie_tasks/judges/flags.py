"""The options ``--judge`` and ``--judge_args`` of our commands."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import JudgeChoices, parse_texts
from mmie_tasks.judges.panel_choice import join_judges

_HINT = (
    "`--judge NAME[:MODEL] --judge_args k=v,...`, or the options of each after it: `--judge "
    "NAME:k=v,...`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalArguments:
    """The command line of ``mmie-tasks eval``.

    Attributes:
        choices: The judges of ``--judge``; empty without it.
        for_runner: The arguments of lmms-eval.
    """

    choices: JudgeChoices
    for_runner: list[str]


def split_eval_arguments(arguments: Sequence[str]) -> EvalArguments:
    """Separate ``--judge`` and ``--judge_args`` from the options of lmms-eval.

    An option without a value ends the process with status 2, as argparse does.

    Raises:
        SettingWrong: As `parse_flags`, or ``--launcher_args`` is given too.

    >>> split = split_eval_arguments(["eval", "--judge", "openai:gpt-4o", "--tasks", "mmie"])
    >>> split.for_runner, split.choices[""].judges[0].options
    (['eval', '--tasks', 'mmie'], {'model': 'gpt-4o'})
    """
    parsed, remaining = _flag_parser().parse_known_args(arguments)
    choices = parse_flags(parsed.judge, parsed.judge_args)
    has_launcher = any(argument.partition("=")[0] == "--launcher_args" for argument in remaining)
    if choices and has_launcher:
        hint = "`--launcher_args name=JUDGE,k=v` does the same as `--judge`; use one of them"
        raise SettingWrong("`--judge` and `--launcher_args` are both given.", hint=hint)
    return EvalArguments(choices=choices, for_runner=remaining)


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--judge`` and ``--judge_args``; `parse_flags` reads their values."""
    group = parser.add_argument_group("judges")
    group.add_argument(
        "--judge",
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
        help=f"the judge ({', '.join(registry.names())}) and its model, for all benchmarks or for "
        "the one that is named: `--judge mmie=mmie_score --judge mia_bench=openai:MODEL`; several "
        "for the same benchmarks judge together; default: that of the benchmark",
    )
    group.add_argument(
        "--judge_args",
        action="append",
        default=[],
        metavar="k=v,...",
        help="options of a single `--judge`, or of several judges together (rule); "
        "default: none. Those of one of several follow it: `--judge openai:MODEL,k=v`",
    )
    hidden = argparse.SUPPRESS
    group.add_argument(
        "--judge-args", action="append", dest="judge_args", default=hidden, help=hidden
    )


def judge_options_help() -> str:
    """The help of ``--judge`` and ``--judge_args``, to print below the runner's."""
    return _flag_parser().format_help()


def _flag_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks eval", usage=argparse.SUPPRESS, add_help=False, allow_abbrev=False
    )
    add_judge_options(parser)
    return parser


def parse_flags(judges: Sequence[str], judge_args: Sequence[str]) -> JudgeChoices:
    """The choices of ``--judge`` and ``--judge_args``; empty without ``--judge``.

    Args:
        judges: The values of ``--judge``, as `parse_texts` reads them; several for the same
            benchmarks are a panel.
        judge_args: The values of ``--judge_args``: none, or one with judges of the same benchmarks.

    Raises:
        SettingWrong: As `parse_texts` and `join_judges`, or it is not clear which judge
            ``--judge_args`` belongs to.
    """
    if judge_args and not judges:
        raise SettingWrong("`--judge_args` needs `--judge`.", hint=_HINT)
    if len(judge_args) > 1:
        raise SettingWrong("`--judge_args` is given twice.", hint="one `--judge_args k=v,k=v`")
    panel_options = judge_args[0] if judge_args and len(judges) > 1 else ""
    if judge_args and len(judges) == 1:
        judges = [with_judge_args(judges[0], judge_args[0])]
    chosen = parse_texts(judges, "`--judge`")
    if panel_options and len(chosen) > 1:
        raise SettingWrong(
            "`--judge_args` is ambiguous with judges of several benchmarks.", hint=_HINT
        )
    return {name: join_judges(choices, panel_options) for name, choices in chosen.items()}


def with_judge_args(judge: str, judge_args: str) -> str:
    """A judge as `registry.parse_choice` reads it, followed by the value of ``--judge_args``.

    >>> with_judge_args("openai:gpt-4o", "timeout=60"), with_judge_args("replay", "path=a.jsonl")
    ('openai:gpt-4o,timeout=60', 'replay:path=a.jsonl')
    """
    return f"{judge}{',' if ':' in judge else ':'}{judge_args}"
