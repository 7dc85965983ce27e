"""The result of a stress test as text."""

from __future__ import annotations

from collections.abc import Iterator

from mmie_tasks.core.tables import percent_cell, table
from mmie_tasks.core.wording import counted, listed, wrapped
from mmie_tasks.quality.judge_exam.costed_requests import cost_text
from mmie_tasks.quality.judge_exam.stress import StressTest
from mmie_tasks.record.intervals import MIN_SAMPLES


def stress_text(result: StressTest) -> str:
    """A table with a row for each change, and sentences on what has no points."""
    rows = []
    for effect in result.effects:
        means = [percent_cell(effect.mean_change, effect.interval), percent_cell(effect.mean_size)]
        drops = ["", ""]
        if not effect.is_harmless:
            not_dropped = percent_cell(effect.not_dropped, effect.not_dropped_interval)
            drops = [not_dropped, f"{effect.at_zero:,}"]
        p = "" if effect.p is None else f"{effect.p:.3f}" if effect.p >= 0.001 else "< 0.001"
        rows.append([effect.title, f"{effect.n:,}", *means, *drops, p, effect.finding])
    means = ["mean change", "mean size", "did not drop, %"]
    header = ["change", "samples", *means, "had 0", "p (Holm)", "the judge"]
    about = (
        f"Change of its {result.unit}, with 95 % intervals. A fair judge notices every change down "
        "to the empty answer, and is not moved by the harmless ones below. The last row is its own "
        "noise."
    )
    blocks = [
        f"# Stress test of a judge on {counted(result.samples, 'answer')} of {result.task}",
        wrapped(about),
        table(header, rows),
        "\n".join(wrapped(f"- {sentence}") for sentence in _sentences(result)),
        f"judge: {result.judge}\nexam: {result.exam}\nrun: {result.run}",
    ]
    return "\n\n".join(blocks)


def _sentences(result: StressTest) -> Iterator[str]:
    without = sum(result.unchanged_without_points.values())
    scored = result.samples - without
    mean = "" if result.unchanged_points is None else f", {result.unchanged_points:.2f} on average"
    why = f". Left out: {listed(result.unchanged_without_points)}" if without else ""
    yield f"Unchanged answers: {scored:,} of {result.samples:,} have points{mean}{why}."
    without_points = {row.title: listed(row.without_points) for row in result.effects}
    reasons = [f"{title}: {counts}" for title, counts in without_points.items() if counts]
    if reasons:
        yield f"Without points: {'; '.join(reasons)}."
    not_applicable = {e.title: e.not_applicable for e in result.effects if e.not_applicable}
    if not_applicable:
        yield f"Does not apply, or changes nothing that the judge sees: {listed(not_applicable)}."
    if any(row.finding == "too few" for row in result.effects):
        yield f"Too few: fewer than {MIN_SAMPLES} samples with points, or with points to lose."
    cost = cost_text("replies", result.usd_per_1000, result.seconds_per_1000)
    yield f"{counted(result.requests, 'request')}. {cost}"
