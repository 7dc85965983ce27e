"""The command ``mmie-tasks export``: to a benchmark's official formats, or to a database."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.results.export import every_eval_ever_command, hub

Export: TypeAlias = Callable[[Sequence[str], Mapping[str, str]], str]
"""Runs an export on its arguments and an environment; returns what to print."""

DATABASES: Mapping[str, Export] = {"hub": hub.run, "every-eval-ever": every_eval_ever_command.run}
"""The exports for runs of any benchmark."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the export that the first argument names: a benchmark's own, or one of `DATABASES`."""
    named = {*arguments[:1]}
    benchmarks = (entry.load() for entry in entries() if entry.is_ours or entry.name in named)
    own_exports: dict[str, Export] = {
        benchmark.name: benchmark.export for benchmark in benchmarks if benchmark.has_export
    }
    exports = {**own_exports, **DATABASES}
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export",
        description="Convert a run to the official formats of its benchmark, to `.eval_results/` "
        "of a model repository on the Hub, or to Every Eval Ever. `mmie-tasks export TARGET "
        "--help` shows the formats and options.",
    )
    help_text = "a benchmark that has an export of its own, `hub` or `every-eval-ever`"
    parser.add_argument("target", choices=exports, help=help_text)
    help_text = "what the export takes, such as `RUN -o PATH`"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=help_text)
    parsed = parser.parse_args(arguments)
    export: Export = exports[parsed.target]
    return export(parsed.arguments, environment)
