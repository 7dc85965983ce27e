"""What the runner does for a task with a judge: a check in time, and a ledger of tokens."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from loguru import logger

from mmie_tasks.judged import JudgedBy
from mmie_tasks.judges.base import JudgeReply, Outcome


def judged_by(room: ModuleType | None) -> JudgedBy | None:
    """The judge of a room, its ``JUDGED``; None for a benchmark that is scored by rule."""
    judged = getattr(room, "JUDGED", None)
    return judged if isinstance(judged, JudgedBy) else None


def check_judge(judged: JudgedBy, task: Any, rank: int) -> None:  # noqa: ANN401 - the runner's
    """Stop a run whose judge cannot work, before anything is generated.

    The network is asked by rank 0 only; what can be seen without it, by every rank.

    Raises:
        MmieTasksError: The judge, or what it is to be shown, cannot be used.
    """
    judged.sync = bool(getattr(getattr(task, "args", None), "baseline", None))
    judged.report = note_usage
    judged.make_room_with(_make_room)
    if rank == 0:
        judged.check()
    else:
        judged.judge()


def _make_room() -> None:
    """Take the device's memory back from the tested model, which has answered by now."""
    from mmie_tasks.runner.freeing import free_tested_models

    logger.info(free_tested_models())


def note_usage(outcome: Outcome) -> None:
    """Enter a reply that was paid for now into the runner's ledger, as ``judge``."""
    from lmms_eval.models.model_utils.usage_metrics import log_usage

    if isinstance(outcome, JudgeReply) and not outcome.cached:
        usage = outcome.usage
        log_usage(
            outcome.model,
            input_tokens=usage.input_tokens,
            output_tokens=max(0, usage.output_tokens - usage.reasoning_tokens),
            reasoning_tokens=usage.reasoning_tokens,
            source="judge",
        )
