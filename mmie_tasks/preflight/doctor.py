"""The command ``mmie-tasks doctor``: checks whether a run can start on this machine."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence

from mmie_tasks.preflight.answers import add_answer_options


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Print the findings; the exit status is 1 if there is a problem.

    Raises:
        SettingWrong: An option has an invalid value.
    """
    options = parser().parse_args(arguments)
    from mmie_tasks.core.log import plain_logs
    from mmie_tasks.preflight.checks import examine

    plain_logs("WARNING")
    problems = 0
    for finding in examine(options, environment):
        problems += bool(finding.hint)
        print(finding.lines, flush=True)
    print(f"\nProblems: {problems}. A run would fail." if problems else "\nA run can begin.")
    return int(problems > 0)


def parser() -> argparse.ArgumentParser:
    """The arguments of ``doctor``: those of ``score``, of which none is required."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks doctor",
        description="Check whether a run can start: packages, data, prompts, judges, and saved "
        "answers as `mmie-tasks score` takes them. Nothing large is downloaded. The exit status is "
        "1 if there is a problem.",
    )
    add_answer_options(parser, are_required=False)
    return parser
