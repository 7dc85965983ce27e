"""The results of ``mmie-tasks agreement`` as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from mmie_tasks.core.tables import NO_VALUE, percent_cell, short_name, signed_cell
from mmie_tasks.core.wording import counted
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES
from mmie_tasks.results.agreement.analysis import Agreement, RaterPair
from mmie_tasks.results.agreement.bridge import Bridge, Translation
from mmie_tasks.results.agreement.measures import (
    GROUP_MEASURES,
    MEASURES,
    MORE_MEASURES,
    PAPER_MEASURES,
    Measurement,
)
from mmie_tasks.results.render import Table, Value, columns

_DOUBTS = {
    "in_one_only": "in one source only",
    "other_answers": "left out: the judges judged different answers",
    "unseen_answers": "compared although a log does not hold the judged answer",
}


def tables(agreement: Agreement) -> Iterator[Table]:
    """All tables, the paper's first."""
    reference = short_name(agreement.reference)
    pairs, others = agreement.with_reference, agreement.other_pairs
    yield _measures(f"Against {reference}: the paper's table", pairs, PAPER_MEASURES)
    yield _raters(agreement)
    if others:
        yield _measures("The other pairs", others, PAPER_MEASURES)
    yield _measures("Ranks, chance and bias", [*pairs, *others], MORE_MEASURES)
    yield from map(_bridge, agreement.bridges)
    alphas = agreement.alphas
    yield Table(
        title="Krippendorff's alpha",
        columns=columns("of", "n", "interval data", "ordinal data"),
        rows=[[a.raters, a.samples, *(m.cell(3) for m in a.measures.values())] for a in alphas],
        notes=sorted({why for a in alphas for m in a.measures.values() if (why := _missing(m))}),
    )
    yield from _confusions(agreement)
    yield from _groups(agreement)
    if agreement.disputed:
        yield Table(
            title="Samples they disagree on most",
            columns=columns("sample", *(rater.name for rater in agreement.raters), "spread"),
            rows=[
                [d.id, *("-" if p is None else f"{p:g}" for p in d.points), f"{d.spread:g}"]
                for d in agreement.disputed
            ],
        )
    yield Table(title="How it was computed", notes=list(_methods(agreement)))
    signatures = [
        f"{rater.name}: `{str(signature) or 'no signature in the log'}`"
        for rater in agreement.raters
        for signature in rater.signatures or (str(rater.source),)
    ]
    yield Table(title="Signatures", notes=signatures)


def _measures(title: str, pairs: Sequence[RaterPair], names: Sequence[str]) -> Table:
    titles: defaultdict[str, dict[str, None]] = defaultdict(dict)  # by reason
    for pair in pairs:
        for name in names:
            titles[_missing(pair.measures[name])][MEASURES[name].title] = None
    return Table(
        title=title,
        columns=columns("judge", "reference", "n", *_titles(names), text=2),
        rows=[[pair.judge, pair.reference, *_values(pair, names)] for pair in pairs],
        notes=[f"{why}: {', '.join(of)}" for why, of in titles.items() if why],
    )


def _titles(names: Sequence[str]) -> list[str]:
    return [MEASURES[name].title for name in names]


def _values(pair: RaterPair, names: Sequence[str]) -> list[Value]:
    return [pair.samples, *(pair.measures[name].cell(3) for name in names)]


def _missing(measurement: Measurement) -> str:
    if not measurement.why_not:
        return ""
    return f"{NO_VALUE if measurement.value is None else 'no interval'}, {measurement.why_not}"


def _raters(agreement: Agreement) -> Table:
    counts = agreement.samples
    notes = [
        f"{counted(counts[name], 'sample')} {why}" for name, why in _DOUBTS.items() if counts[name]
    ]
    rows: list[list[Value]] = []
    for rater in agreement.raters:
        unscored = sum(rater.unscored.values())
        numbers = (rater.with_points + unscored, rater.with_points)
        rows.append([rater.name, rater.kind, *numbers, percent_cell(rater.mean, decimals=3)])
        if unscored:
            reasons = ", ".join(f"{n:,} {why}" for why, n in rater.unscored.items())
            notes.append(f"{rater.name}: {counted(unscored, 'sample')} without points ({reasons})")
        notes += [f"{rater.name}: {note}" for note in rater.notes]
    return Table(
        title="Raters",
        columns=columns("rater", "is a", "samples", "with points", "mean", text=2),
        rows=rows,
        notes=notes,
    )


def _bridge(bridge: Bridge) -> Table:
    judge, reference = short_name(bridge.judge), short_name(bridge.reference)
    difference, rank = bridge.difference, bridge.rank_correlation
    slopes = bridge.slope.cell(2), bridge.reverse_slope.cell(2)
    between = (
        f"Between the lines: a point of {judge} is worth {slopes[0]} of {reference}\n"
        f"  if chance is in the points of {reference} alone, and {slopes[1]}\n"
        f"  if it is in those of {judge} alone. The interval holds both: quote it."
    )
    measured = [difference, bridge.slope, rank, *(run.by_difference for run in bridge.translations)]
    return Table(
        title=f"Scores by {judge} on the scale of {reference}",
        text=(
            f"On these {counted(bridge.samples, 'answer')} {judge} gives the score of {reference} "
            f"{signed_cell(difference.value, difference.interval)} (percentage points); rank "
            f"correlation {rank.cell(3)}. That holds for answers like these."
        ),
        columns=columns("run", "n", f"by {judge}", "by the difference", "between the lines"),
        rows=[
            [
                *(run.run, run.samples, percent_cell(run.score)),
                *(run.by_difference.cell(2), _between_lines(run)),
            ]
            for run in bridge.translations
        ],
        notes=[
            f"By the difference: {judge} errs on the answers of a run as on these.",
            between,
            *dict.fromkeys(filter(None, map(_missing, measured))),
        ],
    )


def _between_lines(run: Translation) -> str:
    ends = sorted(m.value for m in (run.by_line, run.by_reverse_line) if m.value is not None)
    if not ends:
        return NO_VALUE
    between = " to ".join(dict.fromkeys(f"{end:.2f}" for end in ends))
    interval = run.between_lines
    return f"{between} [{interval.low:.2f}, {interval.high:.2f}]" if interval else between


def _confusions(agreement: Agreement) -> Iterator[Table]:
    for pair in agreement.with_reference:
        if pair.confusion and pair.samples:
            judge, reference = short_name(pair.judge), short_name(pair.reference)
            yield Table(
                title=f"Points of {reference} (down) and {judge} (across)",
                columns=columns("", *map(str, range(len(pair.confusion)))),
                rows=[[str(p), *(n or "·" for n in row)] for p, row in enumerate(pair.confusion)],
            )


def _groups(agreement: Agreement) -> Iterator[Table]:
    several = len(agreement.with_reference) > 1
    rows: defaultdict[str, list[list[Value]]] = defaultdict(list)
    for pair in sorted(agreement.group_pairs, key=lambda pair: pair.group):
        judge = [pair.judge] if several else []
        rows[pair.kind].append([pair.group, *judge, *_values(pair, GROUP_MEASURES)])
    for kind in dict.fromkeys(pair.kind for pair in agreement.group_pairs):
        names = ["group", *(["judge"] if several else [])]
        yield Table(
            title=f"By {kind}, against {short_name(agreement.reference)}",
            columns=columns(*names, "n", *_titles(GROUP_MEASURES), text=len(names)),
            rows=rows[kind],
        )


def _methods(agreement: Agreement) -> Iterator[str]:
    yield (
        f"Intervals: {LEVEL:.0%}, for a larger population of samples; jackknife, with one unseen "
        f"error of half the scale. None for fewer than {MIN_SAMPLES} samples."
    )
    yield "Cosine: of the two vectors of points, sum of xy / (|x| |y|); the paper has no formula."
    yield "Bias: judge less reference, in points. Samples without points of both are left out."
    if agreement.scale["whole"]:
        yield "Table of points: rounded to whole numbers, halves to the even one."
    for name, members in agreement.means.items():
        yield f"The {name}: of those who rated a sample, among {', '.join(members)}."
