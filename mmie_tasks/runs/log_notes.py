"""Lines for the log about a task of a run: what is unusual, its judge's replies, signatures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import fmean

from mmie_tasks.core.wording import listed
from mmie_tasks.record.judgement import disagreement
from mmie_tasks.record.record import Record
from mmie_tasks.record.sample import SCORE_KINDS
from mmie_tasks.runs.headline import headline_of
from mmie_tasks.runs.panels import judge_runs
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.values import reasons_of


def notes_of(task_run: TaskRun, records: Sequence[Record]) -> Iterator[str]:
    """Lines for the log: what is unusual, the judge's replies, and the signatures."""
    yield from headline_of(task_run).missing
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
    yield from task_run.benchmark.notes(records)
    if thinking := sum(sample.text.thinking for sample in task_run.samples):
        yield f"answers with thinking: {thinking:,}"
    if task_run.benchmark.judge is not None:
        yield from _describe_panel(task_run)
        yield _describe_replies(task_run)
    yield from map(str, task_run.signatures)


def _describe_panel(task_run: TaskRun) -> Iterator[str]:
    """One line for each judge of a panel, with its failures, and one on how much they differ."""
    for number, (name, judge_run) in enumerate(judge_runs(task_run).items(), 1):
        total, reasons = len(judge_run.samples), reasons_of(judge_run, "official")
        failures = f"; without: {listed(reasons)}" if reasons else ""
        yield (
            f"judge {number}, {name}: points in {total - reasons.total():,} of {total:,} "
            f"samples{failures}"
        )
    spreads = list(filter(None, (disagreement(s.members) for s in task_run.samples)))
    if spreads:
        mean = fmean(spread.range for spread in spreads)
        yield (
            f"judges differ by {mean:.2f} points on average, in {len(spreads):,} samples with "
            "points of two or more"
        )


def _describe_replies(task_run: TaskRun) -> str:
    """Replies per model and from the cache; tokens and US dollars, also of cached replies."""
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
