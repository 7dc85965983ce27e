"""Checks of assets: what is to be downloaded, and whether what is here can be used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.hub.asset import Asset, Check
from mmie_tasks.preflight.findings import Finding, problem_from, run_check
from mmie_tasks.preflight.plan import PlannedAsset, check_disk_space, plan_asset


def check_assets(assets: Sequence[Asset]) -> Iterator[Finding]:
    """What is to be downloaded, and the checks of what is here.

    A check of several assets, such as the archives of one dataset, runs once, when all of them are
    here; a path that the user names need not exist for it. The checks of an asset end with the
    first problem.
    """
    planned = [plan_asset(asset) for asset in assets]
    missing = [entry for entry in planned if not entry.is_here and entry.asset.origin == "hub"]
    try:
        check_disk_space(missing)
    except MmieTasksError as error:
        yield problem_from("disk", error)
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
