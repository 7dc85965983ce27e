"""Assets on this machine: downloads that are missing, and checks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.files import readable_size
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.preflight.findings import Finding, problem_from, run_check


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAsset:
    """An asset and what has to be downloaded; ``error``: why that is unknown, or why it failed."""

    asset: Asset
    is_here: bool
    plan: DownloadPlan
    error: MmieTasksError | None = None

    @property
    def source(self) -> str:
        """Where it comes from, with commits shortened to 12 digits."""
        return re.sub(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", r"\1", self.plan.source)

    @property
    def size(self) -> str:
        """The size of the download, for display."""
        size_bytes = self.plan.size_bytes
        return "unknown" if size_bytes is None else readable_size(size_bytes)


def plan_asset(asset: Asset) -> PlannedAsset:
    """The asset; if it is not here, the Hub is asked for its size."""
    unplanned = DownloadPlan(source=asset.source)
    if asset.is_here():
        return PlannedAsset(asset=asset, is_here=True, plan=unplanned)
    try:
        return PlannedAsset(asset=asset, is_here=False, plan=asset.plan())
    except MmieTasksError as error:
        return PlannedAsset(asset=asset, is_here=False, plan=unplanned, error=error)


def check_assets(assets: Sequence[Asset]) -> Iterator[Finding]:
    """What a run would download, and the results of the checks of the other assets.

    A check of several assets, such as the archives of one dataset, runs once, if none of them has
    to be downloaded. The checks of an asset end with the first problem.
    """
    planned = [plan_asset(asset) for asset in assets]
    missing = [entry for entry in planned if not entry.is_here and entry.asset.origin == "hub"]
    waiting = {check for entry in missing for check in entry.asset.checks}
    finished: set[Check] = set()
    for entry in planned:
        checks = entry.asset.checks
        if entry in missing:
            yield _download_finding(entry)
        elif not checks or waiting.intersection(checks):
            yield Finding("ok", entry.asset.name, f"{entry.source} is here")
        elif not finished.issuperset(checks):
            finished.update(checks)
            for check in checks:
                yield from (findings := list(run_check(check)))
                if any(finding.status == "problem" for finding in findings):
                    break


def _download_finding(entry: PlannedAsset) -> Finding:
    if entry.error:
        return problem_from(entry.asset.name, entry.error)
    state = f"not downloaded yet: {entry.size}, which the first run fetches"
    if entry.plan.size_bytes == 0:
        state = "in the Hub's cache; the first run unpacks it"
    return Finding("ok", entry.asset.name, f"{entry.source}: {state}")
