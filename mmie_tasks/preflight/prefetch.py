"""The command ``mmie-tasks prefetch``: downloads the assets of benchmarks and judges."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_names, require_judged
from mmie_tasks.core.choice import Choice
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.asset import Asset
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import JudgeChoices, choose_judges, parse_flags
from mmie_tasks.preflight.arguments import OWN_JUDGE
from mmie_tasks.preflight.assets import PlannedAsset, plan_asset
from mmie_tasks.preflight.selection import select_tasks, split_names


def fetch(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Log the sizes of all assets, and fetch the missing ones.

    Returns:
        How to copy everything to a machine without network access; the sizes with ``--dry_run``.

    Raises:
        SettingWrong: There is no such benchmark, task or judge.
        DataMissing: Some assets could not be fetched; the others were.
    """
    names = [*options.benchmarks, *split_names(options.tasks)]
    if not names:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs the name of a benchmark or task.",
            hint=f"`{as_called('mmie-tasks prefetch')} {entries()[0].name}`; there are "
            f"{entry_names(entries())}",
        )
    choices = parse_flags([judge for judge in options.judge if judge != OWN_JUDGE], ())
    require_judged(choices, "`--judge`")
    selection = select_tasks(names)
    assets = [
        asset
        for entry, tasks in selection.items()
        for asset in entry.load().assets(tasks, environment)
    ]
    if options.judge:
        assets += judge_assets(choices, selection, environment)
    planned = [plan_asset(asset) for asset in assets if asset.origin != "installed"]
    missing = [entry for entry in planned if not entry.is_here]
    overview = overview_text(planned)
    failures = [entry.error for entry in missing if entry.error]
    if options.dry_run and not failures:
        return overview
    logger.info(overview)
    if failures := failures if options.dry_run else fetch_all(missing):
        message = f"{len(failures)} of {len(planned)} could not be fetched."
        raise DataMissing(message, hint=failures[0].hint)
    return copy_text([entry.asset for entry in planned])


def judge_assets(
    requested: JudgeChoices, benchmarks: Iterable[BenchmarkEntry], environment: Mapping[str, str]
) -> list[Asset]:
    """The assets of the judges that these benchmarks would use; of all that are requested if none
    of the benchmarks has a judge.

    Raises:
        SettingWrong: There is no such judge, or it has no such option.
        JudgeMisconfigured: An option of a judge is invalid.
    """
    judged = [own for entry in benchmarks if (own := entry.load().judge) is not None]
    chosen = [choose_judges(j.benchmark, j.default, environment, requested) for j in judged]
    choices: list[Choice] = []
    for one in chosen or requested.values():
        for choice in (replace(judge, source="") for judge in one.judges):
            choices += [] if choice in choices else [choice]
    return [asset for choice in choices for asset in registry.create(choice, environment).assets()]


def overview_text(planned: Sequence[PlannedAsset]) -> str:
    """A line for each asset, and the size of all downloads."""
    lines = []
    for entry in planned:
        size = entry.error.message if entry.error else f"to fetch: {entry.size}"
        state = "here" if entry.is_here else size
        lines.append(f"{entry.asset.name}: {entry.source}, in {entry.asset.folder}: {state}")
    sizes = [entry.plan.size_bytes for entry in planned if not entry.is_here]
    texts = [readable_size(sum(filter(None, sizes)))] if any(sizes) else []
    texts += [f"{unknown} of unknown size"] if (unknown := sizes.count(None)) else []
    total = f"To fetch: {', and '.join(texts)}." if sizes else "Everything is here."
    return "\n".join([*lines, total])


def fetch_all(missing: Sequence[PlannedAsset]) -> list[MmieTasksError]:
    """Fetch one asset after the other; returns the errors of those that failed."""
    failures: list[MmieTasksError] = []
    for entry in missing:
        name = entry.asset.name
        logger.info(f"{name}: from {entry.plan.source}")
        try:
            logger.info(f"{name}: {entry.asset.fetch()}")
        except MmieTasksError as error:
            failures.append(error)
            logger.error(f"{name}: {error.message}")
    return failures


def copy_text(assets: Iterable[Asset]) -> str:
    """How to copy assets to a machine without network access."""
    copies: dict[str, Path] = {}
    for asset in assets:
        copies |= asset.copies
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in copies.items()]
    lines = [
        "For a machine without network access: copy these folders to it (or mount them), and set",
        "the variables to their paths there:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1")),
    ]
    return "\n".join(lines)
