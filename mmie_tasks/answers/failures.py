"""Texts in the place of an answer, and what they say went wrong."""

from __future__ import annotations

from mmie_tasks.answers.drawn import read_drawn_answer

MISSING = "[PREDICTIONS_MISSING]"
"""Stands for the answer of a sample without a saved answer, or with null."""

NOT_TEXT = "[PREDICTIONS_NOT_TEXT]"
"""The saved answer is a number, a list or an object; its JSON follows."""

NO_REPLY = "[NO_REPLY]"
"""Stands for a null reply, which the runner would make an empty answer."""

NOT_AN_ANSWER = "[REPLY_NOT_AN_ANSWER]"
"""The reply of a chat server has no answer that can be read; the reason follows."""

_MAX_REASON_CHARACTERS = 80

# Those of this package without a reason of their own, and those that lmms-eval 0.7.3 (``models/``,
# ``llm_judge/``) and vLLM-Omni (``serving_chat.py``) return for failures as if they were answers.
_FAILURES = (
    (MISSING, "no saved answer"),
    (NOT_TEXT, "the saved answer is not text"),
    (NO_REPLY, "the reply of the tested model was null"),
    ("[SAFETY_BLOCKED", "the API of the tested model blocked the answer"),  # gemini
    ("[LMMS_EVAL_REQUEST_FAILED", "the request to the tested model failed"),
    ("[LMMS_EVAL_BUDGET_EXCEEDED]", "the token budget was used up"),
    ("[GENERATION_FAILED]", "generation failed"),
    ("Image generation completed but no images", "the server of the tested model drew no picture"),
    ("[ERROR]", "the tested model reported an error"),
    # async_openai
    ("Error: can only concatenate str (not ", "the content of the server's reply was no text"),
)


def not_text(content: str) -> str:
    """What takes the place of a saved answer that is not text; `content` is its JSON, or why."""
    return f"{NOT_TEXT} {content}"


def not_text_content(answer: str) -> str | None:
    """What `not_text` was given; None for any other answer.

    >>> not_text_content(not_text("3.5"))
    '3.5'
    """
    return answer.removeprefix(NOT_TEXT).strip() if answer.startswith(NOT_TEXT) else None


def not_an_answer(reason: str) -> str:
    """What takes the place of a reply without an answer; `failure_of` repeats the reason.

    >>> failure_of(not_an_answer("not text"))
    "the server's reply is not an answer: not text"
    """
    return f"{NOT_AN_ANSWER} {reason}"


def failure_of(answer: object) -> str | None:
    """Why this is no answer of the tested model; None if it is one.

    Only the beginning counts: an answer may quote such a text. Of several rounds, the first that
    failed gives the reason. Of ``--model interleaved``, the writer's answer counts.

    >>> failure_of("[LMMS_EVAL_REQUEST_FAILED after 3 retries] 503")
    'the request to the tested model failed'
    >>> failure_of("The log says [ERROR]") is None
    True
    """
    if isinstance(answer, (list, tuple)):
        rounds = (text for text in answer if isinstance(text, str))
        return next((reason for text in rounds if (reason := failure_of(text))), None)
    if not isinstance(answer, str):
        return None
    if (drawn := read_drawn_answer(answer)) and isinstance(drawn.answer, str):
        return failure_of(drawn.answer)
    start = answer.lstrip()
    if start.startswith(NOT_AN_ANSWER):
        reason = start.removeprefix(NOT_AN_ANSWER).strip()[:_MAX_REASON_CHARACTERS]
        return f"the server's reply is not an answer: {reason}"
    return next((reason for text, reason in _FAILURES if start.startswith(text)), None)
