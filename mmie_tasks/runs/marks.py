"""What makes the numbers of a task of a run incomparable with the published ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mmie_tasks.core.settings import COVERAGE_FLOOR
from mmie_tasks.core.wording import counted, listed, plural
from mmie_tasks.record.answer_facts import UNPLACED
from mmie_tasks.record.metrics import in_proportion
from mmie_tasks.record.sight import unseen_pictures
from mmie_tasks.runs.answerers import answerer_marks
from mmie_tasks.runs.panels import judge_runs
from mmie_tasks.runs.run import TaskRun
from mmie_tasks.runs.text_marks import text_marks
from mmie_tasks.runs.values import reasons_of


def paper_marks(task_run: TaskRun) -> tuple[str, ...]:
    """What makes the numbers of a task incomparable with the published ones, the most important
    first: ``8 of 20,103 samples (--limit 8)``, ``judge: gpt-4o, not the paper's``.

    Empty if they are comparable: all published samples, the judge and the prompt words of the
    paper, and every sample scored.
    """
    return tuple(filter(None, _marks(task_run)))


def _marks(task_run: TaskRun) -> Iterator[str]:
    signatures = task_run.signatures
    benchmark = task_run.benchmark
    yield _part_of_samples(task_run)
    if not in_proportion(task_run.samples, benchmark.strata, benchmark.stratum_sizes):
        yield f"{plural(benchmark.strata)} not in {benchmark.title}'s proportions"
    if any(signature.is_of_another_judge for signature in signatures):
        yield f"judge: {task_run.judge_name}, not the paper's"
    yield from answerer_marks(task_run.samples)
    for judge in {signature.self_judge: None for signature in signatures if signature.self_judge}:
        yield f"judge and tested model are one: {judge}"
    yield from _sight_marks(task_run)
    if any(signature.has_other_prompt for signature in signatures):
        yield "other prompt words"
    if any(signature.has_other_assembly for signature in signatures):
        yield "other text in the judge's request"
    if any(signature.min_coverage != COVERAGE_FLOOR for signature in signatures):
        yield "another floor of coverage"
    yield from _picture_marks(task_run)
    yield from text_marks(task_run.samples)
    reasons = reasons_of(task_run, "official")
    if unscored := reasons.total() - reasons["left_out"]:
        yield f"{unscored:,} unscored"
    if len(signatures) > 1:
        yield f"{len(signatures)} different signatures in one run"


def _sight_marks(task_run: TaskRun) -> Iterator[str]:
    """One for each judge that may not have seen the pictures."""
    for judge_run in judge_runs(task_run).values() or [task_run]:
        replies = (reply for sample in judge_run.samples for reply in sample.replies)
        if reason := unseen_pictures(replies):
            yield f"the judge may not have seen the pictures: {reason}"


def _picture_marks(task_run: TaskRun) -> Iterator[str]:
    words = filter(None, (signature.picture_words for signature in task_run.signatures))
    names, form = ", ".join(dict.fromkeys(words)), task_run.answer_form
    if form == "instructed":
        yield f"asked for pictures with words of ours ({names})"
    elif form == "drawn":
        yield f"pictures drawn by our reconstruction ({names}), not by the paper's pipeline"
    cut = sum(sample.answer_cut for sample in task_run.samples)
    if form != "plain" and cut:
        yield f"{counted(cut, 'answer')} cut by the limit on images"
    if not_drawn := sum(sample.pictures_not_drawn for sample in task_run.samples):
        yield f"{counted(not_drawn, 'picture')} not drawn"
    if unplaced := sum(sample.pictures_unplaced > 0 for sample in task_run.samples):
        yield f"{UNPLACED}: {counted(unplaced, 'answer')}"
    if signs := Counter(sign for sample in task_run.samples for sign in sample.picture_signs):
        yield f"answers that may have unread pictures: {listed(signs)}"


def _part_of_samples(task_run: TaskRun) -> str:
    """How many of the published samples the run has, if it has another number of them."""
    published, n_samples = task_run.benchmark.published.get(task_run.task), len(task_run.samples)
    options = (("--limit", task_run.limit), ("--offset", task_run.offset))
    part = " ".join(f"{option} {value:g}" for option, value in options if value)
    part = part and f" ({part})"
    if published is None:
        return f"{n_samples:,} samples{part}" if part else ""
    return f"{n_samples:,} of {published:,} samples{part}" if n_samples != published else ""
