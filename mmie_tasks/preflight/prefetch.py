"""The command ``mmie-tasks prefetch``: downloads the assets of benchmarks and judges."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong

if TYPE_CHECKING:
    from mmie_tasks.hub.asset import Asset

_OWN_JUDGE = "default"  # `--judge` without a name


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Print the sizes of all assets, and fetch the missing ones.

    Returns:
        How to copy everything to a machine without network access; nothing with ``--dry_run``.

    Raises:
        SettingWrong: There is no such benchmark, task or judge.
        DataMissing: Some assets could not be fetched; the others were.
    """
    options = _parser().parse_intermixed_args(arguments)
    from mmie_tasks.benchmarks.registry import entries, entry_names, require_judged
    from mmie_tasks.core.log import plain_logs
    from mmie_tasks.judges import registry
    from mmie_tasks.judges.choice import parse_flags
    from mmie_tasks.preflight.needed import judges_of, select_tasks

    plain_logs("INFO")
    choices = parse_flags([judge for judge in options.judge if judge != _OWN_JUDGE], ())
    require_judged(choices, "`--judge`")
    selection = select_tasks([*options.benchmarks, *options.tasks.split(",")])
    if not selection:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs the name of a benchmark or task.",
            hint=f"`mmie-tasks prefetch mmie`; there are {entry_names(entries())}",
        )
    needed = [
        asset
        for entry, tasks in selection.items()
        for asset in entry.load().assets(tasks, environment)
    ]
    for judge in judges_of(selection, choices, environment) if options.judge else ():
        needed += registry.create(judge, environment).assets()
    assets = [asset for asset in needed if asset.origin != "installed"]
    missing = [asset for asset in assets if not asset.is_here()]
    failures = [error for asset in assets if (error := _print_state(asset, asset in missing))]
    if not options.dry_run:
        failures = [error for asset in missing if (error := _fetch(asset))]
    if failures:
        message = f"{len(failures)} of {len(assets)} could not be fetched."
        raise DataMissing(message, hint=failures[0].hint)
    return "" if options.dry_run else _copy_text(assets)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks prefetch",
        description="Download what a run needs, for machines without network access: datasets, "
        "official prompts and, with --judge, the judge's checkpoint. Sizes are printed first; "
        "existing files are not downloaded again.",
    )
    names_help = "a benchmark or task"
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help=names_help)
    tasks_help = "more of them; default: none"
    parser.add_argument("--tasks", "--task", default="", metavar="A,B", help=tasks_help)
    judge_help = (
        "the judges too, as in `mmie-tasks eval`; without a name, the default judge of each "
        "benchmark; without this option, none"
    )
    parser.add_argument(
        "--judge",
        nargs="?",
        const=_OWN_JUDGE,
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
        help=judge_help,
    )
    parser.add_argument("--dry_run", action="store_true", help="only print the sizes")
    return parser


def _print_state(asset: Asset, is_missing: bool) -> MmieTasksError | None:
    """Print a line on an asset; returns the error if the Hub does not tell its size."""
    state, error = f"{asset.source}: here", None
    if is_missing:
        try:
            state = asset.plan().text
        except MmieTasksError as refused:
            state, error = f"{asset.source}: {refused.message}", refused
    print(f"{asset.name}: {state}, in {asset.folder}", flush=True)
    return error


def _fetch(asset: Asset) -> MmieTasksError | None:
    """Fetch an asset, and print the result; returns the error if that failed."""
    try:
        print(f"{asset.name}: {asset.fetch()}", flush=True)
    except MmieTasksError as error:
        sys.stderr.write(f"{asset.name}: {error.message}\n")
        return error
    return None


def _copy_text(assets: Sequence[Asset]) -> str:
    copies = {name: path for asset in assets for name, path in asset.copies.items()}
    exports = [f"  export {name}={shlex.quote(str(path))}" for name, path in copies.items()]
    text = (
        "For a machine without network access: copy these folders to it (or mount them), and set\n"
        "the variables to their paths there:\n"
    )
    return "\n".join([text, *exports, "  export HF_HUB_OFFLINE=1"])
