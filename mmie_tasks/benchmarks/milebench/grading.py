"""Both readings of what the runner has of the tested model."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.answers.sentinels import NOT_TEXT, failure_of
from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.benchmarks.milebench.scoring import metrics


def grade(sample: Sample, results: Sequence[object], unseen: str | None = None) -> metrics.Reading:
    """One answer, read both ways; several (a model that answers in rounds) are no text.

    Args:
        sample: The question.
        results: What the runner has.
        unseen: Why the model could not be shown an image, if it could not.
    """
    answer = results[0] if len(results) == 1 else list(results)
    if isinstance(answer, str) and answer.startswith(NOT_TEXT):
        return metrics.unscored("not_text", answer.removeprefix(NOT_TEXT).strip()[:80])
    if unseen:
        return metrics.unscored("bad_image", unseen)
    return metrics.read(sample, answer, failure_of(answer))
