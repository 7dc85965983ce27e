"""What can be asked for: a benchmark, a task of it, or a tag."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

import yaml

from mmie_tasks.errors import DataBroken, SettingWrong
from mmie_tasks.rooms import Room, names_of, room_of, rooms


class _Loader(yaml.SafeLoader):
    """Reads a task file; the functions that it names are none of our business."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)


def asked_of(words: Sequence[str]) -> Mapping[Room, tuple[str, ...]]:
    """Benchmark to the tasks of it that are asked for, in the order they are named.

    Args:
        words: Benchmarks, tasks, and tags of tasks.

    Raises:
        SettingWrong: There is no word, or one names nothing; lists what there is.
    """
    if not words:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs a benchmark, or a task of one.",
            hint=f"`mmie-tasks prefetch {rooms()[0].name}`; there are {names_of(rooms())}",
        )
    found: dict[Room, tuple[str, ...]] = {}
    for word in words:
        room, tasks = room_of(word), tasks_named(word)
        if room is None or not tasks:
            raise _unknown(word, rooms() if room is None else (room,))
        found[room] = tuple(dict.fromkeys((*found.get(room, ()), *tasks)))
    return found


def tasks_named(word: str) -> tuple[str, ...]:
    """The tasks that a word stands for: a benchmark or task for itself, a tag for its tasks.

    Empty where it stands for nothing.
    """
    room = room_of(word)
    return () if room is None else _tasks(room).get(word, ())


def _tasks(room: Room) -> Mapping[str, tuple[str, ...]]:
    """Every word of a benchmark, to its tasks: itself, its tasks, its tags."""
    words: dict[str, tuple[str, ...]] = {room.name: (room.name,)}
    for path in sorted(room.task_dir().glob("*.yaml")):
        try:
            content = yaml.load(path.read_text(encoding="utf-8"), _Loader)  # noqa: S506 - safe
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            first = str(error).partition("\n")[0]
            hint = "install the package that it is in again"
            raise DataBroken(f"`{path}` is no task file: {first}.", hint=hint) from error
        fields = content if isinstance(content, dict) else {}
        task = fields.get("task")
        if isinstance(task, str):
            words[task] = (task,)
            for tag in _texts(fields.get("tag")):
                words[tag] = (*words.get(tag, ()), task)
    return words


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _unknown(word: str, among: Iterable[Room]) -> SettingWrong:
    known = {name.lower(): name for room in among for name in _tasks(room)}
    # Somebody may say `DocVQA` and mean `milebench_DocVQA`.
    close = [known[name] for name in sorted(known) if name.endswith(f"_{word.lower()}")]
    close += [known[name] for name in difflib.get_close_matches(word.lower(), known)]
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(close)) or names_of(rooms())
    return SettingWrong(f"There is no benchmark or task `{word}`.", hint=f"there is {listed}")
