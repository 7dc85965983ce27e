"""The command ``mmie-tasks subset``."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from mmie_tasks.comparison.aligned import Aligned
from mmie_tasks.comparison.signatures import Difference, differences, of_scored
from mmie_tasks.errors import AnswersUnusable, SettingWrong
from mmie_tasks.review import READINGS, ReadingName, Reviewed
from mmie_tasks.runs.opening import open_runs
from mmie_tasks.runs.run import Run, TaskRun
from mmie_tasks.subset.ids import read_ids
from mmie_tasks.subset.page import Task, as_json, page
from mmie_tasks.subset.straying import Plan, study

_SIZES = (100, 200, 500, 1_000, 2_000, 5_000)
_MOST_DRAWS = 100_000

Subsets: TypeAlias = Callable[[str, Sequence[Reviewed]], Mapping[str, frozenset[str]]]
"""What a room's review may have as ``subsets``: of a task and its samples, the subsets that the
benchmark itself knows, name to ids."""


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - as all
    """Look at subsets of runs.

    Args:
        arguments: What stands behind ``subset``.
        environment: Not read.

    Returns:
        What is to be printed.

    Raises:
        AnswersUnusable: A run or the file of ids cannot be read, or nothing is in common.
        SettingWrong: An option cannot be obeyed.
    """
    asked = _parser().parse_args(arguments)
    if not 1 <= asked.draws <= _MOST_DRAWS:
        hint = f"from 1 to {_MOST_DRAWS:,}; 2,000 is usual"
        raise SettingWrong(f"`--draws` is {asked.draws}.", hint=hint)
    sizes = _sizes(asked.sizes) if asked.sizes else ()
    ids = read_ids(Path(asked.ids).expanduser()) if asked.ids else frozenset()
    runs = open_runs(asked.runs, [asked.task] if asked.task else [])
    common = [task for task in runs[0].tasks if all(task in each.tasks for each in runs)]
    if not common:
        there = "; ".join(f"{each.name} has {', '.join(each.tasks)}" for each in runs)
        hint = "run the same task with all models, or look at one run at a time"
        raise AnswersUnusable(f"The runs have no task in common: {there}.", hint=hint)
    plan = Plan(sizes=sizes, draws=asked.draws, stratify=asked.stratify)
    tasks = [_task(name, runs, asked.reading, plan, ids) for name in common]
    if ids and all(each.samples + each.unscored == 0 for t in tasks for each in t.study.fixed[:1]):
        hint = "ids look like those in the log, under `coverage`"
        raise AnswersUnusable(f"None of the {len(ids):,} ids is in a run.", hint=hint)
    if asked.json:
        return json.dumps(as_json(tasks), indent=1, ensure_ascii=False)
    notes = [f"{each.name}: {note}" for each in runs for note in each.notes]
    return "\n\n".join([*(["\n".join(notes)] if notes else []), *map(page, tasks)])


def _task(
    name: str, runs: Sequence[Run], reading: ReadingName, plan: Plan, ids: frozenset[str]
) -> Task:
    ours = [each.tasks[name] for each in runs]
    names = tuple(each.name for each in runs)
    aligned = Aligned(ours, names, reading)
    given = {"given ids": ids} if ids else {}
    sizes = plan.sizes or ((len(ids.intersection(aligned.ids)),) if ids else _SIZES)
    chosen = Plan(sizes=sizes, draws=plan.draws, stratify=plan.stratify)
    return Task(
        name=name,
        title=aligned.review.title,
        reading=reading,
        runs=names,
        draws=plan.draws,
        unlike=_unlike(ours),
        notes=tuple(f"{run.name}: {note}" for run in runs for note in run.tasks[name].notes),
        study=study(aligned, chosen, given | dict(_published(name, ours))),
    )


def _published(name: str, ours: Sequence[TaskRun]) -> Mapping[str, frozenset[str]]:
    subsets: Subsets | None = getattr(ours[0].review, "subsets", None)
    return {} if subsets is None else subsets(name, ours[0].samples)


def _unlike(ours: Sequence[TaskRun]) -> tuple[Difference, ...]:
    first, *others = map(of_scored, ours)
    found = {each.key: each for other in others for each in differences(first, other)}
    return tuple(found.values())


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = {int(word.replace("_", "")) for word in text.split(",") if word.strip()}
    except ValueError as error:
        raise SettingWrong(f"`--sizes` is {text!r}.", hint="for example `100,1000`") from error
    if not sizes or min(sizes) < 1:
        raise SettingWrong(f"`--sizes` is {text!r}.", hint="whole numbers from 1, with commas")
    return tuple(sorted(sizes))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mmie-tasks subset",
        description="Is a subset enough? How far the scores of subsets stray from the score of all "
        "samples, and how often they keep the order of the runs.",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="RUN",
        help="runs with `--log_samples`: the folder of `--output_path`, or NAME=FOLDER",
    )
    parser.add_argument("--task", default="", help="only this one; default: all that all runs have")
    parser.add_argument("--reading", choices=READINGS, default="official", help="of the verdicts")
    usual = ",".join(map(str, _SIZES))
    parser.add_argument("--sizes", default="", metavar="N,...", help=f"of subsets; {usual}")
    parser.add_argument("--draws", type=int, default=2_000, help="of each size")
    parser.add_argument("--ids", default="", metavar="FILE", help="look at this subset: its ids")
    parser.add_argument(
        "--stratify",
        default="",
        metavar="KIND",
        help="a kind of group whose shares subsets keep, or `none`; by default the categories",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser
