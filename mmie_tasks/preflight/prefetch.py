"""The command ``mmie-tasks prefetch``."""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import yaml
from loguru import logger

from mmie_tasks.benchmarks.registry import BenchmarkEntry, entries, entry_names, entry_of_task
from mmie_tasks.core.errors import DataBroken, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.hub.asset import Item
from mmie_tasks.judges import registry
from mmie_tasks.judges.choice import JudgeChoice, choose_judge, parse_choice
from mmie_tasks.judges.registry import names as judge_names
from mmie_tasks.preflight.findings import free_bytes, gib, problem_of, standing

# Fetching one thing after the other; one that fails does not lose the others.


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


# The judges that are asked for, and what they need here.

DEFAULT = "default"
"""What ``--judge`` stands for without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was found to be fetched, and what is to be said besides."""

    items: tuple[Item, ...] = ()
    notes: tuple[str, ...] = ()


def look(
    asked: str | None, rooms: Iterable[BenchmarkEntry], environment: Mapping[str, str]
) -> Found:
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
    choices: dict[tuple[str, tuple[tuple[str, str], ...]], JudgeChoice] = {}
    notes: list[str] = []
    for room in rooms:
        judged = room.load().judge
        if judged is None:
            notes += [f"{room.name}: it has no judge."] if asked == DEFAULT else []
            continue
        choice = choose_judge(judged.default, environment, launched)
        if asked is None:
            notes += _left_out(room, choice)
        else:
            choices.setdefault((choice.name, tuple(sorted(choice.options.items()))), choice)
    if launched and not choices:
        choices["", ()] = launched
    found = [_of(choice, environment) for choice in choices.values()]
    items = tuple(item for each in found for item in each.items)
    return Found(items=items, notes=(*notes, *(note for each in found for note in each.notes)))


def _left_out(room: BenchmarkEntry, choice: JudgeChoice) -> list[str]:
    if not _has_items(choice.name):
        return []
    return [f"{room.name}: its judge `{choice.name}` is not fetched; add `--judge` for that."]


def _of(choice: JudgeChoice, environment: Mapping[str, str]) -> Found:
    if not _has_items(choice.name):
        return Found(notes=(f"judge `{choice.name}`: nothing is to be fetched for it.",))
    part = import_module(f"mmie_tasks.judges.{choice.name}.assets")
    return Found(items=tuple(part.items(choice.options, environment)))


def _has_items(name: str) -> bool:
    """Whether it is one of ours that keeps something on the machine it runs on."""
    if name not in registry.BUILT_IN:
        return False
    package = find_spec(f"mmie_tasks.judges.{name}")
    if package is None or not package.submodule_search_locations:
        return False
    return find_spec(f"mmie_tasks.judges.{name}.assets") is not None


# What can be asked for: a benchmark, a task of it, or a tag.


class _Loader(yaml.SafeLoader):
    """Reads a task file; the functions that it names are none of our business."""


_Loader.add_multi_constructor("!", lambda _loader, _suffix, _node: None)


def asked_of(words: Sequence[str]) -> Mapping[BenchmarkEntry, tuple[str, ...]]:
    """Benchmark to the tasks of it that are asked for, in the order they are named.

    Args:
        words: Benchmarks, tasks, and tags of tasks.

    Raises:
        SettingWrong: There is no word, or one names nothing; lists what there is.
    """
    if not words:
        raise SettingWrong(
            "`mmie-tasks prefetch` needs a benchmark, or a task of one.",
            hint=f"`mmie-tasks prefetch {entries()[0].name}`; there are {entry_names(entries())}",
        )
    found: dict[BenchmarkEntry, tuple[str, ...]] = {}
    for word in words:
        room, tasks = entry_of_task(word), tasks_named(word)
        if room is None or not tasks:
            raise _unknown(word, entries() if room is None else (room,))
        found[room] = tuple(dict.fromkeys((*found.get(room, ()), *tasks)))
    return found


def tasks_named(word: str) -> tuple[str, ...]:
    """The tasks that a word stands for: a benchmark or task for itself, a tag for its tasks.

    Empty where it stands for nothing.
    """
    room = entry_of_task(word)
    return () if room is None else _tasks(room).get(word, ())


def _tasks(room: BenchmarkEntry) -> Mapping[str, tuple[str, ...]]:
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


def _unknown(word: str, among: Iterable[BenchmarkEntry]) -> SettingWrong:
    known = {name.lower(): name for room in among for name in _tasks(room)}
    # Somebody may say `DocVQA` and mean `milebench_DocVQA`.
    close = [known[name] for name in sorted(known) if name.endswith(f"_{word.lower()}")]
    close += [known[name] for name in difflib.get_close_matches(word.lower(), known)]
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(close)) or entry_names(entries())
    return SettingWrong(f"There is no benchmark or task `{word}`.", hint=f"there is {listed}")


# What a machine without internet is given: folders to copy, and lines for its shell.

HUB_HOME = "HF_HOME"

# Where things are looked for depends on these; their values are not shown.
SAME_THERE = (
    *("HF_ENDPOINT", "MMIE_REVISION", "MILEBENCH_REVISION", "MIA_BENCH_REVISION"),
    *("MILEBENCH_TOKENIZER", "MILEBENCH_MAX_CONTEXT_TOKENS", "MILEBENCH_TOKENS_PER_IMAGE"),
    *("MMIE_SCORE_MODEL", "MMIE_TASKS_JUDGE"),
)


def lines(items: Iterable[Item], doctor: str, environment: Mapping[str, str]) -> str:
    """How to take everything along.

    Args:
        items: All that is here now.
        doctor: The command that looks at it there.
        environment: Of this process.
    """
    folders: dict[str, Path] = {}
    for item in items:
        folders |= item.folders
    if not folders:
        return "Nothing is to be copied for a machine without internet."
    exports = [f"export {name}={shlex.quote(str(path))}" for name, path in folders.items()]
    told = [
        "For a machine without internet: copy these folders there (or mount them), say where they",
        "are, and see whether a run can begin:",
        "",
        *(f"  {line}" for line in (*exports, "export HF_HUB_OFFLINE=1", doctor)),
    ]
    if HUB_HOME in folders:
        told += ["", f"Leave the file `token` in `{HUB_HOME}` behind: it is a key."]
    same = [f"`{name}`" for name in SAME_THERE if environment.get(name) and name not in folders]
    told += ["", f"Set there what is set here: {', '.join(same)}."] if same else []
    return "\n".join(told)


# What is told before anything is fetched: a table, the sum, and whether there is room.

HEADER = ("what", "from", "here", "into", "to fetch")

_COMMIT = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28}\b")


def text(items: Sequence[Item], notes: Iterable[str] = ()) -> str:
    """Everything, its size first; what is not known is said to be so."""
    lines = [table(HEADER, map(_row, items), text_columns=4)] if items else []
    lines += ["", _sum(items)] if items else []
    return "\n".join([*lines, *(f"Note: {note}" for note in notes)])


def _row(item: Item) -> tuple[str, ...]:
    state = "yes" if item.here else "?" if item.trouble else "no"
    source = _COMMIT.sub(r"\1", item.told.source)
    return (item.subject, source, state, str(item.room), _size(item))


def _size(item: Item) -> str:
    if item.here:
        return "-"
    size_bytes = item.told.size_bytes
    return "unknown" if size_bytes is None else gib(size_bytes)


def _sum(items: Iterable[Item]) -> str:
    wanted = [item for item in items if not item.here]
    if not wanted:
        return "Everything is here."
    known = [item.told.size_bytes for item in wanted if item.told.size_bytes is not None]
    unknown = len(wanted) - len(known)
    sizes = [gib(sum(known))] if known else []
    sizes += [f"{unknown} of unknown size"] if unknown else []
    return f"To fetch: {', and '.join(sizes)}."


def needs_bytes(items: Iterable[Item]) -> Mapping[Path, int]:
    """Folder to the room that it needs, one folder for each disk; what is unknown counts as none.

    What stays is added up. What is only there for a while is there for one item at a time.
    """
    folders: dict[int, Path] = {}
    stays: dict[Path, int] = {}
    passes: dict[Path, int] = {}

    def on(folder: Path) -> Path:
        return folders.setdefault(standing(folder).stat().st_dev, folder)

    for item in items:
        if item.here:
            continue
        room = on(item.room)
        for folder, size_bytes in item.told.stays.items():
            stays[on(folder)] = stays.get(on(folder), 0) + size_bytes
        passes[room] = max(passes.get(room, 0), item.told.passes_bytes)
    return {folder: stays.get(folder, 0) + passes.get(folder, 0) for folder in folders.values()}


def check_room(items: Iterable[Item], free: Callable[[Path], int] = free_bytes) -> str:
    """Words for what is needed and what is free.

    Args:
        items: What is to be fetched.
        free: Gives the bytes that are free for a folder.

    Raises:
        DataMissing: A disk has too little room, or a folder cannot be written.
    """
    lines = []
    for folder, needed in needs_bytes(items).items():
        _check_right(folder)
        there = free(folder)
        if needed > there:
            raise DataMissing(
                f"{gib(needed)} are needed for `{folder}`, archives while they are unpacked "
                f"included, and {gib(there)} are free.",
                hint="make room, or set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a "
                "folder on a bigger disk",
            )
        wanted = f"at most {gib(needed)} needed" if needed else "what is needed is not known"
        lines.append(f"BenchmarkEntry for `{folder}`: {gib(there)} free, {wanted}.")
    return "\n".join(lines)


def _check_right(folder: Path) -> None:
    there = standing(folder)
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        raise DataMissing(
            f"`{folder}` cannot be written.",
            hint="set `MMIE_TASKS_CACHE` (data) or `HF_HOME` (checkpoints) to a folder that can be",
        )


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
    told = f"{text(found.items, found.notes)}\n{check_room(wanted)}".strip()
    if asked.dry_run and not foreseen(wanted):
        return told
    logger.opt(raw=True).info(f"{told}\n\n")
    if failures := foreseen(wanted) if asked.dry_run else fetch_all(wanted):
        raise failed(failures, of=len(found.items))
    words = ["mmie-tasks", "doctor", "--tasks", ",".join(asked.benchmarks)]
    words += ["--judge", asked.judge] if asked.judge not in (None, DEFAULT) else []
    summary = f"Fetched: {len(wanted)}. Here before: {len(found.items) - len(wanted)}."
    return f"{summary}\n\n{lines(found.items, shlex.join(words), environment)}"


def _found(words: Sequence[str], judge: str | None, environment: Mapping[str, str]) -> Found:
    items: list[Item] = []
    notes: list[str] = []
    chosen = asked_of(words)
    for room, tasks in chosen.items():
        part = _checks(room)
        if part is None:
            notes.append(f"{room.name}: it names nothing to be fetched.")
        else:
            items += part.items(tasks, environment)
    judged = look(judge, chosen, environment)
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
    if judge not in (*judge_names(), DEFAULT) and entry_of_task(judge):  # `--judge mmie`
        asked.benchmarks, asked.judge = [*asked.benchmarks, asked.judge], DEFAULT
    return asked


def _checks(entry: BenchmarkEntry) -> ModuleType | None:
    return import_module(f"{entry.package}.checks") if entry.is_ours else None
