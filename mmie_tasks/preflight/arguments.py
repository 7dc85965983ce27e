"""The command lines of ``mmie-tasks doctor`` and ``prefetch``.

It imports nothing that takes time: see `results.commands`.
"""

from __future__ import annotations

import argparse

from mmie_tasks.judges.names import add_judge_options

OWN_JUDGE = "default"
"""``--judge`` of ``prefetch`` without a name."""


def doctor_parser() -> argparse.ArgumentParser:
    """The arguments of ``doctor``."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks doctor",
        description="Check whether a run can start: packages, data, prompts, judges. "
        "Nothing large is downloaded. The exit status is 1 if there is a problem.",
    )
    tasks_help = "tasks of ours; default: all"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=tasks_help)
    add_judge_options(parser)
    return parser


def prefetch_parser() -> argparse.ArgumentParser:
    """The arguments of ``prefetch``, for ``parse_intermixed_args``."""
    parser = argparse.ArgumentParser(
        prog="mmie-tasks prefetch",
        description="Download what a run needs, for machines without network access: datasets, "
        "official prompts and, with --judge, the judge's checkpoint. Sizes are printed first; "
        "existing files are not downloaded again.",
    )
    parser.add_argument(
        "benchmarks", nargs="*", metavar="BENCHMARK", help="a benchmark, or a task or tag of one"
    )
    parser.add_argument(
        "--tasks", "--task", default="", metavar="A,B", help="more of them; default: none"
    )
    parser.add_argument(
        "--judge",
        nargs="?",
        const=OWN_JUDGE,
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
        help="the judges too, as in `mmie-tasks eval`; without a name, the default judge of each "
        "benchmark; without this option, none",
    )
    parser.add_argument("--dry_run", action="store_true", help="only print the sizes")
    return parser
