"""Computes the metrics of a task from its logged samples, and summarises them.

A metric has a score, an interval and its coverage. A summary has the headline, what is unlike the
paper, the details of the results file, and notes for the log.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import get_args

from mmie_tasks.core.tables import NO_VALUE, counted, listed, numbered_names, percent_cell, plural
from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored, UnscoredReason, Verdict
from mmie_tasks.record.metrics import (
    Metric,
    MetricValue,
    in_proportion,
    metric_value,
    samples_by_stratum,
)
from mmie_tasks.record.panel import Disagreement, disagreement
from mmie_tasks.record.sample import SCORE_KINDS, LoggedSample, Record, ScoreKind
from mmie_tasks.runs.run import TaskRun

REASONS: tuple[UnscoredReason, ...] = tuple(
    reason for reason in get_args(UnscoredReason) if reason != NO_PROBABILITIES.reason
)
"""Why a sample can have no official or robust score."""


def metrics_of(runs: Sequence[TaskRun]) -> tuple[Metric, ...]:
    """The metrics of a task, the headline first.

    A task that covers only part of its benchmark has the metrics whose groups it contains. If the
    benchmark's headline is not among them, the first metric that counts every sample replaces it.

    Args:
        runs: Runs of one task; at least one.
    """
    metrics = runs[0].benchmark.metrics
    if runs[0].task == runs[0].benchmark.name:
        return metrics
    samples = [sample for run in runs for sample in run.samples]
    groups = {
        kind: {name for sample in samples for name in sample.names(kind)}
        for kind in {metric.by for metric in metrics}
    }
    covered = [metric for metric in metrics if metric.weights.keys() <= groups[metric.by]]
    headline = metrics[0].kind
    if any(metric.kind == headline for metric in covered):
        return tuple(covered)
    first = next(
        (m for m in covered if all(m.stratum(sample) is not None for sample in samples)), None
    )
    if first is None:
        return metrics
    return (replace(first, kind=headline), *(metric for metric in covered if metric is not first))


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What people quote of a task: one line of the block that a run ends with.

    Attributes:
        scored: How many samples are scored: see `scored_of`.
        judge: The judge's model, or the panel; empty for a benchmark that is scored by rule.
        marks: What makes the score incomparable with the published one: see `marks_of`.
        missing: Why there is no official, robust or expected score; empty if there are all.
    """

    task: str
    official: MetricValue | None
    robust: MetricValue | None
    expected: MetricValue | None
    scored: str
    judge: str
    marks: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """Task, official score with interval, robust and expected score, scored samples, judge, and
        marks, as texts.

        Why a score does not exist is before the marks.
        """
        official = self.official and percent_cell(self.official.percent, self.official.interval)
        others = (value and percent_cell(value.percent) for value in (self.robust, self.expected))
        scores = (cell or NO_VALUE for cell in (official, *others))
        why = "; ".join((*self.missing, *self.marks))
        return (self.task, *scores, self.scored, self.judge or "by rule", why)


def headline_of(task_run: TaskRun) -> Headline:
    """The headline of a task, computed from its samples."""
    values = _headline_values(task_run)
    return Headline(
        task=task_run.task,
        official=values["official"],
        robust=values["robust"],
        expected=values.get("expected"),
        scored=scored_of(task_run),
        judge=judge_name(task_run),
        marks=marks_of(task_run),
        missing=tuple(_missing_scores(task_run, values)),
    )


def value_of(task_run: TaskRun, metric: Metric, kind: ScoreKind) -> MetricValue | None:
    """The value of a metric of a task, with its interval; None if no sample counts for it."""
    benchmark = task_run.benchmark
    return metric_value(
        task_run.samples, metric, kind, benchmark.scale, benchmark.strata, benchmark.stratum_sizes
    )


def _headline_values(task_run: TaskRun) -> Mapping[ScoreKind, MetricValue | None]:
    metric = metrics_of([task_run])[0]
    return {kind: value_of(task_run, metric, kind) for kind in task_run.score_kinds}


def _missing_scores(
    task_run: TaskRun, values: Mapping[ScoreKind, MetricValue | None]
) -> Iterator[str]:
    """Why the headline has no score, for each reason once; for a small ``--limit``, which one gives
    a score.

    ``no official score: 22 of 26 datasets not in this run; `--limit 58` has two of each``
    """
    metric, limit = metrics_of([task_run])[0], task_run.benchmark.two_of_each.get(task_run.task, 0)
    absent = metric.weights.keys() - samples_by_stratum(task_run.samples, metric).keys()
    groups = f"{len(absent)} of {counted(len(metric.weights), metric.by)} not in this run"
    reasons: dict[str, ScoreKind] = {}
    for kind, value in values.items():
        if absent and task_run.limit and task_run.limit < limit:
            reasons.setdefault(f"{groups}; `--limit {limit}` has two of each", kind)
        elif value is None or value.percent is None:
            reasons.setdefault(value.why_not if value else "no sample counts for it", kind)
    yield from (f"no {kind} score: {reason}" for reason, kind in reasons.items())


def scored_of(task_run: TaskRun) -> str:
    """How many samples have an official score: ``9 of 10 (1 left out by the official script)``."""
    reasons, total = reasons_of(task_run, "official"), len(task_run.samples)
    left_out = reasons["left_out"]
    remark = f" ({left_out:,} left out by the official script)" if left_out else ""
    return f"{total - reasons.total():,} of {total - left_out:,}{remark}"


def judge_name(task_run: TaskRun) -> str:
    """The names of the judges of a task's samples, by `Signature.name`; empty for a benchmark
    that is scored by rule.
    """
    return ", ".join(
        dict.fromkeys(filter(None, (signature.name for signature in task_run.signatures)))
    )


def judge_facts(sample: LoggedSample) -> dict[str, str]:
    """For display, of a panel's sample: each judge's points or the reason for none, and how far
    they differ.

    The name of a fact is that of the judge: ``{"judge gpt-4o": "4", "judges differ by": "1"}``.
    """
    facts = {}
    names = numbered_names([member.judge.name or "without a name" for member in sample.members])
    for name, member in zip(names, sample.members, strict=True):
        official, robust = member.verdicts.official, member.verdicts.robust
        also = f" (robust: {_points(robust)})" if member.verdicts.differ else ""
        facts[f"judge {name}"] = f"{_points(official)}{also}"
    if spread := disagreement(sample.members):
        facts["judges differ by"] = f"{spread.range:g}"
    return facts


def _points(verdict: Verdict) -> str:
    return f"{verdict.points:g}" if isinstance(verdict, Scored) else f"no points: {verdict.reason}"


def marks_of(task_run: TaskRun) -> tuple[str, ...]:
    """What makes the numbers of a task incomparable with the published ones, the most important
    first: ``8 of 20,103 samples (--limit 8)``, ``judge: gpt-4o, not the paper's``.

    Empty if they may stand beside the published numbers: all published samples, the judge and the
    prompt words of the paper, and every sample scored.
    """
    return tuple(filter(None, _marks(task_run)))


def _marks(task_run: TaskRun) -> Iterator[str]:
    signatures = task_run.signatures
    fields = [signature.fields for signature in signatures]
    benchmark = task_run.benchmark
    yield _part_of_samples(task_run)
    if not in_proportion(task_run.samples, benchmark.strata, benchmark.stratum_sizes):
        yield f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"
    if any(signature.is_of_another_judge for signature in signatures):
        yield f"judge: {judge_name(task_run)}, not the paper's"
    if not all(entry.get("prompt", "official").startswith("official") for entry in fields):
        yield "other prompt words"
    if any(entry.get("assembly", "official") != "official" for entry in fields):
        yield "other text in the judge's request"
    if any("min_coverage" in entry for entry in fields):
        yield "another floor of coverage"
    yield from _picture_marks(task_run)
    reasons = reasons_of(task_run, "official")
    if unscored := reasons.total() - reasons["left_out"]:
        yield f"{unscored:,} unscored"
    if len(fields) > 1:
        yield f"{len(fields)} different signatures in one run"


def _picture_marks(task_run: TaskRun) -> Iterator[str]:
    words = filter(None, (signature.picture_words for signature in task_run.signatures))
    names, form = ", ".join(dict.fromkeys(words)), task_run.answer_form
    if form == "instructed":
        yield f"asked for pictures with words of ours ({names})"
    elif form == "drawn":
        yield f"pictures drawn by our reconstruction ({names}), not by the paper's pipeline"
    cut = sum(bool(sample.facts.get("truncated")) for sample in task_run.samples)
    if form != "plain" and cut:
        yield f"{counted(cut, 'answer')} cut by the limit on images"
    if not_drawn := sum(sample.pictures_not_drawn for sample in task_run.samples):
        yield f"{counted(not_drawn, 'picture')} not drawn"
    if signs := Counter(sign for sample in task_run.samples for sign in sample.picture_signs):
        yield f"answers that may have unread pictures: {listed(signs)}"


def _part_of_samples(task_run: TaskRun) -> str:
    """How many of the published samples the run has, if it has another number of them."""
    published, n_samples = task_run.benchmark.published.get(task_run.task), len(task_run.samples)
    limit = f" (--limit {task_run.limit:g})" if task_run.limit else ""
    if published is None:
        return f"{n_samples:,} samples{limit}" if limit else ""
    return f"{n_samples:,} of {published:,} samples{limit}" if n_samples != published else ""


def details_of(task_run: TaskRun, records: Sequence[Record]) -> dict[str, float | None]:
    """Every number of a task, for the results file; the names do not depend on the samples.

    Scores are in percent, None without a mean: ``official_<metric>``, ``robust_<metric>`` and, for
    the metrics in the runner's table, both ends of the 95 % interval of the official score,
    ``ci95_low_<metric>`` and ``ci95_high_<metric>``. Counts of samples: ``scored_<metric>``,
    ``samples_<metric>``, ``unscored_<reason>``, ``points_<n>`` where points are whole numbers,
    ``differ``, and the benchmark's own. Of a benchmark that computes expected scores: ``expected``
    in percent, the samples that have one, and their mean entropy in bits.

    Of a panel, whose points need not be whole: for the n-th judge ``judge_<n>_asked`` and
    ``judge_<n>_scored`` in samples, and ``judge_<n>_official``, its own score; ``judges_compared``,
    the samples with points of two judges or more, and the means of their range and standard
    deviation in points, ``judges_range`` and ``judges_sd``.
    """
    benchmark, samples = task_run.benchmark, task_run.samples
    details: dict[str, float | None] = {}
    for metric in metrics_of([task_run]):
        details |= _metric_details(task_run, metric)
    details["differ"] = float(sum(sample.differs for sample in samples))
    prefixes: dict[ScoreKind, str] = {"official": "", "robust": "robust_"}
    for kind, prefix in prefixes.items():
        unscored = reasons_of(task_run, kind)
        details |= {f"{prefix}unscored_{reason}": float(unscored[reason]) for reason in REASONS}
    if judge_runs := _judge_runs(task_run):
        details |= _panel_details(task_run, judge_runs)
    elif benchmark.scale.whole:
        points = Counter(v.points for s in samples if isinstance(v := s.official, Scored))
        full_marks = int(benchmark.scale.full_marks)
        details |= {f"points_{n}": float(points[n]) for n in range(full_marks + 1)}
    if any("expected" in record for record in records):
        details |= _expected_details(task_run)
    return details | dict(benchmark.counts(records))


def _metric_details(task_run: TaskRun, metric: Metric) -> dict[str, float | None]:
    """Scores, counts and, of a metric that people quote, the interval."""
    name = f"_{metric.name}" if metric.name else ""
    has_interval = metric.in_table or metric.kind == "headline"
    official, robust = (value_of(task_run, metric, kind) for kind in SCORE_KINDS)
    details = {
        f"official{name}": official.percent if official else None,
        f"scored{name}": float(official.scored if official else 0),
        f"samples{name}": float(official.total if official else 0),
    }
    if has_interval:
        low, high = (official and official.interval) or (None, None)
        details |= {f"ci95_low{name}": low, f"ci95_high{name}": high}
    return details | {f"robust{name}": robust.percent if robust else None}


def _panel_details(task_run: TaskRun, judge_runs: Mapping[str, TaskRun]) -> dict[str, float | None]:
    details: dict[str, float | None] = {}
    for number, judge_run in enumerate(judge_runs.values(), 1):
        total = len(judge_run.samples)
        details[f"judge_{number}_asked"] = float(total)
        details[f"judge_{number}_scored"] = float(total - reasons_of(judge_run, "official").total())
        details[f"judge_{number}_official"] = _headline_percent(judge_run, "official")
    spreads = _disagreements(task_run)
    return details | {
        "judges_compared": float(len(spreads)),
        "judges_range": fmean(spread.range for spread in spreads) if spreads else None,
        "judges_sd": fmean(spread.sd for spread in spreads) if spreads else None,
    }


def _judge_runs(task_run: TaskRun) -> dict[str, TaskRun]:
    """The name of each judge of a panel to the samples that it was asked about, with its own
    official verdicts; empty for a single judge.
    """
    names = max((signature.judge_names for signature in task_run.signatures), key=len, default=[])
    judge_runs = {}
    for index, name in enumerate(names):
        asked = [sample for sample in task_run.samples if len(sample.members) > index]
        verdicts = [sample.members[index].verdicts.official for sample in asked]
        judged = (replace(s, official=v) for s, v in zip(asked, verdicts, strict=True))
        judge_runs[name] = replace(task_run, samples=tuple(judged))
    return judge_runs


def _disagreements(task_run: TaskRun) -> list[Disagreement]:
    return list(filter(None, (disagreement(sample.members) for sample in task_run.samples)))


def _expected_details(task_run: TaskRun) -> dict[str, float | None]:
    with_score = [sample for sample in task_run.samples if isinstance(sample.expected, Scored)]
    entropies = [sample.entropy_bits for sample in with_score if sample.entropy_bits is not None]
    return {
        "expected": _headline_percent(task_run, "expected"),
        "expected_samples": float(len(with_score)),
        "expected_entropy_bits": math.fsum(entropies) / len(entropies) if entropies else None,
    }


def _headline_percent(task_run: TaskRun, kind: ScoreKind) -> float | None:
    value = value_of(task_run, metrics_of([task_run])[0], kind)
    return value.percent if value else None


def reasons_of(task_run: TaskRun, kind: ScoreKind) -> Counter[str]:
    """How many samples have no score, by reason."""
    verdicts = (sample.verdict(kind) for sample in task_run.samples)
    return Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))


def notes_of(task_run: TaskRun, records: Sequence[Record]) -> Iterator[str]:
    """Lines for the log about what is not as usual, about the judge's replies, and the
    signatures.
    """
    yield from _missing_scores(task_run, _headline_values(task_run))
    official, robust = (reasons_of(task_run, kind) for kind in SCORE_KINDS)
    if official == robust:
        yield from [f"unscored: {listed(official)}"] if official else []
    else:
        yield (
            f"without official score: {listed(official) or 'none'}; without robust score: "
            f"{listed(robust) or 'none'}"
        )
    if differing := sum(sample.differs for sample in task_run.samples):
        yield f"official and robust scores differ: {differing:,}"
    yield from _describe_expected(task_run)
    yield from task_run.benchmark.notes(records)
    if task_run.benchmark.judge is not None:
        yield from _describe_panel(task_run)
        yield _describe_replies(task_run)
    yield from map(str, task_run.signatures)


def _describe_expected(task_run: TaskRun) -> Iterator[str]:
    """One line if some scored samples have an expected score and others do not."""
    scored = [sample.expected for sample in task_run.samples if isinstance(sample.official, Scored)]
    missing = Counter(verdict.detail for verdict in scored if isinstance(verdict, Unscored))
    if 0 < missing.total() < len(scored):
        why = f"{listed(missing)}; replies cached before, or of another server, may have none"
        yield (
            f"expected score: of {len(scored) - missing.total():,} of {len(scored):,} scored "
            f"samples; without: {why}"
        )


def _describe_panel(task_run: TaskRun) -> Iterator[str]:
    """One line for each judge of a panel, with its failures, and one about their disagreement."""
    for number, (name, judge_run) in enumerate(_judge_runs(task_run).items(), 1):
        total, reasons = len(judge_run.samples), reasons_of(judge_run, "official")
        failures = f"; without: {listed(reasons)}" if reasons else ""
        yield (
            f"judge {number}, {name}: points in {total - reasons.total():,} of {total:,} "
            f"samples{failures}"
        )
    if spreads := _disagreements(task_run):
        mean = fmean(spread.range for spread in spreads)
        yield (
            f"judges differ by {mean:.2f} points on average, in {len(spreads):,} samples with "
            "points of two or more"
        )


def _describe_replies(task_run: TaskRun) -> str:
    """One line: replies per model, replies from the cache, tokens, US dollars.

    Tokens and dollars of cached replies are those of the first time.
    """
    replies = [reply for sample in task_run.samples for reply in sample.replies]
    models = Counter(reply.model for reply in replies)
    cached = sum(reply.cached for reply in replies)
    tokens_in = sum(reply.usage.input_tokens for reply in replies)
    tokens_out = sum(reply.usage.output_tokens for reply in replies)
    costs = [cost for reply in replies if (cost := reply.usage.cost_usd) is not None]
    dollars = f"{sum(costs):.4f} USD" if len(costs) == len(replies) else "cost unknown"
    return (
        f"replies: {listed(models) or 'none'}; {cached:,} from the cache; "
        f"{tokens_in:,.0f} tokens in, {tokens_out:,.0f} out, {dollars}"
    )
