"""Fetching one thing after the other; one that fails does not lose the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loguru import logger

from mmie_tasks.doctor.findings import problem_of
from mmie_tasks.errors import DataMissing, MmieTasksError
from mmie_tasks.prefetching.items import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something that could not be had, and why."""

    item: Item
    error: MmieTasksError


def fetch_all(items: Sequence[Item]) -> list[Failure]:
    """Fetch what is not here; what failed.

    Only what a user can put right is gone past; anything else is raised at once.
    """
    wanted = [item for item in items if not item.here]
    failures: list[Failure] = []
    for number, item in enumerate(wanted, start=1):
        logger.info(f"{number} of {len(wanted)}: {item.subject}, from {item.told.source}")
        try:
            logger.info(f"{item.subject}: {item.fetch()}")
        except MmieTasksError as error:
            failures.append(Failure(item=item, error=error))
            logger.error(f"{item.subject}: {problem_of('', error).found}")
    return failures


def foreseen(items: Sequence[Item]) -> list[Failure]:
    """What would fail, by what the Hub said when it was asked for the size."""
    return [Failure(item=item, error=item.trouble) for item in items if item.trouble]


def failed(failures: Sequence[Failure], of: int) -> DataMissing:
    """One error for all that failed, each with its hint.

    Args:
        failures: At least one.
        of: How many things were asked for.
    """
    lines = [f"{len(failures)} of {of} could not be fetched:"]
    for failure in failures:
        found = problem_of("", failure.error)
        lines += ["", f"{failure.item.subject}: {found.found}.", f"  hint: {found.hint}"]
    return DataMissing(
        "\n".join(lines), hint="do what is said above and run again: what is here is kept"
    )
