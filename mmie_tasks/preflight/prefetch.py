"""The command ``mmie-tasks prefetch``: downloads the assets of benchmarks and judges."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loguru import logger

from mmie_tasks.benchmarks.registry import (
    BenchmarkEntry,
    entries,
    entry_names,
    entry_of_task,
    require_judged,
)
from mmie_tasks.core.errors import DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.files import free_bytes, nearest_existing, readable_size
from mmie_tasks.core.tables import table
from mmie_tasks.hub.asset import Asset, DownloadPlan
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import HasAssets
from mmie_tasks.judges.choice import DEFAULT, JudgeChoices, choose_judges
from mmie_tasks.judges.flags import parse_flags
from mmie_tasks.judges.registry import JudgeChoice
from mmie_tasks.preflight.doctor import is_writable, problem_from, select_tasks, shortened

if TYPE_CHECKING:
    from loguru import Record

HEADER = ("what", "from", "here", "into", "to fetch")
HUB_HOME = "HF_HOME"

# Settings that choose assets. Their values are not printed.
SETTINGS = (
    *("HF_ENDPOINT", "MMIE_REVISION", "MILEBENCH_REVISION", "MIA_BENCH_REVISION"),
    *("MMIE_SCORE_MODEL", "MMIE_TASKS_JUDGE"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _AssetList:
    """The assets of a command, and notes to print with them."""

    assets: tuple[Asset, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAsset:
    """An asset with what is known before anything is fetched.

    Attributes:
        asset: The asset.
        is_here: Whether nothing has to be fetched.
        plan: What has to be downloaded; without sizes if the asset is here or the Hub refused.
        error: Why the Hub gave no plan, or why fetching failed.
    """

    asset: Asset
    is_here: bool
    plan: DownloadPlan
    error: MmieTasksError | None = None


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Print the sizes of all assets, and fetch the missing ones.

    Args:
        arguments: The arguments behind ``prefetch``.
        environment: Of this process; the Hub's libraries read it themselves.

    Returns:
        The number of fetched assets, and how to copy everything to a machine without network
        access.

    Raises:
        SettingWrong: There is no such benchmark, task or judge.
        DataMissing: A disk is full, or some assets could not be fetched; the others were.
    """
    options = _parse(arguments)
    listed = _list_assets(options.benchmarks, options.choices, environment)
    planned = [plan_asset(asset) for asset in listed.assets]
    missing = [entry for entry in planned if not entry.is_here]
    overview = f"{overview_text(planned, listed.notes)}\n{check_disk_space(missing)}".strip()
    failures = [entry for entry in missing if entry.error]
    if options.dry_run and not failures:
        return overview
    logger.opt(raw=True).info(f"{overview}\n\n")
    if failures := failures if options.dry_run else fetch_all(missing):
        raise fetch_error(failures, total=len(planned))
    doctor = ["mmie-tasks", "doctor", "--tasks", ",".join(options.benchmarks)]
    doctor += [word for judge in options.judge if judge != DEFAULT for word in ("--judge", judge)]
    summary = f"Fetched: {len(missing)}. Here before: {len(planned) - len(missing)}."
    return f"{summary}\n\n{copy_text(listed.assets, shlex.join(doctor), environment)}"


def plain_logs() -> None:
    """Log to stderr without times and places in our code: the log of this process is for the
    user.
    """

    def line(record: Record) -> str:
        return (
            "{message}\n"
            if record["level"].no <= logger.level("INFO").no
            else "{level}: {message}\n"
        )

    logger.remove()
    logger.add(sys.stderr, level="INFO", format=line)


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
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
        const=DEFAULT,
        action="append",
        default=[],
        metavar="[BENCHMARK=]JUDGE[:MODEL]",
        help="the judges too, as in `mmie-tasks eval`; without a name, the default judge of each "
        "benchmark; without this option, none",
    )
    parser.add_argument("--dry_run", action="store_true", help="print the sizes only")
    hidden = argparse.SUPPRESS
    parser.add_argument(
        "--dry-run", action="store_true", dest="dry_run", default=hidden, help=hidden
    )
    options = parser.parse_intermixed_args(arguments)
    options.benchmarks += [name.strip() for name in options.tasks.split(",") if name.strip()]
    for index, judge in enumerate(options.judge):
        is_judge = judge.partition(":")[0] in (*registry.names(), DEFAULT)
        if not is_judge and entry_of_task(judge):  # `--judge mmie`
            options.benchmarks.append(judge)
            options.judge[index] = DEFAULT
    options.choices = (
        parse_flags([judge for judge in options.judge if judge != DEFAULT], ())
        if options.judge
        else None
    )
    require_judged(options.choices or (), "`--judge`")
    return options


def _list_assets(
    names: Sequence[str], choices: JudgeChoices | None, environment: Mapping[str, str]
) -> _AssetList:
    assets: list[Asset] = []
    notes: list[str] = []
    if not names:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs the name of a benchmark or task.",
            hint=f"`mmie-tasks prefetch {entries()[0].name}`; there are {entry_names(entries())}",
        )
    selection = select_tasks(names)
    for entry, tasks in selection.items():
        benchmark_assets = entry.load().assets(tasks, environment)
        assets += [asset for asset in benchmark_assets if asset.origin != "installed"]
        notes += [] if benchmark_assets else [f"{entry.name}: it has no assets to fetch."]
    judges = judge_assets(choices, selection, environment)
    return _AssetList(assets=(*assets, *judges.assets), notes=(*notes, *judges.notes))


def judge_assets(
    explicit: JudgeChoices | None,
    benchmarks: Iterable[BenchmarkEntry],
    environment: Mapping[str, str],
) -> _AssetList:
    """The assets of the judges that these benchmarks would use.

    Args:
        explicit: The choices of ``--judge``, empty for each benchmark's own judge; None for no
            judge.
        benchmarks: The benchmarks.
        environment: Read: ``MMIE_TASKS_JUDGE`` and what else chooses a judge, and what judges read.

    Raises:
        SettingWrong: There is no such judge, or it has no such option.
        JudgeMisconfigured: An option of a judge is invalid.
    """
    choices: list[JudgeChoice] = []
    notes: list[str] = []
    for entry in benchmarks:
        benchmark_judge = entry.load().judge
        if benchmark_judge is None:
            notes += [f"{entry.name}: it has no judge."] if explicit == {} else []
            continue
        chosen = choose_judges(entry.name, benchmark_judge.default, environment, explicit or {})
        for choice in chosen.judges:
            if explicit is not None:
                choices.append(replace(choice, source=""))
                continue
            subject = f"{entry.name}: its judge `{choice.name}`"
            note = f"{subject} is not fetched; add `--judge` for that."
            try:
                notes += [note] if _assets_of(choice, environment) else []
            except MmieTasksError as error:
                notes.append(f"{subject} cannot be used: {problem_from('', error).message}.")
    if explicit and not choices:
        choices = [replace(judge, source="") for one in explicit.values() for judge in one.judges]
    assets: list[Asset] = []
    for number, choice in enumerate(choices):
        if choice in choices[:number]:
            continue
        assets += (new := _assets_of(choice, environment))
        notes += [] if new else [f"judge `{choice.name}`: nothing is to be fetched for it."]
    return _AssetList(assets=tuple(assets), notes=tuple(notes))


def _assets_of(choice: JudgeChoice, environment: Mapping[str, str]) -> list[Asset]:
    judge = registry.create(choice.name, choice.options, environment)
    assets = judge.assets() if isinstance(judge, HasAssets) else ()
    return [asset for asset in assets if asset.origin != "installed"]


def plan_asset(asset: Asset) -> PlannedAsset:
    """Ask the Hub for the size of an asset that is not here."""
    unplanned = DownloadPlan(source=asset.source)
    if asset.is_here():
        return PlannedAsset(asset=asset, is_here=True, plan=unplanned)
    try:
        return PlannedAsset(asset=asset, is_here=False, plan=asset.plan())
    except MmieTasksError as error:
        return PlannedAsset(asset=asset, is_here=False, plan=unplanned, error=error)


def overview_text(planned: Sequence[PlannedAsset], notes: Iterable[str] = ()) -> str:
    """The table of all assets, the sum of their sizes, and notes."""
    lines: list[str] = []
    if planned:
        sizes = [entry.plan.size_bytes for entry in planned if not entry.is_here]
        known_sizes = [size_bytes for size_bytes in sizes if size_bytes is not None]
        unknown = len(sizes) - len(known_sizes)
        texts = [readable_size(sum(known_sizes))] if known_sizes else []
        texts += [f"{unknown} of unknown size"] if unknown else []
        total = f"To fetch: {', and '.join(texts)}." if texts else "Everything is here."
        rows = []
        for entry in planned:
            size_bytes = entry.plan.size_bytes
            size = "unknown" if size_bytes is None else readable_size(size_bytes)
            state = "yes" if entry.is_here else "?" if entry.error else "no"
            here = (entry.asset.name, shortened(entry.plan.source), state, str(entry.asset.folder))
            rows.append((*here, "-" if entry.is_here else size))
        lines = [table(HEADER, rows, text_columns=4), "", total]
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def needed_bytes(planned: Iterable[PlannedAsset]) -> Mapping[Path, int]:
    """A folder of each disk to the bytes needed on that disk; unknown sizes count as 0.

    What is stored adds up. Temporary space is needed by one asset at a time.
    """
    folders: dict[int, Path] = {}
    stored: Counter[Path] = Counter()
    temporary: Counter[Path] = Counter()

    def disk_of(folder: Path) -> Path:
        return folders.setdefault(nearest_existing(folder).stat().st_dev, folder)

    for entry in (entry for entry in planned if not entry.is_here):
        temporary |= Counter({disk_of(entry.asset.folder): entry.plan.temporary_bytes})
        for folder, size_bytes in entry.plan.disk_bytes.items():
            stored[disk_of(folder)] += size_bytes
    return {disk: stored[disk] + temporary[disk] for disk in folders.values()}


def check_disk_space(
    missing: Iterable[PlannedAsset], free: Callable[[Path], int] = free_bytes
) -> str:
    """One line for each disk with the needed and the free space.

    Args:
        missing: The assets to be fetched.
        free: Returns the free bytes for a folder.

    Raises:
        DataMissing: A disk has too little space, or a folder cannot be written.
    """
    lines = []
    for folder, needed in needed_bytes(missing).items():
        if not is_writable(nearest_existing(folder)):
            hint = "set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a writable folder"
            raise DataMissing(f"`{folder}` cannot be written.", hint=hint)
        available = free(folder)
        if needed > available:
            raise DataMissing(
                f"{readable_size(needed)} are needed for `{folder}`, including archives while they "
                f"are unpacked, and {readable_size(available)} are free.",
                hint="free some space, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) "
                "to a folder on a bigger disk",
            )
        need = f"at most {readable_size(needed)} needed" if needed else "needed space unknown"
        lines.append(f"Disk of `{folder}`: {readable_size(available)} free, {need}.")
    return "\n".join(lines)


def fetch_all(missing: Sequence[PlannedAsset]) -> list[PlannedAsset]:
    """Fetch one asset after the other; returns those that failed.

    Only a `MmieTasksError` lets the next asset be fetched; any other error is raised at once.
    """
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
    """One error for all failed assets, with the hint of each.

    Args:
        failures: At least one.
        total: The number of all assets.
    """
    findings = [problem_from(entry.asset.name, entry.error) for entry in failures if entry.error]
    lines = [f"{len(findings)} of {total} could not be fetched:"]
    for finding in findings:
        lines += ["", f"{finding.subject}: {finding.message}.", f"  hint: {finding.hint}"]
    hint = "follow the hints above and run again; fetched files are not downloaded again"
    return DataMissing("\n".join(lines), hint=hint)


def copy_text(assets: Iterable[Asset], doctor: str, environment: Mapping[str, str]) -> str:
    """How to copy assets to a machine without network access.

    Args:
        assets: All assets; they are here now.
        doctor: The command that checks them on the other machine.
        environment: Of this process.
    """
    copies: dict[str, Path] = {}
    for asset in assets:
        copies |= asset.copies
    if not copies:
        return "A machine without network access needs no copies."
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in copies.items()]
    lines = [
        "For a machine without network access: copy these folders to it (or mount them), set the",
        "variables to their paths there, and check that a run can start:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1", doctor)),
    ]
    if HUB_HOME in copies:
        lines += ["", f"Do not copy the file `token` in `{HUB_HOME}`: it is a key."]
    settings = [f"`{name}`" for name in SETTINGS if environment.get(name) and name not in copies]
    lines += ["", f"Also set there, as here: {', '.join(settings)}."] if settings else []
    return "\n".join(lines)
