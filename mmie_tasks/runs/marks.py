"""What makes the numbers of a run incomparable with the published ones, in a few words each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.runs.log_files import TaskRun


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
    marks += [mark for applies, mark in _SETTINGS.items() if any(applies(entry) for entry in fields)]
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


def _uses_other_prompts(fields: Mapping[str, str]) -> bool:
    return "prompt" in fields and not fields["prompt"].startswith("official")


def _has_other_request(fields: Mapping[str, str]) -> bool:
    return fields.get("assembly", "official") != "official"


def _has_other_floor(fields: Mapping[str, str]) -> bool:
    return "min_coverage" in fields


_SETTINGS = {
    _uses_other_prompts: "other prompt words",
    _has_other_request: "other text in the judge's request",
    _has_other_floor: "another floor of coverage",
}
"""Whether a setting applies to the fields of a signature, to the mark that says so."""
