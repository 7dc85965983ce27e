"""The command ``mmie-tasks subset``: how far scores of subsets deviate from the full score."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np

from mmie_tasks.core.bootstrap import Floats, GroupMean, Integers, full_means, subset_means
from mmie_tasks.core.errors import AnswersUnusable, SettingWrong
from mmie_tasks.core.tables import NO_VALUE, percent_cell, signed_cell, table, wrapped
from mmie_tasks.results.alignment import (
    PLAIN_MEAN,
    AlignedRuns,
    SignatureDifference,
    scored_signatures,
    signature_differences,
)
from mmie_tasks.results.commands import common_tasks, listed_names, open_runs, read_ids, require_range, result_parser
from mmie_tasks.runs.benchmark import Metric

_SIZES = (100, 200, 500, 1_000, 2_000, 5_000)
_MAX_DRAWS = 100_000
_SENTENCE_SIZE = 1_000  # "is 1K enough?"
_QUANTILE = 0.95
_EQUAL = 1e-9  # scores this close are equal


@dataclass(frozen=True, slots=True, kw_only=True)
class _Deviation:
    """Absolute deviations of one metric of one run over all draws, in percent points; 95 % are not above `within`."""

    mean: float
    within: float
    worst: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunOrder:
    """Two runs by index, `by` percent points apart in their first metric; `kept`: size to the share of such draws."""

    ahead: int
    behind: int
    by: float
    kept: Mapping[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _FixedSubset:
    """A subset with fixed ids: samples with points in all runs; for each metric their number and each run's score."""

    name: str
    samples: int
    unscored: int
    unknown: int
    counts: tuple[int, ...]
    percent: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _SubsetStudy:
    """One task of one or more runs. Percentages and deviations are by metric, headline first, then by run.

    Subsets are drawn from the samples that have points in all runs, in proportion to the groups of the kind `stratify`.
    A deviation is None where a subset may lack a group that is averaged.
    """

    runs: AlignedRuns
    draws: int
    unlike: tuple[SignatureDifference, ...]
    metrics: tuple[Metric, ...]
    why_not: Mapping[str, str]
    samples: int
    unscored: int
    stratify: str
    percent: tuple[tuple[float, ...], ...]
    deviations: Mapping[int, tuple[tuple[_Deviation | None, ...], ...]]
    orders: tuple[_RunOrder, ...]
    fixed: tuple[_FixedSubset, ...]


def study(runs: AlignedRuns, fixed: Mapping[str, Collection[str]], *, sizes: Sequence[int], draws: int) -> _SubsetStudy:
    """Compute the scores of random subsets, and of fixed ones.

    Args:
        runs: One or more.
        fixed: Name to the ids of a subset.
        sizes: Of random subsets; sizes of all samples or more are left out.
        draws: Of each size.
    """
    kind = runs.benchmark.strata or next(iter(runs.kinds), "")
    metrics, why_not = _studied_metrics(runs, kind)
    points = np.stack([run.points for run in runs.run_points(PLAIN_MEAN)])
    population = np.flatnonzero(np.isfinite(points).all(axis=0))
    points = points[:, population]
    strata = np.zeros(len(runs.ids), dtype=np.int64)
    for stratum, indices in enumerate(runs.groups(kind).values() if kind else ()):
        strata[indices] = stratum
    means = []
    for metric in metrics:
        groups, strata_of = np.full(len(runs.ids), -1, dtype=np.int64), runs.strata(metric)
        for group, name in enumerate(metric.weights):
            groups[strata_of[name]] = group
        weights = np.array(list(metric.weights.values()))
        means.append(GroupMean(groups=groups[population], weights=weights))
    percent = 100 / runs.benchmark.scale.full_marks
    drawn = {
        size: subset_means(points, strata[population], means, size, draws)
        for size in sizes
        if metrics and size < len(population)
    }
    full = full_means(points, means) if metrics else np.empty((0, len(points)))
    first, *rest = map(scored_signatures, runs.task_runs)
    return _SubsetStudy(
        runs=runs,
        draws=draws,
        unlike=tuple({d.key: d for s in rest for d in signature_differences(first, s)}.values()),
        metrics=tuple(metrics),
        why_not=why_not,
        samples=len(population),
        unscored=len(runs.ids) - len(population),
        stratify=kind,
        percent=tuple(tuple(runs.benchmark.scale.percent(float(mean)) for mean in row) for row in full),
        deviations={size: _deviations(scores, full, percent) for size, scores in drawn.items()},
        orders=_orders(full * percent, {size: scores * percent for size, scores in drawn.items()}),
        fixed=tuple(_fixed_subset(runs, points, means, population, name, set(ids)) for name, ids in fixed.items()),
    )


def _studied_metrics(runs: AlignedRuns, kind: str) -> tuple[list[Metric], dict[str, str]]:
    """The headline and the metrics of a kind; those without a value, to the reason."""
    headline = runs.metrics[0].kind
    studied, why_not = [], {}
    for metric in runs.metrics:
        if metric.kind not in (headline, kind) or metric.part:
            continue
        shared = runs.shared(metric)
        if shared is not None and shared.why_not:
            why_not[metric.title] = shared.why_not
        elif shared is not None:
            studied.append(metric)
    return studied, why_not


def _deviations(scores: Floats, full: Floats, percent: float) -> tuple[tuple[_Deviation | None, ...], ...]:
    """For each metric and run; none where a draw has no value."""
    distances = np.abs(scores - full[:, :, None]) * percent
    return tuple(
        tuple(
            _Deviation(mean=float(run.mean()), within=float(np.quantile(run, _QUANTILE)), worst=float(run.max()))
            if np.isfinite(run).all()
            else None
            for run in metric
        )
        for metric in distances
    )


def _orders(full: Floats, draws: Mapping[int, Floats]) -> tuple[_RunOrder, ...]:
    orders = []
    for run, second_run in combinations(range(full.shape[1]), 2) if len(full) else ():
        lead = float(full[0, run] - full[0, second_run])
        if abs(lead) < _EQUAL:
            continue
        ahead, behind = (run, second_run) if lead > 0 else (second_run, run)
        shares = {
            size: float((scores[0, ahead] > scores[0, behind]).mean())
            for size, scores in draws.items()
            if np.isfinite(scores[0]).all()
        }
        orders.append(_RunOrder(ahead=ahead, behind=behind, by=abs(lead), kept=shares))
    return tuple(orders)


def _fixed_subset(
    runs: AlignedRuns, points: Floats, means: Sequence[GroupMean], population: Integers, name: str, ids: set[str]
) -> _FixedSubset:
    inside = np.array([id_ in ids for id_ in runs.ids], dtype=np.bool_)
    scored = inside[population]
    inside_means = [GroupMean(groups=m.groups[scored], weights=m.weights) for m in means]
    scores = full_means(points[:, scored], inside_means)
    percent = runs.benchmark.scale.percent
    return _FixedSubset(
        name=name,
        samples=int(scored.sum()),
        unscored=int(inside.sum() - scored.sum()),
        unknown=len(ids) - int(inside.sum()),
        counts=tuple(int((mean.groups >= 0).sum()) for mean in inside_means),
        percent=tuple(tuple(percent(float(mean)) if np.isfinite(mean) else None for mean in row) for row in scores),
    )


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:  # noqa: ARG001 - all commands take it
    """Study subsets of runs; returns tables, or JSON.

    Raises:
        AnswersUnusable: A run or the file of ids cannot be read, or they have nothing in common.
        SettingWrong: An option is out of range or names nothing.
    """
    parser = result_parser(
        "subset",
        "Is a subset enough? How far the scores of subsets deviate from the score of all samples, "
        "and how often they keep the order of the runs.",
    )
    parser.add_argument("--sizes", default="", metavar="N,...", help=f"default: {','.join(map(str, _SIZES))}")
    parser.add_argument("--draws", type=int, default=2_000, metavar="N", help="of each size; default: %(default)s")
    parser.add_argument("--ids", default="", metavar="FILE", help="score this subset: its ids; default: none")
    parsed = parser.parse_args(arguments)
    require_range("--draws", parsed.draws, 1, _MAX_DRAWS, f"from 1 to {_MAX_DRAWS:,}; 2,000 is usual")
    sizes = _sizes(parsed.sizes) if parsed.sizes else ()
    ids = read_ids(Path(parsed.ids).expanduser()) if parsed.ids else frozenset()
    runs = open_runs(parsed.runs, listed_names(parsed.tasks))
    studies = []
    for task in common_tasks({run.name: run for run in runs}):
        aligned = AlignedRuns([run.tasks[task] for run in runs], [run.name for run in runs], parsed.score_kind)
        fixed: dict[str, Collection[str]] = {"given ids": ids} if ids else {}
        if published := aligned.benchmark.subsets:
            fixed |= published(task, aligned.task_runs[0].samples)
        task_sizes = sizes or ((len(ids.intersection(aligned.ids)),) if ids else _SIZES)
        studies.append(study(aligned, fixed, sizes=task_sizes, draws=parsed.draws))
    if ids and not any(f.samples + f.unscored for s in studies for f in s.fixed[:1]):
        message = f"None of the {len(ids):,} ids is in a run."
        raise AnswersUnusable(message, hint="ids look like those in the log, under `coverage`")
    if parsed.json:
        return json.dumps([_as_json(s) for s in studies], indent=1, ensure_ascii=False)
    notes = "\n".join(f"{run.name}: {note}" for run in runs for note in run.notes)
    return "\n\n".join([*([notes] if notes else []), *map(_as_text, studies)])


def _sizes(text: str) -> tuple[int, ...]:
    try:
        sizes = {int(size.replace("_", "")) for size in text.split(",") if size.strip()}
    except ValueError:
        sizes = set()
    if not sizes or min(sizes) < 1:
        raise SettingWrong(f"`--sizes` is {text!r}.", hint="whole numbers from 1, with commas: `100,1000`")
    return tuple(sorted(sizes))


def _as_json(study: _SubsetStudy) -> dict[str, object]:
    return {
        "task": study.runs.task_runs[0].task,
        "reading": study.runs.score_kind,
        "runs": study.runs.labels,
        "draws": study.draws,
        "stratify": study.stratify or None,
        "samples": study.samples,
        "unscored": study.unscored,
        "unlike": list(map(asdict, study.unlike)),
        "notes": study.runs.notes,
        "why_not": study.why_not,
        "numbers": [
            {
                "name": metric.name,
                "title": metric.title,
                "kind": metric.kind,
                "percent": study.percent[index],
                "sizes": {
                    size: [deviation and asdict(deviation) for deviation in deviations[index]]
                    for size, deviations in study.deviations.items()
                },
            }
            for index, metric in enumerate(study.metrics)
        ],
        "orders": list(map(asdict, study.orders)),
        "fixed": list(map(asdict, study.fixed)),
    }


def _as_text(study: _SubsetStudy) -> str:
    blocks = [_head(study)]
    if study.why_not:
        blocks.append("\n".join(f"{title}: n/a, {why}" for title, why in study.why_not.items()))
    if not study.metrics:
        return "\n\n".join(blocks)
    if study.deviations:
        blocks += [*_deviation_tables(study), *_order_table(study)]
    else:
        blocks.append(f"No subset to draw: all sizes are {study.samples:,} samples or more.")
    blocks += [_fixed_table(study)] if study.fixed else []
    blocks += [_sentence(study)] if study.deviations else []
    return "\n\n".join([*blocks, _method(study)])


def _head(study: _SubsetStudy) -> str:
    runs = study.runs
    in_all = " in all runs" if len(runs.labels) > 1 else ""
    unscored = f"; {study.unscored:,} without are left out" if study.unscored else ""
    task = f"{runs.task_runs[0].task}: {runs.benchmark.title}, {runs.score_kind} score"
    lines = [f"{task}, {', '.join(runs.labels)}. {study.samples:,} samples with points{in_all}{unscored}."]
    if study.unlike:
        keys = ", ".join(difference.key for difference in study.unlike)
        lines.append(f"WARNING: the runs were not scored alike ({keys}): their order says little.")
    return "\n".join([*lines, *runs.notes])


def _deviation_tables(study: _SubsetStudy) -> list[str]:
    """The metrics of the first kind with all figures; those of the other kind with one for each size."""
    names = _name_header(study)
    headlines, others = [], []
    for (index, metric), run in product(enumerate(study.metrics), range(len(study.runs.labels))):
        name_cells = _name_cells(study, index, run)
        if metric.kind != study.metrics[0].kind:
            others.append([*name_cells, *(_within(d[index][run]) for d in study.deviations.values())])
            continue
        for size, deviations in study.deviations.items():
            cells = [f"{size:,}", f"{size / study.samples:.1%}", *[NO_VALUE] * 3]
            if deviation := deviations[index][run]:
                cells[2:] = f"{deviation.mean:.2f}", _within(deviation), f"{deviation.worst:.2f}"
            headlines.append([*name_cells, *cells])
    header = [*names, "samples", "of all", "mean deviation", "95 % within", "worst"]
    tables = [table(header, headlines, text_columns=len(names) - 1)]
    if others:
        header = [*names, *(f"{size:,}" for size in study.deviations)]
        tables.append(f"95 % within:\n\n{table(header, others, text_columns=len(names) - 1)}")
    return tables


def _name_header(study: _SubsetStudy) -> list[str]:
    return ["metric", *(["run"] if len(study.runs.labels) > 1 else []), "all"]


def _name_cells(study: _SubsetStudy, metric: int, run: int) -> list[str]:
    run_name = [study.runs.labels[run]] if len(study.runs.labels) > 1 else []
    return [study.metrics[metric].title, *run_name, percent_cell(study.percent[metric][run])]


def _within(deviation: _Deviation | None) -> str:
    return NO_VALUE if deviation is None else f"±{deviation.within:.2f}"


def _order_table(study: _SubsetStudy) -> list[str]:
    runs, rows = study.runs.labels, []
    for order in study.orders:
        shares = (order.kept.get(size) for size in study.deviations)
        cells = [NO_VALUE if share is None else f"{share:.1%}" for share in shares]
        rows.append([f"{runs[order.ahead]} ahead of {runs[order.behind]}", f"{order.by:.2f}", *cells])
    if not rows:
        return []
    header = ["order kept", "by", *(f"{size:,}" for size in study.deviations)]
    return [f"{study.metrics[0].title}, share of draws:\n\n{table(header, rows)}"]


def _fixed_table(study: _SubsetStudy) -> str:
    rows, notes = [], []
    for subset in study.fixed:
        for metric, count in enumerate(subset.counts):
            for run, full in enumerate(study.percent[metric]):
                score = subset.percent[metric][run]
                cells = [f"{count:,}", percent_cell(score), signed_cell(None if score is None else score - full)]
                rows.append([subset.name, *_name_cells(study, metric, run), *cells])
        reasons = {"have no points in some run": subset.unscored, "are in no run": subset.unknown}
        if parts := [f"{count:,} {reason}" for reason, count in reasons.items() if count]:
            notes.append(f"{subset.name}: {' and '.join(parts)}.")
    header = ["subset", *_name_header(study), "samples", "in the subset", "deviation"]
    return table(header, rows, text_columns=len(_name_header(study)), notes=notes)


def _sentence(study: _SubsetStudy) -> str:
    """The result for a thousand samples, or for the drawn size nearest to it."""
    runs = study.runs.labels
    size = min(study.deviations, key=lambda drawn: abs(drawn - _SENTENCE_SIZE))
    deviations = [deviation for deviation in study.deviations[size][0] if deviation]
    if len(deviations) < len(runs):
        return f"{study.metrics[0].title}: n/a, a subset may have no sample of a group."
    largest = max(deviation.within for deviation in deviations)
    orders = [
        f"{runs[order.ahead]} stays ahead of {runs[order.behind]} in {share:.1%}"
        for order in study.orders[:3]
        if (share := order.kept.get(size)) is not None
    ]
    more = [f"and so on for {len(study.orders) - 3} more pairs"] if len(study.orders) > 3 else []
    first = f"With {size:,} samples, {study.metrics[0].title} deviates from its value for all {study.samples:,}"
    first += f" by at most {largest:.2f} percent points in 95 % of the draws"
    return wrapped("; ".join([first, *orders, *more]) + ".")


def _method(study: _SubsetStudy) -> str:
    strata = f"each {study.stratify} in proportion" if study.stratify else "from all samples alike"
    return wrapped(
        f"{study.draws:,} draws of each size, without replacement, {strata}. Deviations are absolute, in percent "
        "points, from the run's own score over all samples. They do not include the judge's noise: another judge, or a "
        "second call of the same one, may score differently."
    )
