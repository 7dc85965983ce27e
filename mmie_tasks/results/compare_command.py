"""The command ``mmie-tasks compare``."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.core.verdict import COVERAGE_FLOOR
from mmie_tasks.results.alignment import Difference, listed, of_scored, refuse_unless_alike
from mmie_tasks.results.commands import open_run
from mmie_tasks.results.compare import (
    EXACT,
    Apart,
    Compared,
    Comparison,
    Correction,
    Resampling,
    compare,
)
from mmie_tasks.runs.benchmark import SCORE_KINDS, ScoreKind
from mmie_tasks.runs.log_files import Run, TaskRun

# A comparison in words: tables for a terminal, or JSON.

_NO_NUMBER = "n/a"
_WIDTH = 100
_RARE = 0.05
_LEVEL = 0.005  # percent points: prints as 0.00
_CORRECTIONS: Mapping[Correction, str] = {"holm": "Holm", "bh": "Benjamini-Hochberg", "none": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How runs are compared, as the command line has it."""

    reading: ScoreKind
    resamples: int
    correction: Correction
    top: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task that both runs have.

    Attributes:
        a: Of the run that differences are counted from.
        b: Of the other.
        ignored: What differs between their signatures, and was to be ignored.
        comparison: What came of it.
    """

    a: TaskRun
    b: TaskRun
    ignored: tuple[Difference, ...]
    comparison: Comparison


def page(a: Run, b: Run, tasks: Sequence[Task], settings: Settings) -> str:
    """Everything, as text."""
    runs = [f"A: {a.name} ({a.folder}, {a.date})", f"B: {b.name} ({b.folder}, {b.date})"]
    notes = [f"{label}: {note}" for label, run in (("A", a), ("B", b)) for note in run.notes]
    blocks = ["\n".join([*runs, *notes])]
    if ignored := [task for task in tasks if task.ignored]:
        blocks[:0] = [_warning(task) for task in ignored]
    for task in tasks:
        blocks += _blocks(task, settings)
    return "\n\n".join([*blocks, _method(settings)])


def _warning(task: Task) -> str:
    return (
        f"WARNING: `{task.a.task}` was not scored alike in A and B; told to ignore that. The "
        f"difference may be the judge's, and not the models'.\n\n{listed(task.ignored)}"
    )


def _blocks(task: Task, settings: Settings) -> list[str]:
    found = task.comparison
    counts = [f"{found.pairs:,} pairs", *(f"{n:,} {why}" for why, n in found.left_over.items())]
    head = (
        f"{task.a.task}: {task.a.benchmark.title}, {settings.reading} reading. {'; '.join(counts)}."
    )
    notes = [f"A: {note}" for note in task.a.notes] + [f"B: {note}" for note in task.b.notes]
    blocks = ["\n".join([head, *notes])]
    with_alone = any(_alone_differs(each) for each in found.compared)
    for kind, members in groupby(found.compared, key=lambda each: each.number.kind):
        blocks.append(_numbers(kind, list(members), settings.correction, with_alone=with_alone))
    if headline := _sentence(found.compared, settings.correction):
        blocks.append(headline)
    if found.apart:
        blocks.append(_apart(found.apart, task.a.benchmark.scale.unit))
    return blocks


def _alone_differs(each: Compared) -> bool:
    alone = (each.a_alone, each.b_alone)
    return [_percent(x) for x in (each.a, each.b)] != [_percent(x) for x in alone]


def _numbers(
    kind: str, members: Sequence[Compared], correction: Correction, *, with_alone: bool
) -> str:
    header = [kind, "A", "B", "B - A", "95 % interval", "p"]
    header += [f"p ({_CORRECTIONS[correction]})"] if correction != "none" else []
    header += ["wins", "ties", "losses", "pairs"]
    header += ["A alone", "B alone"] if with_alone else []
    rows = []
    for each in members:
        row = [each.number.title, _percent(each.a), _percent(each.b), _signed(each.difference)]
        row += [_interval(each), _p(each.p)]
        row += [_p(each.p_corrected)] if correction != "none" else []
        counts = (each.wins, each.ties, each.losses)
        row += [f"{n:,}" if each.p is not None else _NO_NUMBER for n in counts]
        row += [f"{each.pairs:,}"]
        row += [_percent(each.a_alone), _percent(each.b_alone)] if with_alone else []
        rows.append(row)
    reasons = [f"{each.number.title}: n/a, {each.why_not}" for each in members if each.why_not]
    return "\n".join([table(header, rows), *([""] if reasons else []), *reasons])


def _sentence(compared: Sequence[Compared], correction: Correction) -> str:
    """The first number in words; empty where there is none."""
    first = compared[0] if compared else None
    if first is None or first.difference is None or first.p_corrected is None:
        return ""
    if abs(first.difference) < _LEVEL:
        return f"{first.number.title}: A and B are level."
    ahead, behind = ("B", "A") if first.difference > 0 else ("A", "B")
    within = f"; 95 % interval of B - A: {_interval(first)}" if first.interval else ""
    name = f"p ({_CORRECTIONS[correction]})" if correction != "none" else "p"
    chance = "" if first.p_corrected < _RARE else " That may well be chance."
    text = (
        f"{first.number.title}: {ahead} is ahead of {behind} by {abs(first.difference):.2f} "
        f"percent points ({name} {_p(first.p_corrected)}{within}).{chance}"
    )
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def _apart(apart: Sequence[Apart], unit: str) -> str:
    rows = [[each.id, f"{each.a:g}", f"{each.b:g}", f"{each.b - each.a:+g}"] for each in apart]
    return f"Samples on which they differ most ({unit}):\n\n" + table(
        ["sample", "A", "B", "B - A"], rows
    )


def _percent(value: float | None) -> str:
    return _NO_NUMBER if value is None else f"{value:.2f}"


def _signed(value: float | None) -> str:
    return _NO_NUMBER if value is None else f"{round(value, 2) + 0.0:+.2f}"  # no -0.00


def _interval(each: Compared) -> str:
    return " to ".join(map(_signed, each.interval)) if each.interval else _NO_NUMBER


def _p(value: float | None) -> str:
    if value is None:
        return _NO_NUMBER
    return f"{value:.4f}" if value >= 0.0001 else "<0.0001"


def _method(settings: Settings) -> str:
    correction = _CORRECTIONS[settings.correction]
    families = f", {correction}-corrected among the numbers of one table" if correction else ""
    draws = f"{settings.resamples:,}"
    text = (
        "A and B: percent of full marks over the pairs, the samples that both have points for. "
        "B - A: percent points, before the two are rounded. 95 % interval: percentile bootstrap of "
        f"the pairs, within the groups that are averaged ({draws} resamples). p: two-sided paired "
        f"permutation test, signs of the differences at random ({draws} draws; every way where "
        f"{EXACT} pairs or fewer differ){families}. Wins: pairs with more points in B. No number "
        f"where either run has points for less than {COVERAGE_FLOOR:.0%} of the samples."
    )
    return textwrap.fill(text, _WIDTH, break_on_hyphens=False)


def as_json(a: Run, b: Run, tasks: Sequence[Task], settings: Settings) -> dict[str, object]:
    """Everything, for machines; null where there is no number, and ``why_not``."""
    runs = {
        label: {"name": run.name, "folder": str(run.folder), "date": run.date, "notes": run.notes}
        for label, run in (("a", a), ("b", b))
    }
    return {**runs, **asdict(settings), "tasks": [_task(task) for task in tasks]}


def _task(task: Task) -> dict[str, object]:
    found = task.comparison
    return {
        "task": task.a.task,
        "signatures": {"a": task.a.signatures, "b": task.b.signatures},
        "ignored": [asdict(each) for each in task.ignored],
        "notes": {"a": task.a.notes, "b": task.b.notes},
        "pairs": found.pairs,
        "left_over": found.left_over,
        "numbers": [_as_row(each) for each in found.compared],
        "apart": [asdict(each) for each in found.apart],
    }


def _as_row(each: Compared) -> dict[str, object]:
    of = {"name": each.number.name, "title": each.number.title, "kind": each.number.kind}
    return of | {one.name: getattr(each, one.name) for one in fields(each) if one.name != "number"}


_MOST = 1_000_000


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - as all
    """Compare two runs.

    Args:
        arguments: What stands behind ``compare``.
        environment: Not read.

    Returns:
        What is to be printed.

    Raises:
        AnswersUnusable: A run cannot be read, or they have no task in common.
        SettingWrong: An option cannot be obeyed, or the runs were not scored alike.
    """
    asked = _parser().parse_args(arguments)
    if not 1 <= asked.resamples <= _MOST:
        hint = f"from 1 to {_MOST:,}; 10,000 is usual"
        raise SettingWrong(f"`--resamples` is {asked.resamples}.", hint=hint)
    if asked.top < 0:
        raise SettingWrong(f"`--top` is {asked.top}.", hint="0 names no sample")
    settings = Settings(
        reading=asked.reading,
        resamples=asked.resamples,
        correction=asked.correction,
        top=asked.top,
    )
    tasks = [asked.task] if asked.task else []
    a, b = open_run(asked.a, tasks), open_run(asked.b, tasks)
    ignored = frozenset(key.strip() for key in asked.ignore.split(",") if key.strip())
    compared = _compared(a, b, settings, ignored)
    if asked.json:
        return json.dumps(as_json(a, b, compared, settings), indent=1, ensure_ascii=False)
    return page(a, b, compared, settings)


def _compared(a: Run, b: Run, settings: Settings, ignored: frozenset[str]) -> list[Task]:
    common = [task for task in a.tasks if task in b.tasks]
    if not common:
        there = [f"{label} has {', '.join(run.tasks)}" for label, run in (("A", a), ("B", b))]
        raise AnswersUnusable(
            f"A and B have no task in common: {'; '.join(there)}.",
            hint="run the same task with both models",
        )
    differing = {
        task: refuse_unless_alike(of_scored(a.tasks[task]), of_scored(b.tasks[task]), ignored, task)
        for task in common
    }
    done = []
    for task, differences in differing.items():
        ours, theirs = a.tasks[task], b.tasks[task]
        resampling = Resampling(settings.resamples)
        found = compare(
            ours, theirs, settings.reading, resampling, settings.correction, settings.top
        )
        done.append(Task(a=ours, b=theirs, ignored=differences, comparison=found))
    return done


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks compare",
        description="Compare two tested models over the same samples: paired differences, their "
        "intervals, and whether they could be chance. Runs that were not scored alike (another "
        "judge, prompt, task version or data) are refused.",
    )
    for name in ("a", "b"):
        parser.add_argument(
            name,
            metavar=name.upper(),
            help="a run with `--log_samples`: the folder of `--output_path`, or NAME=FOLDER",
        )
    parser.add_argument("--task", default="", help="only this one; default: all that both have")
    parser.add_argument(
        "--reading", choices=SCORE_KINDS, default="official", help="of the verdicts"
    )
    parser.add_argument("--resamples", type=int, default=10_000, help="of intervals and tests")
    parser.add_argument(
        "--correction",
        choices=("holm", "bh", "none"),
        default="holm",
        help="for looking at many numbers of one kind: Holm, or Benjamini-Hochberg",
    )
    parser.add_argument("--top", type=int, default=10, help="samples to name that differ most")
    parser.add_argument(
        "--ignore",
        default="",
        metavar="KEY,...",
        help="parts of the signatures that may differ, as the refusal names them",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
