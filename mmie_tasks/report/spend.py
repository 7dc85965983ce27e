"""What the judge's replies of a run took: tokens and money."""

from __future__ import annotations

import math
from collections import Counter

from mmie_tasks.report.joined import Joined
from mmie_tasks.report.plain import Json, cut, finite
from mmie_tasks.runs.run import TaskRun

_NAME = 100  # characters of a model's name


def spend(task: Joined) -> list[list[object]]:
    """Of each run with replies: its place, and what they took when they were new."""
    return [
        [index, _of(run)]
        for index, run in task.present
        if any(sample.replies for sample in run.samples)
    ]


def _of(run: TaskRun) -> Json:
    replies = [reply for sample in run.samples for reply in sample.replies]
    costs = [reply.usage.cost_usd for reply in replies]
    known = [cost for cost in costs if cost is not None and math.isfinite(cost)]
    models = Counter(cut(reply.model, _NAME) for reply in replies)
    return {
        "replies": len(replies),
        "remembered": sum(reply.cached for reply in replies),
        "models": dict(models.most_common()),
        "input_tokens": sum(reply.usage.input_tokens for reply in replies),
        "output_tokens": sum(reply.usage.output_tokens for reply in replies),
        "cost_usd": finite(math.fsum(known)) if len(known) == len(costs) else None,
    }
