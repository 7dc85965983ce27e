"""The command ``mmie-tasks subset``."""

from __future__ import annotations

import argparse
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.tables import table
from mmie_tasks.results.alignment import Aligned, Difference, differences, of_scored
from mmie_tasks.results.commands import open_runs
from mmie_tasks.results.subset import Fixed, Plan, Stray, Study, read_ids, study
from mmie_tasks.runs.benchmark import SCORE_KINDS, ScoreKind
from mmie_tasks.runs.log_files import Run, TaskRun

# What subsets do, in words: tables for a terminal, or JSON.

_NO_NUMBER = "n/a"
_ASKED = 1_000  # "is 1K enough?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of the runs.

    Attributes:
        name: In lmms-eval.
        title: Of the benchmark.
        reading: Whose verdicts.
        runs: Their names.
        draws: Of each size.
        unlike: What differs between the signatures of the runs.
        notes: What a reader should know of the logs.
        study: What came of it.
    """

    name: str
    title: str
    reading: ScoreKind
    runs: tuple[str, ...]
    draws: int
    unlike: tuple[Difference, ...]
    notes: tuple[str, ...]
    study: Study


def page(task: Task) -> str:
    """Everything, as text."""
    study = task.study
    blocks = [_head(task), *(_why_not(study.why_not))]
    if not study.numbers:
        return "\n\n".join(blocks)
    if study.strays:
        blocks += [_headline(task), *_groups(task), *_orders(task)]
    else:
        blocks.append(f"No subset to draw: all sizes are {study.samples:,} samples or more.")
    blocks += [_fixed(task)] if study.fixed else []
    blocks += [_sentence(task)] if study.strays else []
    return "\n\n".join([*blocks, _method(task)])


def _head(task: Task) -> str:
    study = task.study
    in_all = " in all runs" if len(task.runs) > 1 else ""
    left = f"; {study.unscored:,} without are left out" if study.unscored else ""
    first = f"{task.name}: {task.title}, {task.reading} reading, {', '.join(task.runs)}."
    lines = [f"{first} {study.samples:,} samples with points{in_all}{left}."]
    if task.unlike:
        keys = ", ".join(each.key for each in task.unlike)
        lines.append(f"WARNING: the runs were not scored alike ({keys}): their order says little.")
    return "\n".join([*lines, *task.notes])


def _why_not(reasons: Mapping[str, str]) -> list[str]:
    lines = [f"{title}: n/a, {why}" for title, why in reasons.items()]
    return ["\n".join(lines)] if lines else []


def _headline(task: Task) -> str:
    """Every number of the first kind."""
    rows = [
        [*_named(task, place, run), *_size(task, size), *_cells(strays[place][run])]
        for place in _places(task, headline=True)
        for run in range(len(task.runs))
        for size, strays in task.study.strays.items()
    ]
    header = [*_names(task), "samples", "of all", "mean deviation", "95 % within", "worst"]
    return table(header, rows, text_columns=_words(task))


def _groups(task: Task) -> list[str]:
    places = _places(task, headline=False)
    if not places:
        return []
    sizes = task.study.strays
    rows = [
        [*_named(task, place, run), *(_within(strays[place][run]) for strays in sizes.values())]
        for place in places
        for run in range(len(task.runs))
    ]
    header = [*_names(task), *(f"{size:,}" for size in sizes)]
    return ["95 % within:\n\n" + table(header, rows, text_columns=_words(task))]


def _places(task: Task, *, headline: bool) -> list[int]:
    numbers = task.study.numbers
    first = numbers[0].kind
    return [place for place, each in enumerate(numbers) if (each.kind == first) == headline]


def _names(task: Task) -> list[str]:
    return ["number", *(["run"] if len(task.runs) > 1 else []), "all"]


def _words(task: Task) -> int:
    """How many columns, from the first, are words."""
    return len(_names(task)) - 1


def _named(task: Task, place: int, run: int) -> list[str]:
    several = [task.runs[run]] if len(task.runs) > 1 else []
    return [task.study.numbers[place].title, *several, _percent(task.study.percent[place][run])]


def _percent(percent: float | None) -> str:
    return _NO_NUMBER if percent is None else f"{percent:.2f}"


def _size(task: Task, size: int) -> list[str]:
    return [f"{size:,}", f"{size / task.study.samples:.1%}"]


def _cells(stray: Stray | None) -> list[str]:
    if stray is None:
        return [_NO_NUMBER] * 3
    return [f"{stray.mean:.2f}", _within(stray), f"{stray.worst:.2f}"]


def _within(stray: Stray | None) -> str:
    return _NO_NUMBER if stray is None else f"±{stray.within:.2f}"


def _orders(task: Task) -> list[str]:
    study = task.study
    rows = [
        [f"{task.runs[each.ahead]} ahead of {task.runs[each.behind]}", f"{each.by:.2f}"]
        + [_share(each.kept.get(size)) for size in study.strays]
        for each in study.orders
    ]
    if study.ranks:
        ranks = (study.ranks.get(size) for size in study.strays)
        cells = [_NO_NUMBER if rank is None else f"{rank:.3f}" for rank in ranks]
        rows.append(["rank correlation of all runs (Spearman, mean)", "", *cells])
    if not rows:
        return []
    header = ["order kept", "by", *(f"{size:,}" for size in study.strays)]
    return [f"{study.numbers[0].title}, share of draws:\n\n{table(header, rows)}"]


def _share(value: float | None) -> str:
    return _NO_NUMBER if value is None else f"{value:.1%}"


def _fixed(task: Task) -> str:
    study = task.study
    rows = [
        [each.name, *_named(task, place, run), *_inside(task, each, place, run)]
        for each in study.fixed
        for place in range(len(study.numbers))
        for run in range(len(task.runs))
    ]
    header = ["subset", *_names(task), "samples", "in the subset", "deviation"]
    notes = [note for each in study.fixed if (note := _left(each))]
    return "\n".join(
        [table(header, rows, text_columns=1 + _words(task)), *([""] if notes else []), *notes]
    )


def _inside(task: Task, subset: Fixed, place: int, run: int) -> list[str]:
    score, whole = subset.percent[place][run], task.study.percent[place][run]
    apart = _NO_NUMBER if score is None else f"{round(score - whole, 2) + 0.0:+.2f}"  # no -0.00
    return [f"{subset.counts[place]:,}", _percent(score), apart]


def _left(each: Fixed) -> str:
    counts = [(each.unscored, "have no points in some run"), (each.unknown, "are in no run")]
    texts = [f"{count:,} {what}" for count, what in counts if count]
    return f"{each.name}: {' and '.join(texts)}." if texts else ""


def _sentence(task: Task) -> str:
    """The answer for a thousand samples, or for the size that is there and nearest to it."""
    study = task.study
    size = min(study.strays, key=lambda each: abs(each - _ASKED))
    strays = study.strays[size][0]
    if any(stray is None for stray in strays):
        return f"{study.numbers[0].title}: n/a, a subset may have no sample of a group."
    far = max(stray.within for stray in strays if stray)
    kept = [
        f"{task.runs[order.ahead]} stays ahead of {task.runs[order.behind]} in {share:.1%}"
        for order in study.orders[:3]
        if (share := order.kept.get(size)) is not None
    ]
    more = [f"and so on for {len(study.orders) - 3} more pairs"] if len(study.orders) > 3 else []
    strayed = (
        f"With {size:,} samples, {study.numbers[0].title} strays from its value for all "
        f"{study.samples:,} by at most {far:.2f} percent points in 95 % of the draws"
    )
    return textwrap.fill("; ".join([strayed, *kept, *more]) + ".", 100, break_on_hyphens=False)


def _method(task: Task) -> str:
    kind = task.study.stratify
    how = f"each {kind} by its share" if kind else "with no regard to groups"
    text = (
        f"{task.draws:,} draws of each size, without replacement, {how}. Deviations are from the "
        "run's own score over all samples, in percent points, whichever way. The noise of the "
        "judge is not in them: what another one, or the same one asked again, would say."
    )
    return textwrap.fill(text, 100, break_on_hyphens=False)


def as_json(tasks: Sequence[Task]) -> list[dict[str, object]]:
    """Everything, for machines; null where there is no number."""
    return [_as_object(task) for task in tasks]


def _as_object(task: Task) -> dict[str, object]:
    study = task.study
    places = range(len(study.numbers))
    return {
        "task": task.name,
        "reading": task.reading,
        "runs": task.runs,
        "draws": task.draws,
        "stratify": study.stratify or None,
        "samples": study.samples,
        "unscored": study.unscored,
        "unlike": [asdict(each) for each in task.unlike],
        "notes": task.notes,
        "why_not": study.why_not,
        "numbers": [
            {
                "name": study.numbers[place].name,
                "title": study.numbers[place].title,
                "kind": study.numbers[place].kind,
                "percent": study.percent[place],
                "sizes": {
                    size: [stray and asdict(stray) for stray in strays[place]]
                    for size, strays in study.strays.items()
                },
            }
            for place in places
        ],
        "orders": [asdict(each) for each in study.orders],
        "ranks": study.ranks,
        "fixed": [asdict(each) for each in study.fixed],
    }


_SIZES = (100, 200, 500, 1_000, 2_000, 5_000)
_MOST_DRAWS = 100_000


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
    name: str, runs: Sequence[Run], reading: ScoreKind, plan: Plan, ids: frozenset[str]
) -> Task:
    ours = [each.tasks[name] for each in runs]
    names = tuple(each.name for each in runs)
    aligned = Aligned(ours, names, reading)
    given = {"given ids": ids} if ids else {}
    sizes = plan.sizes or ((len(ids.intersection(aligned.ids)),) if ids else _SIZES)
    chosen = Plan(sizes=sizes, draws=plan.draws, stratify=plan.stratify)
    return Task(
        name=name,
        title=aligned.benchmark.title,
        reading=reading,
        runs=names,
        draws=plan.draws,
        unlike=_unlike(ours),
        notes=tuple(f"{run.name}: {note}" for run in runs for note in run.tasks[name].notes),
        study=study(aligned, chosen, given | dict(_published(name, ours))),
    )


def _published(name: str, ours: Sequence[TaskRun]) -> Mapping[str, frozenset[str]]:
    subsets = ours[0].benchmark.subsets
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
    parser.add_argument(
        "--reading", choices=SCORE_KINDS, default="official", help="of the verdicts"
    )
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
