"""The command ``mmie-tasks export``: a run in the official formats of its benchmark."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence

from mmie_tasks.core.suggestions import valid_names_text


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Run the export of the benchmark that the first argument names; returns what to print."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks export",
        description="Convert a run to the official formats of its benchmark. `mmie-tasks export "
        "FORMAT --help` shows the formats and options.",
    )
    help_text = "a benchmark that has an export"
    parser.add_argument("target", metavar="FORMAT", help=help_text)
    help_text = "what the export takes, such as `RUN -o PATH`"
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=help_text)
    parsed = parser.parse_args(arguments)
    exports = _exports(parsed.target)
    if parsed.target not in exports:
        names = valid_names_text(exports, parsed.target)
        parser.error(f"there is no export `{parsed.target}`; there are {names}")
    return exports[parsed.target](parsed.arguments, environment)


def _exports(target: str) -> Mapping[str, Callable[[Sequence[str], Mapping[str, str]], str]]:
    """The exports by name; of benchmarks of other packages, only the named one is loaded."""
    from mmie_tasks.benchmarks.registry import entries

    benchmarks = (entry.load() for entry in entries() if entry.is_ours or entry.name == target)
    return {one.name: one.export for one in benchmarks if one.has_export}
