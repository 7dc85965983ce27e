"""The names of judges, and the options ``--judge`` and ``--judge_args``.

Nothing that takes time is imported for them.

A built-in judge needs a module here and an entry in `BUILT_IN`. One of another package needs:

    [project.entry-points."mmie_tasks.judges"]
    my_judge = "my_package:MyJudge"
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points

ENTRY_POINTS = "mmie_tasks.judges"

BUILT_IN: Mapping[str, str] = {
    "mmie_score": "mmie_tasks.judges.mmie_score.judge:MmieScoreJudge",
    "openai": "mmie_tasks.judges.openai.judge:OpenAIJudge",
    "replay": "mmie_tasks.judges.replay:ReplayJudge",
}
"""Name to class, as ``module:class``."""


def judge_names() -> tuple[str, ...]:
    """The names of all judges, built-in ones first."""
    return (*BUILT_IN, *sorted(installed_judges().keys() - BUILT_IN.keys()))


def installed_judges() -> dict[str, EntryPoint]:
    """The judges of other packages by name."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--judge`` and ``--judge_args``."""
    group = parser.add_argument_group("judges")
    group.add_argument(
        "--judge",
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL][,k=v...]",
        help=f"the judge ({', '.join(judge_names())}) and its model, for all benchmarks or for "
        "the one that is named: `--judge mmie=mmie_score --judge mia_bench=openai:MODEL`; several "
        "for the same benchmarks judge together; default: that of the benchmark",
    )
    group.add_argument(
        "--judge_args",
        action="append",
        default=[],
        metavar="k=v,...",
        help="options of a single `--judge`; settings of the benchmarks; default: none. Options of "
        "one of several judges follow it: `--judge openai:MODEL,k=v`",
    )
    hidden = argparse.SUPPRESS
    group.add_argument(
        "--judge-args", action="append", dest="judge_args", default=hidden, help=hidden
    )


def judge_parser() -> argparse.ArgumentParser:
    """The options of ``mmie-tasks eval`` that lmms-eval does not know."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks eval",
        usage="mmie-tasks eval --model MODEL --tasks A,B [--judge JUDGE] ...",
        description="Evaluate a model: `lmms-eval eval` with our tasks and judges. The exit status "
        "is not 0 if an evaluation fails.",
        epilog="All options of lmms-eval are taken: `lmms-eval --help` shows them.",
        allow_abbrev=False,
    )
    add_judge_options(parser)
    return parser
