"""Summarises a task of a run: headline, what is unlike the paper, details of the results file, notes for the log."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_args

from mmie_tasks.core.tables import NO_VALUE, listed, percent_cell
from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored, UnscoredReason
from mmie_tasks.runs.benchmark import SCORE_KINDS, Record, ScoreKind
from mmie_tasks.runs.log_files import TaskRun
from mmie_tasks.runs.metric_values import MetricValue, metric_value, metrics_of
from mmie_tasks.runs.rows import replies_of

REASONS: tuple[UnscoredReason, ...] = tuple(
    reason for reason in get_args(UnscoredReason) if reason != NO_PROBABILITIES.reason
)
"""Why a sample can have no official or robust score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """What people quote of a task: one line of the block that a run ends with.

    Attributes:
        task: The task's name.
        official: The official score in percent, with its 95 % interval.
        robust: The robust score in percent.
        expected: The expected score in percent; None if no sample has one.
        scored: How many samples are scored: see `scored_of`.
        judge: The judge's model; empty for a benchmark that is scored by rule.
        marks: What makes the score incomparable with the published one: see `marks_of`.
    """

    task: str
    official: MetricValue | None
    robust: MetricValue | None
    expected: MetricValue | None
    scored: str
    judge: str
    marks: tuple[str, ...]

    @property
    def cells(self) -> tuple[str, ...]:
        """Task, official score with interval, robust and expected score, scored samples, judge and marks, as texts."""
        return (
            self.task,
            percent_cell(self.official.percent, self.official.interval) if self.official else NO_VALUE,
            percent_cell(self.robust.percent) if self.robust else NO_VALUE,
            percent_cell(self.expected.percent) if self.expected else NO_VALUE,
            self.scored,
            self.judge or "by rule",
            "; ".join(self.marks),
        )


def headline_of(task_run: TaskRun) -> Headline:
    """The headline of a task, computed from its samples."""
    metric, scale = metrics_of([task_run])[0], task_run.benchmark.scale
    values = {kind: metric_value(task_run.samples, metric, kind, scale) for kind in task_run.score_kinds}
    return Headline(
        task=task_run.task,
        official=values["official"],
        robust=values["robust"],
        expected=values.get("expected"),
        scored=scored_of(task_run),
        judge=judge_name(task_run),
        marks=marks_of(task_run),
    )


def scored_of(task_run: TaskRun) -> str:
    """How many samples have an official score: ``9 of 10 (1 left out by the official script)``."""
    verdicts = [sample.official for sample in task_run.samples]
    scored = sum(isinstance(verdict, Scored) for verdict in verdicts)
    left_out = sum(isinstance(verdict, Unscored) and verdict.reason == "left_out" for verdict in verdicts)
    remark = f" ({left_out:,} left out by the official script)" if left_out else ""
    return f"{scored:,} of {len(verdicts) - left_out:,}{remark}"


def signature_fields(signature: str) -> dict[str, str]:
    """Key to value, of a signature as it is logged; several values of a key are joined.

    >>> signature_fields("judge:openai|model:gpt-4o|paper_judge:no")["model"]
    'gpt-4o'
    """
    values: defaultdict[str, list[str]] = defaultdict(list)
    for part in filter(None, signature.split("|")):
        key, _, value = part.partition(":")
        values[key].append(value)
    return {key: ", ".join(parts) for key, parts in values.items()}


def judge_name(task_run: TaskRun) -> str:
    """The judge's model, or else its kind, from the signatures; empty for a benchmark that is scored by rule."""
    fields = [signature_fields(signature) for signature in task_run.signatures]
    return ", ".join(dict.fromkeys(filter(None, (entry.get("model") or entry.get("judge", "") for entry in fields))))


def marks_of(task_run: TaskRun) -> tuple[str, ...]:
    """What makes the numbers of a task incomparable with the published ones, the most important first.

    Empty if they may stand beside the published numbers: all published samples, the judge and the prompt words of
    the paper, and every sample scored.

    Args:
        task_run: The task with its samples.

    Returns:
        Short phrases: ``8 of 20,103 samples (--limit 8)``, ``judge: gpt-4o, not the paper's``, ``other prompt words``,
        ``3 unscored``.
    """
    fields = [signature_fields(signature) for signature in task_run.signatures]
    marks = [_part_of_samples(task_run)]
    if any(entry.get("paper_judge") == "no" for entry in fields):
        marks.append(f"judge: {judge_name(task_run)}, not the paper's")
    if not all(entry.get("prompt", "official").startswith("official") for entry in fields):
        marks.append("other prompt words")
    if any(entry.get("assembly", "official") != "official" for entry in fields):
        marks.append("other text in the judge's request")
    if any("min_coverage" in entry for entry in fields):
        marks.append("another floor of coverage")
    verdicts = [sample.official for sample in task_run.samples]
    unscored = sum(isinstance(verdict, Unscored) and verdict.reason != "left_out" for verdict in verdicts)
    marks.append(f"{unscored:,} unscored" if unscored else "")
    marks.append(f"{len(fields)} different signatures in one run" if len(fields) > 1 else "")
    return tuple(filter(None, marks))


def _part_of_samples(task_run: TaskRun) -> str:
    """How many of the published samples the run has, if it has another number of them."""
    published, n_samples = task_run.benchmark.published.get(task_run.task), len(task_run.samples)
    limit = f" (--limit {task_run.limit:g})" if task_run.limit else ""
    if published is None:
        return f"{n_samples:,} samples{limit}" if limit else ""
    return f"{n_samples:,} of {published:,} samples{limit}" if n_samples != published else ""


def details_of(task_run: TaskRun, records: Sequence[Record]) -> dict[str, float | None]:
    """Every number of a task, for the results file; the names do not depend on the samples.

    Scores are in percent, None without a mean: ``official_<metric>``, ``robust_<metric>`` and, for the metrics in the
    runner's table, both ends of the 95 % interval of the official score, ``ci95_low_<metric>`` and
    ``ci95_high_<metric>``. Counts of samples: ``scored_<metric>``, ``samples_<metric>``, ``unscored_<reason>``,
    ``points_<n>`` where points are whole numbers, ``differ``, and the benchmark's own. Of a benchmark that computes
    expected scores: ``expected`` in percent, the samples that have one, and their mean entropy in bits.
    """
    benchmark, samples = task_run.benchmark, task_run.samples
    details: dict[str, float | None] = {}
    for metric in metrics_of([task_run]):
        name = f"_{metric.name}" if metric.name else ""
        has_interval = metric.in_table or metric.kind == "headline"
        for kind in SCORE_KINDS:
            resamples = {} if has_interval and kind == "official" else {"resamples": 0}
            value = metric_value(samples, metric, kind, benchmark.scale, **resamples)
            details[f"{kind}{name}"] = value.percent if value else None
            if kind == "official":
                details[f"scored{name}"] = float(value.scored if value else 0)
                details[f"samples{name}"] = float(value.total if value else 0)
            if kind == "official" and has_interval:
                low, high = (value and value.interval) or (None, None)
                details |= {f"ci95_low{name}": low, f"ci95_high{name}": high}
    details["differ"] = float(sum(sample.differs for sample in samples))
    for kind, prefix in (("official", ""), ("robust", "robust_")):
        unscored = reasons_of(task_run, kind)
        details |= {f"{prefix}unscored_{reason}": float(unscored[reason]) for reason in REASONS}
    if benchmark.scale.whole:
        points = Counter(sample.official.points for sample in samples if isinstance(sample.official, Scored))
        details |= {f"points_{n}": float(points[n]) for n in range(int(benchmark.scale.full_marks) + 1)}
    if any("expected" in record for record in records):
        details |= _expected_details(task_run)
    return details | dict(benchmark.counts(records))


def _expected_details(task_run: TaskRun) -> dict[str, float | None]:
    metric, scale = metrics_of([task_run])[0], task_run.benchmark.scale
    value = metric_value(task_run.samples, metric, "expected", scale, resamples=0)
    with_score = [sample for sample in task_run.samples if isinstance(sample.expected, Scored)]
    entropies = [sample.entropy_bits for sample in with_score if sample.entropy_bits is not None]
    return {
        "expected": value.percent if value else None,
        "expected_samples": float(len(with_score)),
        "expected_entropy_bits": math.fsum(entropies) / len(entropies) if entropies else None,
    }


def reasons_of(task_run: TaskRun, kind: ScoreKind) -> Counter[str]:
    """How many samples have no score, by reason."""
    verdicts = (sample.verdict(kind) for sample in task_run.samples)
    return Counter(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))


def notes_of(task_run: TaskRun, records: Sequence[Record]) -> Iterator[str]:
    """Lines for the log about what is not as usual, about the judge's replies, and the signatures."""
    value = metric_value(task_run.samples, metrics_of([task_run])[0], "official", task_run.benchmark.scale, resamples=0)
    if value is not None and value.why_not:
        yield f"no official score: {value.why_not}"
    official, robust = (reasons_of(task_run, kind) for kind in SCORE_KINDS)
    if official == robust:
        yield from [f"unscored: {listed(official)}"] if official else []
    else:
        yield f"without official score: {listed(official) or 'none'}; without robust score: {listed(robust) or 'none'}"
    if differing := sum(sample.differs for sample in task_run.samples):
        yield f"official and robust scores differ: {differing:,}"
    yield from _describe_expected(task_run)
    yield from task_run.benchmark.notes(records)
    if task_run.benchmark.judge is not None:
        yield _describe_replies(records)
    yield from task_run.signatures


def _describe_expected(task_run: TaskRun) -> Iterator[str]:
    """One line if some scored samples have an expected score and others do not."""
    scored = [sample.expected for sample in task_run.samples if isinstance(sample.official, Scored)]
    missing = Counter(verdict.detail for verdict in scored if isinstance(verdict, Unscored))
    if 0 < missing.total() < len(scored):
        why = f"{listed(missing)}; replies cached before, or of another server, may have none"
        yield f"expected score: of {len(scored) - missing.total():,} of {len(scored):,} scored samples; without: {why}"


def _describe_replies(records: Sequence[Record]) -> str:
    """One line: replies per model, replies from the cache, tokens, US dollars.

    Tokens and dollars of cached replies are those of the first time.
    """
    replies = [reply for record in records for reply in replies_of(record)]
    models = Counter(str(reply["model"]) for reply in replies)
    cached = sum(bool(reply["cached"]) for reply in replies)
    usages = [reply["usage"] for reply in replies]
    tokens_in, tokens_out = (sum(usage[name] for usage in usages) for name in ("input_tokens", "output_tokens"))
    costs = [usage["cost_usd"] for usage in usages]
    dollars = "cost unknown" if None in costs else f"{sum(costs):.4f} USD"
    return (
        f"replies: {listed(models) or 'none'}; {cached:,} from the cache; "
        f"{tokens_in:,.0f} tokens in, {tokens_out:,.0f} out, {dollars}"
    )
