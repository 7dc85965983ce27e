"""The command ``mmie-tasks prefetch``."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence

from loguru import logger

from mmie_tasks.judges.registry import names as judge_names
from mmie_tasks.prefetching import judges, offline, plan
from mmie_tasks.prefetching.fetching import failed, fetch_all, foreseen
from mmie_tasks.prefetching.items import Item
from mmie_tasks.prefetching.judges import DEFAULT, Found
from mmie_tasks.prefetching.names import asked_of
from mmie_tasks.rooms import room_of


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Fetch what is asked for, sizes first.

    Args:
        arguments: What stands behind ``prefetch``.
        environment: Of this process: the Hub's libraries read it themselves.

    Returns:
        What is here now, and how to take it to a machine without internet.

    Raises:
        SettingWrong: There is no such benchmark, task or judge.
        DataMissing: There is no room, or something could not be fetched; all else was.
    """
    asked = _parsed(arguments)
    found = _found(asked.benchmarks, asked.judge, environment)
    wanted = [item for item in found.items if not item.here]
    told = f"{plan.text(found.items, found.notes)}\n{plan.check_room(wanted)}".strip()
    if asked.dry_run and not foreseen(wanted):
        return told
    logger.opt(raw=True).info(f"{told}\n\n")
    if failures := foreseen(wanted) if asked.dry_run else fetch_all(wanted):
        raise failed(failures, of=len(found.items))
    words = ["mmie-tasks", "doctor", "--tasks", ",".join(asked.benchmarks)]
    words += ["--judge", asked.judge] if asked.judge not in (None, DEFAULT) else []
    summary = f"Fetched: {len(wanted)}. Here before: {len(found.items) - len(wanted)}."
    return f"{summary}\n\n{offline.lines(found.items, shlex.join(words), environment)}"


def _found(words: Sequence[str], judge: str | None, environment: Mapping[str, str]) -> Found:
    items: list[Item] = []
    notes: list[str] = []
    chosen = asked_of(words)
    for room, tasks in chosen.items():
        part = room.part("prefetch")
        if part is None:
            notes.append(f"{room.name}: it names nothing to be fetched.")
        else:
            items += part.items(tasks, environment)
    judged = judges.look(judge, chosen, environment)
    return Found(items=(*items, *judged.items), notes=(*notes, *judged.notes))


def _parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks prefetch",
        description="Download what a run needs, for machines without internet: datasets, official "
        "prompts and, with --judge, the judge's checkpoint. Sizes come first; what is here already "
        "is not fetched again; a download that was broken off goes on.",
    )
    parser.add_argument(
        "benchmarks", nargs="*", metavar="BENCHMARK", help="a benchmark, or a task or tag of one"
    )
    parser.add_argument(
        "--judge",
        nargs="?",
        const=DEFAULT,
        metavar="NAME[:OPTIONS]",
        help="its judge too; without a name the one that each benchmark has by default",
    )
    parser.add_argument("--dry_run", "--dry-run", action="store_true", help="tell the sizes only")
    asked = parser.parse_intermixed_args(arguments)
    judge = (asked.judge or "").partition(":")[0]
    if judge not in (*judge_names(), DEFAULT) and room_of(judge):  # `--judge mmie`
        asked.benchmarks, asked.judge = [*asked.benchmarks, asked.judge], DEFAULT
    return asked
