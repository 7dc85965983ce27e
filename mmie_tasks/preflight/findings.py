"""Findings of ``doctor``: statuses, and how checks, assets and folders become findings."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.files import free_bytes, nearest_existing, readable_size
from mmie_tasks.hub.asset import Asset, Check, combined_plan

_LOW_DISK_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        status: ``ok``; ``warning``: a run works, and the user should know this; ``problem``: a run fails.
        subject: What was checked: ``mmie: data``.
        message: The result, one sentence without a full stop.
        hint: What to do; empty if nothing.
    """

    status: Literal["ok", "warning", "problem"]
    subject: str
    message: str
    hint: str = ""


def problem_from(subject: str, error: MmieTasksError) -> Finding:
    """The problem with the message and the hint of an error.

    >>> from mmie_tasks.core.errors import DataMissing
    >>> problem_from("data", DataMissing("No folder `x`.", hint="`mkdir x`")).hint
    '`mkdir x`'
    """
    message, _, hint = str(error).partition("\n\nhint: ")
    return Finding("problem", subject, message.rstrip("."), hint)


def run_check(check: Check) -> Iterator[Finding]:
    """The result of a check: ok, or a problem if it raises; then what it logged as warnings."""
    warnings: list[str] = []
    sink = logger.add(
        lambda line: warnings.append(str(line).strip()), level="WARNING", format=lambda _record: "{message}"
    )
    try:
        message = check.describe().rstrip(".")
        finding = Finding("ok", check.subject, message) if message else None
    except MmieTasksError as error:
        finding = problem_from(check.subject, error)
    finally:
        with suppress(ValueError):  # importing lmms-eval removes all sinks
            logger.remove(sink)
    if finding is not None:
        yield finding
    for line in dict.fromkeys(warnings):
        message, _, hint = line.partition(" hint: ")
        yield Finding("warning", check.subject, message.rstrip("."), hint)


def check_assets(assets: Sequence[Asset]) -> Iterator[Finding]:
    """A finding for the assets that have to be downloaded, and the checks of the others.

    A check runs once, and only if no asset that shares it has to be downloaded; missing assets that share their checks,
    such as the archives of one dataset, are one finding. The checks of an asset end with the first problem.
    """
    missing = [asset for asset in assets if (asset.origin == "hub" or not asset.checks) and not asset.is_here()]
    blocked = {check for asset in missing for check in asset.checks}
    finished: set[Check] = set()
    for asset in assets:
        if asset in missing:
            group = [other for other in missing if other is asset or (asset.checks and other.checks == asset.checks)]
            if asset is group[0]:
                yield _download_finding(group)
        elif not asset.checks or blocked.intersection(asset.checks):
            yield Finding("ok", asset.name, f"{asset.source} is here")
        elif not finished.issuperset(asset.checks):
            finished.update(asset.checks)
            for check in asset.checks:
                yield from (findings := list(run_check(check)))
                if any(finding.status == "problem" for finding in findings):
                    break


def _download_finding(assets: Sequence[Asset]) -> Finding:
    """Whether missing assets can be downloaded, and fit on the disk of the first of them."""
    first, count = assets[0], len(assets)
    subject = first.name if count == 1 else first.checks[0].subject
    try:
        plans = [asset.plan() for asset in assets]
        free = free_bytes(first.folder)
    except MmieTasksError as error:
        return problem_from(subject, error)
    plan = plans[0] if count == 1 else combined_plan(f"{plans[0].source} and {count - 1} more", plans)
    source = shortened(plan.source)
    if plan.size_bytes == 0:
        return Finding("ok", subject, f"{source}: in the Hub's cache; the first run unpacks it")
    size = readable_size(plan.known_bytes) if plan.known_bytes else "size unknown"
    if plan.known_bytes and plan.size_bytes is None:
        size += " or more"
    if plan.known_bytes > free:
        return Finding(
            "problem",
            subject,
            f"{source}: {size} are to be downloaded, and {readable_size(free)} are free for `{first.folder}`",
            "free some space, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a folder on a bigger disk",
        )
    state = "accessible, not downloaded yet" if plan.is_confirmed else "not downloaded yet (access was not checked)"
    return Finding("ok", subject, f"{source}: {state}: {size}, which the first run fetches")


def shortened(source: str) -> str:
    """A source with its commits shortened to 12 digits.

    >>> shortened("MMIE/MMIE@0123456789abcdef0123456789abcdef01234567: data.json")
    'MMIE/MMIE@0123456789ab: data.json'
    """
    return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", source)


def folder_finding(subject: str, path: Path, hint: str) -> Finding:
    """Whether a folder can be written, or created, and how much space is free.

    Args:
        subject: What the folder is for.
        path: The folder; it need not exist.
        hint: How to choose another.
    """
    folder = nearest_existing(path)
    if not is_writable(folder):
        return Finding("problem", subject, f"`{path}` cannot be written", hint)
    try:
        free = free_bytes(path)
    except OSError as error:
        message = f"the free space for `{path}` could not be determined ({error.strerror})"
        return Finding("warning", subject, message, hint)
    message = f"{readable_size(free)} free for `{path}`"
    is_low = free < _LOW_DISK_BYTES
    return Finding("warning" if is_low else "ok", subject, message, hint if is_low else "")


def is_writable(folder: Path) -> bool:
    """Whether files can be created in an existing folder."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
