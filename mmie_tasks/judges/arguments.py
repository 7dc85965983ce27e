"""The options ``--judge`` and ``--judge_args``, whose values `judges.choice.parse_flags` reads.

It imports nothing that takes time: see `results.arguments`.
"""

from __future__ import annotations

import argparse

from mmie_tasks.judges.names import judge_names


def add_judge_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--judge`` and ``--judge_args``."""
    group = parser.add_argument_group("judges")
    group.add_argument(
        "--judge",
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
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
