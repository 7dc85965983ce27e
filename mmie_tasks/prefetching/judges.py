"""The judges that are asked for, and what they need here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec

from mmie_tasks.judged import JudgedBy
from mmie_tasks.judges import registry
from mmie_tasks.judges.choosing import Choice, choose, parse_choice
from mmie_tasks.prefetching.items import Item
from mmie_tasks.rooms import Room

DEFAULT = "default"
"""What ``--judge`` stands for without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found to be fetched, and what is to be said besides."""

    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()


def look(asked: str | None, rooms: Iterable[Room], environment: Mapping[str, str]) -> Found:
    """The items of the judges that these benchmarks would have.

    Args:
        asked: What ``--judge`` says: a judge, or `DEFAULT` for each benchmark's own; None where no
            judge is wanted.
        rooms: The benchmarks.
        environment: ``MMIE_TASKS_JUDGE`` and what else chooses a judge, and what judges read.

    Raises:
        SettingWrong: No such judge, or no such option of it.
    """
    launched = None
    if asked not in (None, DEFAULT):
        launched = parse_choice(asked, "`--judge`")
        registry.check_options(launched.name, launched.options)
    choices: dict[tuple[str, tuple[tuple[str, str], ...]], Choice] = {}
    notes: list[str] = []
    for room in rooms:
        judged = getattr(room.part("task"), "JUDGED", None)
        if not isinstance(judged, JudgedBy):
            notes += [f"{room.name}: it has no judge."] if asked == DEFAULT else []
            continue
        choice = choose(judged.default, environment, launched)
        if asked is None:
            notes += _left_out(room, choice)
        else:
            choices.setdefault((choice.name, tuple(sorted(choice.options.items()))), choice)
    if launched and not choices:
        choices["", ()] = launched
    found = [_of(choice, environment) for choice in choices.values()]
    items = tuple(item for each in found for item in each.items)
    return Found(items=items, notes=(*notes, *(note for each in found for note in each.notes)))


def _left_out(room: Room, choice: Choice) -> list[str]:
    if not _has_items(choice.name):
        return []
    return [f"{room.name}: its judge `{choice.name}` is not fetched; add `--judge` for that."]


def _of(choice: Choice, environment: Mapping[str, str]) -> Found:
    if not _has_items(choice.name):
        return Found(notes=(f"judge `{choice.name}`: nothing is to be fetched for it.",))
    part = import_module(f"mmie_tasks.judges.{choice.name}.prefetch")
    return Found(items=tuple(part.items(choice.options, environment)))


def _has_items(name: str) -> bool:
    """Whether it is one of ours that keeps something on the machine it runs on."""
    if name not in registry.BUILT_IN:
        return False
    package = find_spec(f"mmie_tasks.judges.{name}")
    if package is None or not package.submodule_search_locations:
        return False
    return find_spec(f"mmie_tasks.judges.{name}.prefetch") is not None
