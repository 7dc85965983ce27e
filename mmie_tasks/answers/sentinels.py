"""Texts that stand where an answer should be: ours for saved answers, the runner's for failures.

Source of the runner's texts: lmms-eval 0.7.3, ``models/`` and ``llm_judge/`` (they reach the
scorer as if the tested model had said them).
"""

from __future__ import annotations

MISSING = "[PREDICTIONS_MISSING]"
"""No answer was saved for the sample, or null."""

NOT_TEXT = "[PREDICTIONS_NOT_TEXT]"
"""The saved answer is a number, a list or an object; its JSON follows."""

_REASONS = (
    (MISSING, "no saved answer"),
    (NOT_TEXT, "the saved answer is not text"),
    ("[LMMS_EVAL_REQUEST_FAILED", "the request to the tested model failed"),
    ("[LMMS_EVAL_BUDGET_EXCEEDED]", "the token budget was used up"),
    ("[GENERATION_FAILED]", "generation failed"),
    ("[ERROR]", "the tested model reported an error"),
)


def failure_of(answer: object) -> str | None:
    """Why this is no answer of the tested model, or None where it is one.

    Only the beginning counts: an answer may quote such a text. Of several rounds, the first that
    failed is the reason.

    >>> failure_of("[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503")
    'the request to the tested model failed'
    >>> failure_of("The log says [ERROR]") is None
    True
    """
    if isinstance(answer, (list, tuple)):
        turns = (turn for turn in answer if isinstance(turn, str))
        return next((reason for turn in turns if (reason := failure_of(turn))), None)
    if not isinstance(answer, str):
        return None
    start = answer.lstrip()
    return next((reason for text, reason in _REASONS if start.startswith(text)), None)
