"""The command ``mmie-tasks agreement``: do judges and people agree on the same answers?

It also corrects each judge's score by the reference's points for some of the answers.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TypeAlias

import pandas as pd

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.core.tables import NO_VALUE, short_name
from mmie_tasks.core.verdict import ScoreKind
from mmie_tasks.core.wording import counted
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES, Interval
from mmie_tasks.record.metrics import Scale
from mmie_tasks.results.comparability import scored_signatures, signature_differences
from mmie_tasks.results.correct import Stratum, corrected_mean
from mmie_tasks.results.measures import MEASURES, Measurement, alpha, measure
from mmie_tasks.results.raters import DIGITS, Rater, read_raters, reference_of
from mmie_tasks.results.render import Table, json_text, rendered
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.scores import in_proportion, reasons_of, weighted_strata

_MAX_PAIRED_RATERS = 4  # with more, each is compared with the reference only
_PAPER_MEASURES = ("cosine", "mse", "mae", "pearson")
_MORE_MEASURES = ("spearman", "kappa", "bias")
_GROUP_MEASURES = ("pearson", "mae", "bias")
_NOT_FIRST = (
    "the reference's answers are not the first ones of each group in the run, so they are no "
    "random draw"
)
_NO_ANSWER = "no answer has points of the reference, and no run with such answers was judged alike"
_METHODS = (
    f"Intervals: {LEVEL:.0%}, for a larger population of samples; none below {MIN_SAMPLES}.",
    "Cosine: of the two vectors of points, sum of xy / (|x| |y|); the paper has no formula.",
    "Bias: judge less reference, in points. Samples without points of both are left out.",
    "Corrected: what the reference would give all answers, by prediction-powered inference.",
    "Worth: how many answers the reference alone would have to score for an interval as narrow.",
)

PartValue: TypeAlias = str | int | float | Measurement | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgreementPart:
    """A part of the results, as ``--json`` prints it: column to value in each row."""

    title: str
    rows: Sequence[Mapping[str, PartValue]] = ()
    notes: Sequence[str] = ()
    decimals: int = field(default=3, repr=False)

    def table(self) -> Table:
        """The part as a table, with the reasons for missing values below it."""
        header = list(self.rows[0]) if self.rows else []
        texts = sum(isinstance(value, str) for value in self.rows[0].values()) if header else 0
        missing: defaultdict[str, dict[str, None]] = defaultdict(dict)  # titles by reason
        for row in self.rows:
            for title, value in row.items():
                if isinstance(value, Measurement) and value.why_not:
                    what = NO_VALUE if value.value is None else "no interval"
                    missing[f"{what}, {value.why_not}"][title] = None
        return Table(
            title=self.title,
            header=header,
            texts=texts,
            rows=[[_cell(value, self.decimals) for value in row.values()] for row in self.rows],
            notes=[
                *(f"- {why}: {', '.join(titles)}" for why, titles in missing.items()),
                *(f"- {note}" for note in self.notes),
            ],
        )


def _cell(value: PartValue, decimals: int) -> str | int | None:
    match value:
        case Measurement():
            return value.cell(decimals)
        case float():
            return f"{value:g}"
    return value


def run(options: argparse.Namespace) -> str:
    """Compare the raters of a command line; returns tables in Markdown, or JSON."""
    kind: ScoreKind = options.score_kind
    task, benchmark, raters = read_raters(options.runs, next(iter(options.tasks), None), kind)
    reference, judges = reference_of(raters, options.reference)
    parts = list(_parts(benchmark, raters, reference, judges, kind, options.top))
    if options.json:
        return json_text({"task": task, "score": kind, "parts": parts})
    text = f"The {kind} score, {benchmark.scale.unit}; intervals in brackets."
    title = f"Agreement on {benchmark.title} (`{task}`)"
    return rendered(Table(text=text), *(part.table() for part in parts), title=title)


def _parts(
    benchmark: Benchmark,
    raters: Sequence[Rater],
    reference: Rater,
    judges: Sequence[Rater],
    kind: ScoreKind,
    top: int,
) -> Iterator[AgreementPart]:
    """All results, the paper's table first.

    Raises `AnswersUnusable` if the reference shares no answer with points with another rater.
    """
    scale = benchmark.scale
    bridges = {
        judge.name: bridge
        for judge in judges
        if not _have_same_answers(judge, reference)
        and (bridge := _bridge(judge, reference, judges)) is not None
    }
    compared = [judge for judge in judges if judge.name not in bridges]
    pairs = [(judge, reference, _common(judge, reference)) for judge in compared]
    if not any(len(points) for _, _, points in pairs):
        raise _nothing_shared(reference, judges)
    same = [rater for rater in raters if rater.name not in bridges]
    others: list[tuple[Rater, Rater, pd.DataFrame]] = []
    if len(raters) <= _MAX_PAIRED_RATERS:  # people are the reference of judges
        rest = [rater for rater in same if rater is not reference]
        rest.sort(key=lambda rater: rater.run is not None)
        others = [(b, a, _common(b, a)) for a, b in combinations(rest, 2)]

    def rows(
        of: Iterable[tuple[Rater, Rater, pd.DataFrame]], names: Sequence[str]
    ) -> list[Mapping[str, PartValue]]:
        return [
            {"judge": judge.name, "reference": other.name, **_measured(points, names, scale)}
            for judge, other, points in of
        ]

    yield AgreementPart(
        title=f"Against {short_name(reference.name)}: the paper's table",
        rows=rows(pairs, _PAPER_MEASURES),
    )
    points, notes = _points_table(reference, same)
    yield _rater_part(raters, kind, notes)
    if others:
        yield AgreementPart(title="The other pairs", rows=rows(others, _PAPER_MEASURES))
    yield AgreementPart(
        title="Ranks, chance and bias", rows=rows([*pairs, *others], _MORE_MEASURES)
    )
    yield AgreementPart(
        title="Krippendorff's alpha",
        rows=[
            {
                "of": f"{len(same)} raters",
                "n": int((points.count(axis=1) > 1).sum()),
                "interval data": alpha(points.to_numpy(), scale),
            }
        ],
    )
    yield from _score_part(judges, reference, bridges, kind)
    yield from _group_parts(pairs, raters, scale)
    yield from _disputed(points, top)
    yield from _method(raters)


def _method(raters: Iterable[Rater]) -> Iterator[AgreementPart]:
    signatures = [
        f"{rater.name}: `{str(signature) or 'no signature in the log'}`"
        for rater in raters
        for signature in (rater.run.signatures if rater.run else ())
    ]
    yield AgreementPart(title="How it was computed", notes=_METHODS)
    yield AgreementPart(title="Signatures", notes=signatures)


def _matched(a: Rater, b: Rater) -> pd.DataFrame:
    """The points of both, by id, where the answer is the same as far as both sources hold it."""
    both = a.verdicts.merge(b.verdicts, on="id", suffixes=("", "_b"))
    unknown = (both["answer"] == "") | (both["answer_b"] == "")
    both = both[unknown | (both["answer"] == both["answer_b"])].drop_duplicates("id")
    return both.set_index("id")[["points", "points_b"]].set_axis(["judge", "reference"], axis=1)


def _common(a: Rater, b: Rater) -> pd.DataFrame:
    return _matched(a, b).dropna()


def _have_same_answers(a: Rater, b: Rater) -> bool:
    """Whether most of the samples that both rated have the same answer."""
    ids = set(a.verdicts["id"]) & set(b.verdicts["id"])
    return 2 * len(_matched(a, b)) > len(ids)


def _bridge(judge: Rater, reference: Rater, judges: Sequence[Rater]) -> Rater | None:
    """A run with the reference's answers, of a judge with the same signature as this one."""
    for other in judges:
        if judge.run and other.run and _have_same_answers(other, reference):
            signatures = scored_signatures(judge.run), scored_signatures(other.run)
            if not signature_differences(*signatures):
                return other
    return None


def _nothing_shared(reference: Rater, judges: Sequence[Rater]) -> AnswersUnusable:
    counts = "; ".join(
        f"{r.name} has {r.verdicts['points'].count()} of {len(r.verdicts)}, with ids like "
        f"{min(r.verdicts['id'], default='nothing')}"
        for r in (reference, *judges)
    )
    shared = [_matched(judge, reference) for judge in judges]
    of_ids = any(set(judge.verdicts["id"]) & set(reference.verdicts["id"]) for judge in judges)
    if of_ids and not any(map(len, shared)):
        return AnswersUnusable(
            f"All samples that {reference.name} has in common with others have different answers.",
            hint="agreement compares judges of the same answers; "
            f"`{as_called('mmie-tasks compare')}` compares tested models. A run of other answers "
            "needs two runs that have the same ones, one of them judged as it was",
        )
    return AnswersUnusable(
        f"No sample has points of {reference.name} and of another rater: {counts}.",
        hint="compare runs of one task, and people's scores with the ids of its samples",
    )


def _measured(points: pd.DataFrame, names: Sequence[str], scale: Scale) -> dict[str, PartValue]:
    measures = {MEASURES[name].title: measure(points.to_numpy(), name, scale) for name in names}
    return {"n": len(points), **measures}


def _points_table(reference: Rater, raters: Sequence[Rater]) -> tuple[pd.DataFrame, list[str]]:
    """Points by id and rater, of the reference's answers; and notes on what was left out."""
    rows = pd.concat([rater.verdicts.assign(rater=rater.name) for rater in raters])
    known = pd.concat([reference.verdicts, rows])
    known = known[known["answer"] != ""].drop_duplicates("id").set_index("id")["answer"]
    is_same = (rows["answer"] == "") | (rows["answer"] == rows["id"].map(known))
    points = rows[is_same].drop_duplicates(["id", "rater"])
    times = points.groupby("id").size()
    judged = rows["rater"].isin([rater.name for rater in raters if rater.run])
    unseen = judged & (rows["answer"] == "") & rows["id"].isin(times.index[times > 1])
    counts = {
        "in one source only": (rows.groupby("id")["rater"].nunique() == 1).sum(),
        "with different answers: left out": rows.loc[~is_same, "id"].nunique(),
        "compared although a log does not hold the judged answer": rows.loc[unseen, "id"].nunique(),
    }
    table = points.set_index(["id", "rater"])["points"].unstack("rater")
    notes = [f"{counted(int(count), 'sample')} {what}" for what, count in counts.items() if count]
    return table.reindex(columns=[rater.name for rater in raters]).sort_index(), notes


def _rater_part(raters: Sequence[Rater], kind: ScoreKind, notes: Sequence[str]) -> AgreementPart:
    lines = list(notes)
    rows: list[Mapping[str, PartValue]] = []
    for rater in raters:
        points = rater.verdicts["points"].dropna()
        reasons = reasons_of(rater.run.records, kind) if rater.run else {}
        listed = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
        lines += [f"{rater.name}: without points ({listed})"] if listed else []
        lines += [f"{rater.name}: {note}" for note in rater.notes]
        rows.append(
            {
                "rater": rater.name,
                "is a": "judge" if rater.run else "person",
                "samples": len(rater.verdicts),
                "with points": len(points),
                "mean": Measurement(value=float(points.mean()) if len(points) else None),
            }
        )
    return AgreementPart(title="Raters", rows=rows, notes=lines)


def _group_parts(
    pairs: Sequence[tuple[Rater, Rater, pd.DataFrame]], raters: Sequence[Rater], scale: Scale
) -> Iterator[AgreementPart]:
    """Agreement with the reference by group; kinds with only one group are left out."""
    ids: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for sample in (sample for rater in raters if rater.run for sample in rater.run.records):
        for kind, groups in sample.groups.items():
            for group in groups:
                ids[kind][group].add(sample.id)
    for kind, members in sorted(ids.items()):
        if len(members) > 1:
            rows = [
                {
                    "group": group,
                    "judge": judge.name,
                    **_measured(points[points.index.isin(members[group])], _GROUP_MEASURES, scale),
                }
                for group in sorted(members)
                for judge, _, points in pairs
            ]
            yield AgreementPart(title=f"By {kind}", rows=rows)


def _disputed(points: pd.DataFrame, top: int) -> Iterator[AgreementPart]:
    """The widest spread first; if equal, more raters first, then by id."""
    spread = (points.max(axis=1) - points.min(axis=1)).round(DIGITS)
    order = pd.DataFrame({"spread": -spread, "raters": -points.count(axis=1)}).sort_values(
        ["spread", "raters"], kind="stable"
    )
    rows: list[Mapping[str, PartValue]] = []
    for id_ in order.index[order["spread"] < 0][:top]:
        rated = {str(n): None if math.isnan(p) else float(p) for n, p in points.loc[id_].items()}
        rows.append({"sample": id_, **rated, "spread": float(spread[id_])})
    if rows:
        yield AgreementPart(title="Samples they disagree on most", rows=rows)


def _score_part(
    judges: Sequence[Rater], reference: Rater, bridges: Mapping[str, Rater], kind: ScoreKind
) -> Iterator[AgreementPart]:
    rows = [
        _score_row(judge, judge.run, reference, bridges.get(judge.name), kind)
        for judge in judges
        if judge.run
    ]
    if rows:
        errs_alike = [
            f"{name}: {reference.name} rated the answers of {bridge.name}; right if the judge errs "
            "alike on both answers to a question"
            for name, bridge in bridges.items()
        ]
        title = f"Scores in percent, on the scale of {short_name(reference.name)}"
        yield AgreementPart(title=title, rows=rows, notes=errs_alike, decimals=2)


def _score_row(
    judge: Rater, task_run: TaskRun, reference: Rater, bridge: Rater | None, kind: ScoreKind
) -> Mapping[str, PartValue]:
    """A run's score as `table` has it, and corrected by the reference's points for some answers.

    If the reference rated only another model's answers, which `bridge` holds, its points for an
    answer of this run are the judge's, plus the difference of the two on the other answer to the
    same question. (The other model's points themselves would pull the mean towards that model's.)
    """
    benchmark, metric = task_run.benchmark, task_run.metrics[0]
    score = task_run.score(metric, kind)
    points = judge.verdicts.set_index("id")["points"].dropna()
    scored = [sample for sample in task_run.records if sample.id in points.index]
    drawn = weighted_strata(scored, metric, benchmark.strata)
    strata = [(weight, [sample.id for sample in members]) for weight, members in drawn]
    seen = _matched(bridge or judge, reference)
    known = seen.dropna()
    given = known["reference"]
    if bridge:
        given = (points + known["reference"] - known["judge"]).dropna()
    rated = [[id_ for id_ in ids if id_ in given.index] for _, ids in strata]
    row: dict[str, PartValue] = {
        "run": judge.name,
        "n": sum(len(ids) for _, ids in strata),
        "by its judge": Measurement(why_not="no sample counts for the score")
        if score is None
        else Measurement(value=score.percent, interval=score.interval, why_not=score.why_not),
        "rated": sum(map(len, rated)),
    }
    why_not = "" if score is None or score.percent is not None else score.why_not
    if not any(rated):
        why_not = why_not or _NO_ANSWER
    elif not all(_are_first(ids, seen.index) for _, ids in strata):
        why_not = why_not or _NOT_FIRST
    if why_not:
        missing = Measurement(why_not=why_not)
        return {**row, "reference alone": missing, "corrected": missing, "worth": None}
    mean = corrected_mean(
        [
            Stratum(
                weight=weight,
                reference=given.reindex(of_both).to_numpy(),
                judge=points.reindex(of_both).to_numpy(),
                others=points.reindex([id_ for id_ in ids if id_ not in given.index]).to_numpy(),
            )
            for (weight, ids), of_both in zip(strata, rated, strict=True)
        ],
        benchmark.scale.full_marks,
    )
    is_draw = metric.by == benchmark.strata or in_proportion(task_run.records, benchmark)
    return {
        **row,
        "reference alone": _percent(mean.alone, benchmark.scale, is_draw),
        "corrected": _percent(mean.corrected, benchmark.scale, is_draw),
        "worth": round(mean.worth) if mean.worth and is_draw else None,
    }


def _are_first(ids: Sequence[str], seen: pd.Index) -> bool:
    """Whether the rated answers are the first ones: a run's samples are in a random order."""
    flags = pd.Index(ids).isin(seen)
    return bool(flags[: flags.sum()].all())


def _percent(points: Measurement, scale: Scale, is_draw: bool) -> Measurement:
    """Points in percent, rounded as in the benchmark's own table."""
    if points.value is None:
        return points
    percent = scale.percent(points.value)
    if points.interval is None:
        return replace(points, value=percent)
    if not is_draw:
        why_not = "the run's groups are not in the benchmark's proportions"
        return Measurement(value=percent, why_not=why_not)
    low, high = (end * 100 / scale.full_marks for end in points.interval)
    return Measurement(value=percent, interval=Interval(low, high))
