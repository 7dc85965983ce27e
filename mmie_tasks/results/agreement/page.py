"""What was found, in words and tables for a terminal."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from mmie_tasks.core.tables import table
from mmie_tasks.results.agreement.analysis import Agreement, Compared, Panel
from mmie_tasks.results.agreement.measures import IN_GROUPS, PAPER, RANKS, STEPS, titles
from mmie_tasks.results.agreement.ratings import Rater
from mmie_tasks.results.agreement.resampling import LEVEL, NOT_ASKED, Measured
from mmie_tasks.runs.benchmark import ScoreKind

NONE = "n/a"
_NAME_WIDTH = 60  # characters of an id or name in a table


def page(found: Agreement, reading: ScoreKind) -> str:
    """Every block, one below the other."""
    benchmark = found.gathered.benchmark
    title = f"# Agreement on {benchmark.title} (`{found.gathered.task}`)"
    blocks = [
        f"{title}\n\nThe {reading} reading, {benchmark.scale.unit}; intervals in brackets.",
        _paper(found),
        "\n".join(_raters(found)),
        *_more(found),
        _alphas(found),
        *_confusions(found),
        *_groups(found),
        _disputed(found),
        "\n".join(_method(found)),
        "\n".join(_signatures(found.gathered.raters)),
    ]
    return "\n\n".join(block for block in blocks if block)


def _raters(found: Agreement) -> Iterator[str]:
    yield "## Raters\n"
    rows = []
    for rater in found.gathered.raters:
        points = rater.points.values()
        mean = f"{sum(points) / len(points):.3f}" if points else NONE
        total = len(points) + len(rater.unscored)
        rows.append([_short(rater.name), rater.kind, f"{total:,}", f"{len(points):,}", mean])
    yield table(["rater", "is a", "samples", "with points", "mean"], rows, words=2)
    notes = [*_left_out(found.panel), *_unscored(found.gathered.raters)]
    if notes:
        yield ""
    yield from (f"- {note}" for note in notes)


def _left_out(panel: Panel) -> Iterator[str]:
    for count, said in (
        (panel.in_one_only, "in one of them only"),
        (panel.other_answers, "left out: the judges judged different answers"),
        (panel.unseen_answers, "compared although a log does not hold the answer that was judged"),
    ):
        if count:
            yield f"{_samples(count)} {said}"


def _unscored(raters: Iterable[Rater]) -> Iterator[str]:
    for rater in raters:
        if rater.unscored:
            counts = sorted(Counter(rater.unscored.values()).items())
            listed = ", ".join(f"{count:,} {reason}" for reason, count in counts)
            yield f"{rater.name}: {_samples(len(rater.unscored))} without points ({listed})"
        yield from (f"{rater.name}: {note}" for note in rater.notes)


def _samples(count: int) -> str:
    return f"{count:,} sample" if count == 1 else f"{count:,} samples"


def _paper(found: Agreement) -> str:
    heading = f"## Against {_short(found.reference)}: the paper's table"
    return f"{heading}\n\n{_measures(found, found.with_reference, PAPER)}"


def _more(found: Agreement) -> Iterator[str]:
    if found.other_pairs:
        yield f"## The other pairs\n\n{_measures(found, found.other_pairs, PAPER)}"
    every = [*found.with_reference, *found.other_pairs]
    yield f"## Order and chance\n\n{_measures(found, every, RANKS)}"
    yield f"## Step by step\n\n{_measures(found, every, STEPS)}"


def _measures(found: Agreement, pairs: Sequence[Compared], names: Sequence[str]) -> str:
    """A table of pairs, and below it why cells have nothing in them."""
    titled = titles(found.asked)
    header = ["judge", "reference", "n", *(titled[name] for name in names)]
    rows = []
    why: defaultdict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        cells = [_cell(pair.measures[name]) for name in names]
        rows.append([_short(pair.judge), _short(pair.reference), f"{pair.samples:,}", *cells])
        for name in names:
            if reason := _reason(pair.measures[name]):
                why[reason].append(titled[name])
    notes = [f"- {reason}: {', '.join(dict.fromkeys(which))}" for reason, which in why.items()]
    return "\n".join([table(header, rows, words=2), *([""] if notes else []), *notes])


def _reason(measured: Measured) -> str:
    """Why a cell lacks something that was asked for; empty where it does not."""
    if not measured.why_not or measured.why_not == NOT_ASKED:
        return ""
    what = NONE if measured.value is None else "no interval"
    return f"{what}, {measured.why_not}"


def _cell(measured: Measured) -> str:
    if measured.value is None:
        return NONE
    if measured.interval is None:
        return f"{measured.value:.3f}"
    low, high = measured.interval
    return f"{measured.value:.3f} [{low:.3f}, {high:.3f}]"


def _alphas(found: Agreement) -> str:
    rows = [
        [each.who, f"{each.samples:,}", *(_cell(each.measures[m]) for m in ("interval", "ordinal"))]
        for each in found.alphas
    ]
    notes = {_reason(m) for each in found.alphas for m in each.measures.values()} - {""}
    shown = table(["of", "n", "interval data", "ordinal data"], rows)
    listed = "".join(f"\n- {note}" for note in sorted(notes))
    return f"## Krippendorff's alpha\n\n{shown}" + (f"\n{listed}" if notes else "")


def _confusions(found: Agreement) -> Iterator[str]:
    for pair in found.with_reference:
        if pair.confusion and pair.samples:
            points = [str(value) for value in range(len(pair.confusion))]
            rows = [
                [value, *(f"{n:,}" if n else "·" for n in row)]
                for value, row in zip(points, pair.confusion, strict=True)
            ]
            title = (
                f"## Points of {_short(pair.reference)} (down) and {_short(pair.judge)} (across)"
            )
            yield f"{title}\n\n{table(['', *points], rows)}"


def _groups(found: Agreement) -> Iterator[str]:
    titled = titles(found.asked)
    several = len(found.with_reference) > 1
    header = ["group", "judge", "n", *(titled[name] for name in IN_GROUPS)]
    for kind in dict.fromkeys(each.kind for each in found.in_groups):
        rows = []
        for each in sorted(found.in_groups, key=lambda each: each.group):
            if each.kind == kind:
                pair = each.compared
                cells = [_cell(pair.measures[name]) for name in IN_GROUPS]
                judge = [_short(pair.judge)] if several else []
                rows.append([_short(each.group), *judge, f"{pair.samples:,}", *cells])
        shown = header if several else [name for name in header if name != "judge"]
        heading = f"## By {kind}, against {_short(found.reference)}"
        yield f"{heading}\n\n{table(shown, rows, words=1 + several)}"


def _disputed(found: Agreement) -> str:
    if not found.disputed:
        return ""
    header = ["sample", *(_short(rater.name) for rater in found.gathered.raters), "spread"]
    rows = [
        [
            _short(each.id),
            *("-" if p is None else f"{p:g}" for p in each.points),
            f"{each.spread:g}",
        ]
        for each in found.disputed
    ]
    return f"## Samples they disagree on most\n\n{table(header, rows)}"


def _method(found: Agreement) -> Iterator[str]:
    yield "## How it was computed\n"
    resamples = found.asked.resamples
    if resamples:
        fewer = {
            m.resamples
            for pair in (*found.with_reference, *found.other_pairs)
            for m in pair.measures.values()
            if 0 < m.resamples < resamples
        }
        least = f" ({min(fewer):,} for the slowest statistic)" if fewer else ""
        yield (
            f"- Intervals: {LEVEL:.0%}, percentile bootstrap over samples, {resamples:,} "
            f"resamples{least}, seed 0."
        )
    yield "- Cosine: of the two vectors of points, sum of xy / (|x| |y|); the paper has no formula."
    yield "- Bias: judge less reference, in points. A sample without points of both counts nowhere."
    if found.asked.scale.whole:
        yield (
            "- Kappa, the same, within 1, table of points: on points rounded to whole numbers, "
            "halves to the even one."
        )
    else:
        yield f"- Within {found.asked.near:g}: differences up to a tenth of full marks."
    for mean in found.panel.means:
        yield f"- The {mean.name}: of those who rated a sample, among {', '.join(mean.members)}."


def _signatures(raters: Sequence[Rater]) -> Iterator[str]:
    yield "## Who was compared\n"
    for rater in raters:
        for signature in rater.signatures or (str(rater.source),):
            yield f"- {rater.name}: `{signature or 'no signature in the log'}`"


def _short(name: str) -> str:
    """A name for a cell; it is a stranger's, and may hold what moves a terminal's cursor."""
    name = name if name.isprintable() else ascii(name)
    return name if len(name) <= _NAME_WIDTH else f"{name[:_NAME_WIDTH]}…"
