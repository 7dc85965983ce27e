"""All measures of the raters that ``mmie-tasks agreement`` compares."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import pandas as pd

from mmie_tasks.core.command import as_called
from mmie_tasks.core.errors import AnswersUnusable
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement.bridge import Bridge, bridge
from mmie_tasks.results.agreement.measures import (
    GROUP_MEASURES,
    LEVELS,
    MEASURES,
    Measurement,
    alpha,
    measure,
)
from mmie_tasks.results.agreement.verdicts import Rater, RaterPanel

# With up to this many raters every pair is compared; with more, each with the reference.
_MAX_PAIRED_RATERS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterPair:
    """Agreement of two raters on the samples that both rated.

    `confusion` counts samples by points: a row for each of the reference's, a column for each of
    the judge's; it is empty unless points are whole numbers. `kind` and `group` name a group of
    samples, such as ``category`` and ``SA``; they are empty for all samples.
    """

    judge: str
    reference: str
    samples: int
    measures: Mapping[str, Measurement]
    confusion: Sequence[Sequence[int]] = ()
    kind: str = ""
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaterAlpha:
    """Krippendorff's alpha by level of measurement, over samples with points of several raters."""

    raters: str
    samples: int
    measures: Mapping[str, Measurement]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedSample:
    """A sample, each rater's points (None if it has none), and their range."""

    id: str
    points: Sequence[float | None]
    spread: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """All results, as ``--json`` prints them.

    Attributes:
        reference: The rater that the others are compared with.
        samples: The counts of `RaterPanel.samples`.
        means: The name of the mean of each CSV with several people to these people.
        other_pairs: The pairs without the reference, if there are few raters.
        alphas: For all raters; also for the people and for the judges, if several.
        group_pairs: The pairs with the reference by group of samples.
        bridges: From each judge that shares samples with the reference to the reference's scale.
        disputed: The samples that raters disagree on most.
    """

    task: str
    benchmark: str
    score_kind: ScoreKind
    scale: Mapping[str, object]
    reference: str
    samples: Mapping[str, int]
    raters: Sequence[Rater]
    means: Mapping[str, Sequence[str]]
    with_reference: Sequence[RaterPair]
    other_pairs: Sequence[RaterPair]
    alphas: Sequence[RaterAlpha]
    group_pairs: Sequence[RaterPair]
    bridges: Sequence[Bridge]
    disputed: Sequence[DisputedSample]


def analyse(panel: RaterPanel, reference: str, score_kind: ScoreKind, top: int) -> Agreement:
    """Compute all measures, with up to `top` disputed samples.

    Raises `AnswersUnusable` if the reference shares no sample with points with another rater.
    """
    in_reference = panel.members.get(reference, [reference])
    judges = [rater.name for rater in panel.raters if rater.name not in in_reference]
    # In pairs without the reference, people are the reference of judges, else the earlier rater.
    ordered = [rater.name for rater in sorted(panel.raters, key=lambda r: r.kind != "person")]
    others = [name for name in ordered if name != reference]
    other_pairs = combinations(others if len(ordered) <= _MAX_PAIRED_RATERS else (), 2)
    with_reference = [_pair(judge, reference, panel) for judge in judges]
    if not any(pair.samples for pair in with_reference):
        counts = []
        for rater in panel.raters:
            listed = ", ".join(f"{n} {reason}" for reason, n in rater.unscored.items())
            counts.append(f"{rater.name} has {rater.with_points} ({listed or 'none unscored'})")
        raise AnswersUnusable(
            f"No sample has points of {reference} and of another rater: {'; '.join(counts)}.",
            hint=f"check the judges' replies: `{as_called('mmie-tasks report RUN')}`",
        )
    scale = panel.benchmark.scale
    return Agreement(
        task=panel.task,
        benchmark=panel.benchmark.title,
        score_kind=score_kind,
        scale={"full_marks": scale.full_marks, "unit": scale.unit, "whole": scale.whole},
        reference=reference,
        samples=panel.samples,
        raters=panel.raters,
        means=panel.members,
        with_reference=with_reference,
        other_pairs=[_pair(judge, earlier, panel) for earlier, judge in other_pairs],
        alphas=list(_alphas(panel)),
        group_pairs=list(_group_pairs(judges, reference, panel)),
        bridges=list(_bridges(with_reference, panel)),
        disputed=list(_disputed(panel, top)),
    )


def _pair(judge: str, reference: str, panel: RaterPanel) -> RaterPair:
    points, scale = panel.points[[judge, reference]].dropna(), panel.benchmark.scale
    confusion: Sequence[Sequence[int]] = ()
    if scale.whole:
        whole = points.round().astype(int)
        values = range(round(scale.full_marks) + 1)
        counts = pd.crosstab(whole[reference], whole[judge])
        confusion = counts.reindex(index=values, columns=values, fill_value=0).to_numpy().tolist()
    return RaterPair(
        judge=judge,
        reference=reference,
        samples=len(points),
        measures=measure(points[judge], points[reference], tuple(MEASURES), scale),
        confusion=confusion,
    )


def _alphas(panel: RaterPanel) -> Iterator[RaterAlpha]:
    raters = [rater.name for rater in panel.raters]
    chosen = {"both raters" if len(raters) == 2 else f"all {len(raters)} raters": raters}
    for title, kind in (("people", "person"), ("judges", "judge")):
        of_kind = [rater.name for rater in panel.raters if rater.kind == kind]
        chosen |= {title: of_kind} if 1 < len(of_kind) < len(raters) else {}
    for title, names in chosen.items():
        points = panel.points[names]
        yield RaterAlpha(
            raters=title,
            samples=int((points.count(axis=1) > 1).sum()),
            measures={n: alpha(points.to_numpy(), n, panel.benchmark.scale) for n in LEVELS},
        )


def _group_pairs(judges: Sequence[str], reference: str, panel: RaterPanel) -> Iterator[RaterPair]:
    """The pairs of each judge and group; kinds with only one group are left out."""
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for id_ in panel.points.index:
        for kind, groups in panel.groups.get(id_, {}).items():
            for group in groups:
                ids[kind, group].append(id_)
    group_counts = Counter(kind for kind, _ in ids)
    for judge, (kind, group) in product(judges, sorted(ids)):
        if group_counts[kind] > 1:
            points = panel.points.loc[ids[kind, group], [judge, reference]].dropna()
            of_both = points[judge], points[reference]
            yield RaterPair(
                judge=judge,
                reference=reference,
                samples=len(points),
                measures=measure(*of_both, GROUP_MEASURES, panel.benchmark.scale),
                kind=kind,
                group=group,
            )


def _bridges(pairs: Sequence[RaterPair], panel: RaterPanel) -> Iterator[Bridge]:
    """The bridge of each judge to the reference; people are not put on a judge's scale."""
    judges = {rater.name: rater for rater in panel.raters if rater.kind == "judge"}
    for pair in pairs:
        if pair.samples and pair.judge in judges:
            rank_correlation = pair.measures["spearman"]
            yield bridge(judges[pair.judge], pair.reference, rank_correlation, panel)


def _disputed(panel: RaterPanel, top: int) -> Iterator[DisputedSample]:
    """The widest spread first; if equal, more raters first, then by id."""
    points = panel.points[[rater.name for rater in panel.raters]]
    spread = (points.max(axis=1) - points.min(axis=1)).round(9)
    order = pd.DataFrame({"spread": -spread, "raters": -points.count(axis=1)}).sort_values(
        ["spread", "raters"], kind="stable"
    )
    for id_ in order.index[order["spread"] < 0][:top]:
        row = points.loc[id_]
        rated = [None if math.isnan(value) else float(value) for value in row]
        yield DisputedSample(id=id_, points=rated, spread=float(spread[id_]))
