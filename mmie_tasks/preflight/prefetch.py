"""The command ``mmie-tasks prefetch``: downloads the assets of benchmarks and judges."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from loguru import logger

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_names, require_judged
from mmie_tasks.core.choice import Choice
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import readable_size
from mmie_tasks.core.tables import table
from mmie_tasks.hub.asset import Asset
from mmie_tasks.hub.pinned_file import downloads_are_off
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import VARIABLE, JudgeChoices, choose_judges, parse_flags
from mmie_tasks.preflight.arguments import OWN_JUDGE
from mmie_tasks.preflight.assets import PlannedAsset, check_disk_space, plan_asset
from mmie_tasks.preflight.findings import problem_from
from mmie_tasks.preflight.selection import select_tasks, split_names


def fetch(options: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Log the sizes of all assets, and fetch the missing ones.

    Returns:
        The number of fetched assets, and how to copy everything to a machine without network
        access.

    Raises:
        SettingWrong: There is no such benchmark, task or judge.
        DataMissing: A disk is full, or some assets could not be fetched; the others were.
    """
    names = [*options.benchmarks, *split_names(options.tasks)]
    if not names:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs the name of a benchmark or task.",
            hint=f"`{as_called('mmie-tasks prefetch')} {entries()[0].name}`; there are "
            f"{entry_names(entries())}",
        )
    judges = [judge for judge in options.judge if judge != OWN_JUDGE]
    choices = parse_flags(judges, ()) if options.judge else None
    require_judged(choices or (), "`--judge`")
    selection = select_tasks(names)
    listed = [benchmark_assets(selection, environment)]
    listed.append(judge_assets(choices, selection, environment))
    assets = [asset for part in listed for asset in part.assets]
    require_here(assets, environment)
    planned = [plan_asset(asset) for asset in assets]
    missing = [entry for entry in planned if not entry.is_here]
    overview = overview_text(planned, [note for part in listed for note in part.notes])
    overview = f"{overview}\n{check_disk_space(missing)}".strip()
    failures = [entry for entry in missing if entry.error]
    if options.dry_run and not failures:
        return overview
    logger.opt(raw=True).info(f"{overview}\n\n")
    if failures := failures if options.dry_run else fetch_all(missing):
        raise fetch_error(failures, total=len(planned))
    doctor = ["mmie-tasks", "doctor", "--tasks", ",".join(names)]
    doctor += [word for judge in judges for word in ("--judge", judge)]
    summary = f"Fetched: {len(missing)}. Here before: {len(planned) - len(missing)}."
    return f"{summary}\n\n{copy_text(assets, shlex.join(doctor), environment)}"


def require_here(assets: Sequence[Asset], environment: Mapping[str, str]) -> None:
    """Raise `DataMissing` for all assets to be downloaded if downloads are switched off."""
    missing = [one.name for one in assets if one.origin == "hub" and not one.is_here()]
    if missing and downloads_are_off(environment):
        raise DataMissing(
            "Downloads are switched off (`HF_HUB_OFFLINE`), and "
            f"{len(missing)} of {len(assets)} are not here: {', '.join(missing)}.",
            hint="unset it, or copy the folders from a machine where `prefetch` has run",
        )


def plain_logs() -> None:
    """Log to stderr without times and lines of code: the log is for the user."""
    logger.remove()
    logger.add(sys.stderr, level="INFO", format="{message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AssetList:
    """Assets to be fetched, and notes to print with them."""

    assets: tuple[Asset, ...] = ()
    notes: tuple[str, ...] = ()


def benchmark_assets(
    selection: Mapping[BenchmarkEntry, Sequence[str]], environment: Mapping[str, str]
) -> AssetList:
    """The assets of the selected tasks."""
    assets: list[Asset] = []
    notes: list[str] = []
    for entry, tasks in selection.items():
        new = _to_fetch(entry.load().assets(tasks, environment))
        assets += new
        notes += [] if new else [f"{entry.name}: it has no assets to fetch."]
    return AssetList(assets=tuple(assets), notes=tuple(notes))


def judge_assets(
    explicit: JudgeChoices | None,
    benchmarks: Iterable[BenchmarkEntry],
    environment: Mapping[str, str],
) -> AssetList:
    """The assets of the judges that these benchmarks would use.

    `explicit` has the choices of ``--judge``, none for each benchmark's own judge. If it is None,
    without the option, a note names the judges that have assets.

    Raises:
        SettingWrong: There is no such judge, or it has no such option.
        JudgeMisconfigured: An option of a judge is invalid.
    """
    requested = explicit or {}
    judged = [own for entry in benchmarks if (own := entry.load().judge) is not None]
    chosen = [choose_judges(j.benchmark, j.default, environment, requested) for j in judged]
    choices: list[Choice] = []
    for one in chosen or requested.values():
        for choice in (replace(choice, source="") for choice in one.judges):
            choices += [] if choice in choices else [choice]
    assets: list[Asset] = []
    notes: list[str] = []
    for choice in choices:
        new = _to_fetch(registry.create(choice, environment).assets())
        if explicit is not None:
            assets += new
            notes += [] if new else [f"judge `{choice.name}`: nothing is to be fetched for it."]
        elif new:
            notes.append(f"judge `{choice.name}` is not fetched; add `--judge` for that.")
    return AssetList(assets=tuple(assets), notes=tuple(notes))


def _to_fetch(assets: Iterable[Asset]) -> list[Asset]:
    return [asset for asset in assets if asset.origin != "installed"]


def overview_text(planned: Sequence[PlannedAsset], notes: Sequence[str] = ()) -> str:
    """A table of assets, the size of all downloads, and notes."""
    lines: list[str] = []
    if planned:
        sizes = [entry.plan.size_bytes for entry in planned if not entry.is_here]
        texts = [readable_size(sum(filter(None, sizes)))] if any(sizes) else []
        texts += [f"{unknown} of unknown size"] if (unknown := sizes.count(None)) else []
        total = f"To fetch: {', and '.join(texts)}." if sizes else "Everything is here."
        rows = []
        for entry in planned:
            state = "yes" if entry.is_here else "?" if entry.error else "no"
            size = "-" if entry.is_here else entry.size
            rows.append((entry.asset.name, entry.source, state, str(entry.asset.folder), size))
        lines = [
            table(["what", "from", "here", "into", "to fetch"], rows, text_columns=4),
            "",
            total,
        ]
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def fetch_all(missing: Sequence[PlannedAsset]) -> list[PlannedAsset]:
    """Fetch one asset after the other; returns the assets that failed with a `MmieTasksError`."""
    failures: list[PlannedAsset] = []
    for number, entry in enumerate(missing, start=1):
        name = entry.asset.name
        logger.info(f"{number} of {len(missing)}: {name}, from {entry.plan.source}")
        try:
            logger.info(f"{name}: {entry.asset.fetch()}")
        except MmieTasksError as error:
            failures.append(replace(entry, error=error))
            logger.error(f"{name}: {problem_from(name, error).message}")
    return failures


def fetch_error(failures: Iterable[PlannedAsset], total: int) -> DataMissing:
    """One error for all failed assets, of `total`, with the hint of each."""
    findings = [problem_from(entry.asset.name, entry.error) for entry in failures if entry.error]
    lines = [f"{len(findings)} of {total} could not be fetched:"]
    for finding in findings:
        lines += ["", f"{finding.subject}: {finding.message}.", f"  hint: {finding.hint}"]
    hint = "follow the hints above and run again; fetched files are not downloaded again"
    return DataMissing("\n".join(lines), hint=hint)


def copy_text(assets: Iterable[Asset], doctor: str, environment: Mapping[str, str]) -> str:
    """How to copy assets to a machine without network access, and the `doctor` command for it.

    Settings are named without their values.
    """
    copies: dict[str, Path] = {}
    settings = ["HF_ENDPOINT"]
    for asset in assets:
        copies |= asset.copies
        settings += asset.settings
    if not copies:
        return "A machine without network access needs no copies."
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in copies.items()]
    lines = [
        "For a machine without network access: copy these folders to it (or mount them), set the",
        "variables to their paths there, and check that a run can start:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1", doctor)),
    ]
    if "HF_HOME" in copies:
        lines += ["", "Do not copy the file `token` in `HF_HOME`: it is a key."]
    names = dict.fromkeys([*settings, VARIABLE])
    set_here = [f"`{name}`" for name in names if environment.get(name) and name not in copies]
    lines += ["", f"Also set there, as here: {', '.join(set_here)}."] if set_here else []
    return "\n".join(lines)
