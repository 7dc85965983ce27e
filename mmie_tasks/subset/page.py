"""What subsets do, in words: tables for a terminal, or JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from mmie_tasks.comparison.signatures import Difference
from mmie_tasks.review import ReadingName
from mmie_tasks.subset.findings import Fixed, Stray, Study
from mmie_tasks.tables import table

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
    reading: ReadingName
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
    return table(header, rows, words=_words(task))


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
    return ["95 % within:\n\n" + table(header, rows, words=_words(task))]


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
        [table(header, rows, words=1 + _words(task)), *([""] if notes else []), *notes]
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
