"""The end of a run: its last lines, its numbers in the results file, and its notes in the log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import fmean

from mmie_tasks.core.tables import NO_VALUE, percent_cell
from mmie_tasks.core.verdict import SCORE_KINDS, Scored, ScoreKind, Unscored
from mmie_tasks.core.wording import listed
from mmie_tasks.record.facts import summary_of, totals
from mmie_tasks.record.judgement import disagreement
from mmie_tasks.results.marks import paper_marks
from mmie_tasks.results.panels import judge_runs
from mmie_tasks.results.run import TaskRun
from mmie_tasks.results.scores import reasons_of

COLUMNS = ("task", "model", "official [95 %]", "robust", "scored", "judge", "unlike the paper")
"""The header of the block that a run ends with."""


def last_line(run: TaskRun, model: str) -> tuple[str, ...]:
    """The cells of `COLUMNS`: what people quote, and what makes it incomparable."""
    official, robust = map(run.headline, SCORE_KINDS)
    why = "; ".join((*_missing_scores(run), *paper_marks(run)))
    return (
        run.task,
        model,
        official.text if official else NO_VALUE,
        percent_cell(robust.percent if robust else None),  # its interval is in the report
        official.counts if official else NO_VALUE,
        run.judge_name or "by rule",
        why,
    )


def _missing_scores(run: TaskRun) -> Iterator[str]:
    """Why a headline is missing, each reason once."""
    reasons: dict[str, ScoreKind] = {}
    for kind in SCORE_KINDS:
        score = run.headline(kind)
        if score is None or score.percent is None:
            reasons.setdefault(score.why_not if score else "no sample counts for it", kind)
    yield from (f"no {kind} score: {reason}" for reason, kind in reasons.items())


def numbers_of(run: TaskRun) -> dict[str, float]:
    """Every number of a task, for the results file.

    * Scores in percent, absent without a mean: ``official_<metric>``, ``robust_<metric>``, and for
      the paper's columns the 95 % interval of the official score, from ``ci95_low_<metric>`` to
      ``ci95_high_<metric>``.
    * Counts of samples, absent if zero: ``scored_<metric>``, ``samples_<metric>``,
      ``left_out``, ``unscored_<reason>``, ``differ``, those of facts by their names, the
      benchmark's own, and ``points_<n>`` if points are whole numbers (a panel's may not be).
      Samples that the official script leaves out are in ``left_out`` only.
    """
    numbers: dict[str, float | int | None] = {}
    with_interval = {m.name for m in run.metrics if m.in_table or m.kind == "headline"}
    for score in run.scores:
        numbers[score.metric] = score.percent
        if score.kind == "official":
            suffix = score.metric.removeprefix("official")
            numbers |= {f"scored{suffix}": score.scored, f"samples{suffix}": score.total}
            if score.interval and suffix.removeprefix("_") in with_interval:
                numbers[f"ci95_low{suffix}"], numbers[f"ci95_high{suffix}"] = score.interval
    numbers["differ"] = sum(record.differs for record in run.records)
    for kind in SCORE_KINDS:
        prefix = "" if kind == "official" else "robust_"
        for reason, count in reasons_of(run.records, kind).items():
            numbers[f"{prefix}{'' if reason == 'left_out' else 'unscored_'}{reason}"] = count
    if run.benchmark.scale.whole and not any(signature.is_panel for signature in run.signatures):
        verdicts = (record.official for record in run.records)
        points = Counter(v.points for v in verdicts if isinstance(v, Scored))
        numbers |= {f"points_{n:g}": points[n] for n in sorted(points)}
    numbers |= totals(record.facts for record in run.records)
    numbers |= run.benchmark.counts(run.records)
    return {  # without counts of zero; counts are whole numbers
        name: value
        for name, value in numbers.items()
        if value is not None and (value or isinstance(value, float))
    }


def notes_of(run: TaskRun) -> Iterator[str]:
    """Lines for the log: what is unusual, the judge's replies, and the signatures."""
    yield from _missing_scores(run)
    yield from unscored_notes(run)
    yield from differing_notes(run)
    if noted := list(summary_of(record.facts for record in run.records)):
        yield f"answers: {'; '.join(noted)}"
    yield from run.benchmark.notes(run.records)
    if run.benchmark.judge is not None:
        yield from _describe_panel(run)
        yield _describe_replies(run)
    yield from map(str, run.signatures)


def unscored_notes(run: TaskRun) -> Iterator[str]:
    """Why samples have no score, and the most frequent detail of those reasons."""
    official, robust = (reasons_of(run.records, kind) for kind in SCORE_KINDS)
    if official == robust:
        yield from [f"unscored: {listed(official)}"] if official else []
    else:
        yield (
            f"without official score: {listed(official) or 'none'}; without robust score: "
            f"{listed(robust) or 'none'}"
        )
    verdicts = (record.official for record in run.records)
    details = Counter(
        verdict.detail
        for verdict in verdicts
        if isinstance(verdict, Unscored) and verdict.reason != "left_out" and verdict.detail
    )
    for detail, count in details.most_common(1):
        yield f"{count:,} unscored because: {detail}"


def differing_notes(run: TaskRun, min_share: float = 0.0) -> Iterator[str]:
    """How many samples have an official score that differs from the robust one, if they are more
    than this share of all.
    """
    differing = sum(record.differs for record in run.records)
    if differing > min_share * len(run.records):
        yield f"official and robust scores differ: {differing:,} of {len(run.records):,}"


def _describe_panel(run: TaskRun) -> Iterator[str]:
    """One line for each judge of a panel, with its failures, and one on how much they differ."""
    for number, (name, judge_run) in enumerate(judge_runs(run).items(), 1):
        total, reasons = len(judge_run.records), reasons_of(judge_run.records, "official")
        failures = f"; without: {listed(reasons)}" if reasons else ""
        yield (
            f"judge {number}, {name}: points in {total - reasons.total():,} of {total:,} "
            f"samples{failures}"
        )
    spreads = [spread.range for r in run.records if (spread := disagreement(r.members))]
    if spreads:
        yield (
            f"judges differ by {fmean(spreads):.2f} on average ({run.benchmark.scale.unit}), in "
            f"{len(spreads):,} samples with points of two or more"
        )


def _describe_replies(run: TaskRun) -> str:
    """Replies per model and from the cache; tokens and US dollars, also of cached replies."""
    replies = [reply for record in run.records for reply in record.replies]
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None]
    dollars = f"{sum(known):.4f} USD" if len(known) == len(costs) else "cost unknown"
    return (
        f"replies: {listed(Counter(reply.model for reply in replies)) or 'none'}; "
        f"{sum(reply.cached for reply in replies):,} from the cache; "
        f"{sum(reply.usage.input_tokens for reply in replies):,.0f} tokens in, "
        f"{sum(reply.usage.output_tokens for reply in replies):,.0f} out, {dollars}"
    )
