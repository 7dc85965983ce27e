"""How far raters agree, as text: tables in Markdown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from mmie_tasks.core.tables import NO_VALUE, percent_cell, short_name, signed_cell, table
from mmie_tasks.core.wording import counted
from mmie_tasks.record.intervals import LEVEL, MIN_SAMPLES
from mmie_tasks.record.sample import ScoreKind
from mmie_tasks.results.agreement import measures
from mmie_tasks.results.agreement.analysis import Agreement, RaterPair
from mmie_tasks.results.agreement.bridge import Bridge, Translation
from mmie_tasks.results.agreement.measures import Measurement


def agreement_text(agreement: Agreement, score_kind: ScoreKind) -> str:
    """All results as tables in Markdown."""
    panel = agreement.panel
    signatures = [
        f"- {rater.name}: `{str(signature) or 'no signature in the log'}`"
        for rater in panel.raters
        for signature in rater.signatures or (str(rater.source),)
    ]
    blocks = [
        f"# Agreement on {panel.benchmark.title} (`{panel.task}`)",
        f"The {score_kind} score, {panel.benchmark.scale.unit}; intervals in brackets.",
        *_measure_blocks(agreement),
        *map(_bridge_block, agreement.bridges),
        _alpha_block(agreement),
        *_confusion_blocks(agreement),
        *_group_blocks(agreement),
        *_disputed_block(agreement),
        "\n".join(_method_lines(agreement)),
        "\n".join(["## Signatures\n", *signatures]),
    ]
    return "\n\n".join(blocks)


def _alpha_block(agreement: Agreement) -> str:
    alphas = agreement.alphas
    rows = [[a.raters, f"{a.samples:,}", *(m.cell(3) for m in a.measures.values())] for a in alphas]
    reasons = {_missing(measurement) for a in alphas for measurement in a.measures.values()}
    notes = [f"- {reason}" for reason in sorted(reasons - {""})]
    heads = ["of", "n", "interval data", "ordinal data"]
    return f"## Krippendorff's alpha\n\n{table(heads, rows, notes=notes)}"


def _measure_blocks(agreement: Agreement) -> Iterator[str]:
    heading = f"## Against {short_name(agreement.reference)}: the paper's table"
    pairs, others = agreement.with_reference, agreement.other_pairs
    yield f"{heading}\n\n{_measure_table(pairs, measures.PAPER_MEASURES)}"
    yield _rater_block(agreement)
    if others:
        yield f"## The other pairs\n\n{_measure_table(others, measures.PAPER_MEASURES)}"
    rows = _measure_table([*pairs, *others], measures.MORE_MEASURES)
    yield f"## Ranks, chance and bias\n\n{rows}"


def _bridge_block(bridge: Bridge) -> str:
    judge, reference = short_name(bridge.judge), short_name(bridge.reference)
    difference, rank = bridge.difference, bridge.rank_correlation
    rows = [
        [
            *(short_name(run.run), f"{run.samples:,}", percent_cell(run.score)),
            *(run.by_difference.cell(2), _between_lines(run)),
        ]
        for run in bridge.translations
    ]
    header = ["run", "n", f"by {judge}", "by the difference", "between the lines"]
    signed = signed_cell(difference.value, difference.interval)
    finding = (
        f"On these {counted(bridge.samples, 'answer')} {judge} gives the score of {reference} "
        f"{signed} (percentage points); rank correlation {rank.cell(3)}. That holds for answers "
        "like these."
    )
    measured = [difference, bridge.slope, rank, *(run.by_difference for run in bridge.translations)]
    slopes = bridge.slope.cell(2), bridge.reverse_slope.cell(2)
    notes = [
        f"- By the difference: {judge} errs on the answers of a run as on these.",
        f"- Between the lines: a point of {judge} is worth {slopes[0]} of {reference}",
        f"  if chance is in the points of {reference} alone, and {slopes[1]}",
        f"  if it is in those of {judge} alone. The interval holds both: quote it.",
        *(f"- {why}" for why in dict.fromkeys(filter(None, map(_missing, measured)))),
    ]
    heading = f"## Scores by {judge} on the scale of {reference}"
    return f"{heading}\n\n{finding}\n\n{table(header, rows, notes=notes)}"


def _between_lines(run: Translation) -> str:
    ends = [m.value for m in (run.by_line, run.by_reverse_line) if m.value is not None]
    if not ends:
        return NO_VALUE
    low, high = (f"{end:.2f}" for end in (min(ends), max(ends)))
    between = low if low == high else f"{low} to {high}"
    interval = run.between_lines
    return f"{between} [{interval.low:.2f}, {interval.high:.2f}]" if interval else between


def _rater_block(agreement: Agreement) -> str:
    rows, panel = [], agreement.panel
    left_out = {
        "in one source only": panel.in_one_only,
        "left out: the judges judged different answers": panel.other_answers,
        "compared although a log does not hold the judged answer": panel.unseen_answers,
    }
    notes = [f"- {counted(count, 'sample')} {why}" for why, count in left_out.items() if count]
    for rater in panel.raters:
        scored, unscored = len(rater.points), len(rater.unscored)
        counts = [f"{scored + unscored:,}", f"{scored:,}", percent_cell(rater.mean, decimals=3)]
        rows.append([short_name(rater.name), rater.kind, *counts])
        reasons = ", ".join(f"{n:,} {why}" for why, n in rater.unscored_counts.items())
        without = [f"{counted(unscored, 'sample')} without points ({reasons})"] if unscored else []
        notes += [f"- {rater.name}: {note}" for note in (*without, *rater.notes)]
    header = ["rater", "is a", "samples", "with points", "mean"]
    return f"## Raters\n\n{table(header, rows, text_columns=2, notes=notes)}"


def _measure_table(pairs: Sequence[RaterPair], names: Sequence[str]) -> str:
    """A table of pairs, and below it the reasons for missing values."""
    titles = {name: measures.MEASURES[name].title for name in names}
    header = ["judge", "reference", "n", *titles.values()]
    rows = []
    titles_by_reason: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for pair in pairs:
        raters = [short_name(pair.judge), short_name(pair.reference)]
        cells = [pair.measures[name].cell(3) for name in names]
        rows.append([*raters, f"{pair.samples:,}", *cells])
        for name in names:
            if reason := _missing(pair.measures[name]):
                titles_by_reason[reason][titles[name]] = None
    notes = [f"- {why}: {', '.join(of)}" for why, of in titles_by_reason.items()]
    return table(header, rows, text_columns=2, notes=notes)


def _missing(measurement: Measurement) -> str:
    """Why a value or interval is missing; empty where none is."""
    if not measurement.why_not:
        return ""
    return f"{NO_VALUE if measurement.value is None else 'no interval'}, {measurement.why_not}"


def _confusion_blocks(agreement: Agreement) -> Iterator[str]:
    for pair in agreement.with_reference:
        if pair.confusion and pair.samples:
            points = [str(value) for value in range(len(pair.confusion))]
            rows = [
                [value, *(f"{count:,}" if count else "·" for count in row)]
                for value, row in zip(points, pair.confusion, strict=True)
            ]
            judge, reference = short_name(pair.judge), short_name(pair.reference)
            heading = f"## Points of {reference} (down) and {judge} (across)"
            yield f"{heading}\n\n{table(['', *points], rows)}"


def _group_blocks(agreement: Agreement) -> Iterator[str]:
    several = len(agreement.with_reference) > 1
    names = ["group", *(["judge"] if several else [])]
    header = [*names, "n", *(measures.MEASURES[name].title for name in measures.GROUP_MEASURES)]
    by_kind: defaultdict[str, list[list[str]]] = defaultdict(list)
    for group in sorted(agreement.group_pairs, key=lambda group: group.group):
        cells = [group.measures[name].cell(3) for name in measures.GROUP_MEASURES]
        judge = [short_name(group.judge)] if several else []
        by_kind[group.kind].append([short_name(group.group), *judge, f"{group.samples:,}", *cells])
    for kind in dict.fromkeys(group.kind for group in agreement.group_pairs):
        heading = f"## By {kind}, against {short_name(agreement.reference)}"
        yield f"{heading}\n\n{table(header, by_kind[kind], text_columns=1 + several)}"


def _disputed_block(agreement: Agreement) -> Iterator[str]:
    header = ["sample", *(short_name(rater.name) for rater in agreement.panel.raters), "spread"]
    rows = [
        [short_name(d.id), *("-" if p is None else f"{p:g}" for p in d.points), f"{d.spread:g}"]
        for d in agreement.disputed
    ]
    if rows:
        yield f"## Samples they disagree on most\n\n{table(header, rows)}"


def _method_lines(agreement: Agreement) -> Iterator[str]:
    yield "## How it was computed\n"
    yield (
        f"- Intervals: {LEVEL:.0%}, for a larger population of samples; jackknife, with one unseen "
        f"error of half the scale. None for fewer than {MIN_SAMPLES} samples."
    )
    yield "- Cosine: of the two vectors of points, sum of xy / (|x| |y|); the paper has no formula."
    yield "- Bias: judge less reference, in points. Samples without points of both are left out."
    if agreement.panel.benchmark.scale.whole:
        yield "- Table of points: rounded to whole numbers, halves to the even one."
    for name, members in agreement.panel.members.items():
        yield f"- The {name}: of those who rated a sample, among {', '.join(members)}."
