"""The command ``mmie-tasks export``: to a benchmark's official formats, or to a database."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.core.suggestions import valid_names_text

Export: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], str]
"""Runs an export on its arguments and an environment; returns what to print."""


def _hub(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    from mmie_tasks.results.export import hub

    return hub.run(arguments, environment)


def _every_eval_ever(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    from mmie_tasks.results.export import every_eval_ever_command

    return every_eval_ever_command.run(arguments, environment)


_DATABASES: Mapping[str, Export] = {"hub": _hub, "every-eval-ever": _every_eval_ever}
"""The exports for runs of any benchmark."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the export that the first argument names: a benchmark's own, or to a database."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export",
        description="Convert a run to the official formats of its benchmark, to `.eval_results/` "
        "of a model repository on the Hub, or to Every Eval Ever. `mmie-tasks export FORMAT "
        "--help` shows the formats and options.",
    )
    help_text = "`hub`, `every-eval-ever`, or a benchmark that has an export of its own"
    parser.add_argument("target", metavar="FORMAT", help=help_text)
    help_text = "what the export takes, such as `RUN -o PATH`"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=help_text)
    parsed = parser.parse_args(arguments)
    exports = _exports(parsed.target)
    if parsed.target not in exports:
        names = valid_names_text(exports, parsed.target)
        parser.error(f"there is no export `{parsed.target}`; there are {names}")
    return exports[parsed.target](parsed.arguments, environment)


def _exports(target: str) -> Mapping[str, Export]:
    """The exports by name; of benchmarks of other packages, only the named one is loaded."""
    from mmie_tasks.benchmarks.registry import entries

    benchmarks = (entry.load() for entry in entries() if entry.is_ours or entry.name == target)
    return {**{one.name: one.export for one in benchmarks if one.has_export}, **_DATABASES}
