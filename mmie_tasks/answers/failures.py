"""Recognises failures in the place of an answer, such as an error message of a server.

The list has what lmms-eval and the most used clients write. Other texts are answers; the same text
in many answers shows in the last lines of a run (`mmie_tasks.results.marks`).
"""

from __future__ import annotations

import re

_NO_ANSWER = "[NO_ANSWER] "
_NULL_REPLY = "the reply of the tested model was null"

_FAILURES = {
    "[LMMS_EVAL_REQUEST_FAILED": "the request to the tested model failed",  # openai, gemini
    "[LMMS_EVAL_BUDGET_EXCEEDED]": "the token budget was used up",
    "[SAFETY_BLOCKED": "the API of the tested model blocked the answer",  # gemini
    "[GENERATION_FAILED]": "generation failed",  # wan2_1_t2i and other drawing models
    "[ERROR]": "the tested model reported an error",
    'Error: can only concatenate str (not "NoneType") to str': _NULL_REPLY,  # async_openai
}
"""Marker at the beginning of a text to the reason: those of lmms-eval 0.7.3 (``models``)."""

# What scripts save of an exception: VLMEvalKit (`fail_msg`), LiteLLM, the OpenAI and Anthropic
# SDKs (`_exceptions.py`), google-genai (`errors.py`), DashScope, PyTorch, Python.
_EXCEPTION = re.compile(
    r"""
    (?:error:\s+)?
    (?: failed\ to\ obtain\ answer\ via\ api
      | litellm\.\w+: | (?:openai|anthropic|google\.[\w.]+)\.\w+(?:error|exception|exhausted)\b
      | (?:api\w*|ratelimit|badrequest|authentication|permissiondenied|internalserver)error\s?[:(]
      | traceback\ \(most\ recent\ call\ last\):
      | error\ code:\ [45]\d\d\b | [45]\d\d\ [A-Z_]+\.\ \{
      | (?:request\ timed\ out|connection\ error)\.\s*\Z
      | (?:input|output)\ data\ may\ contain\ inappropriate\ content
      | (?:torch\.(?:cuda\.)?outofmemoryerror:\s)?cuda\ (?:out\ of\ memory|error:) )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_EMPTY_CELLS = ("nan", "None")  # pandas, Python


def no_answer(reason: str) -> str:
    """The text in the place of an answer that does not exist; `failure_of` returns the reason.

    >>> failure_of(no_answer("no saved answer"))
    'no saved answer'
    """
    return f"{_NO_ANSWER}{reason}"


MISSING = no_answer("no saved answer")
"""In place of a saved answer that is missing."""

NULL = no_answer("the saved answer is null")
"""In place of a saved answer that is null."""

NO_REPLY = no_answer(_NULL_REPLY)
"""In place of a null reply, of which the runner would make an empty answer."""


def failure_of(text: str) -> str | None:
    """Why a text is not an answer of the tested model; None if it is one.

    Only the beginning counts, since an answer may quote an error; ``nan`` and ``None`` are what
    scripts save of an empty cell.

    >>> failure_of("Error code: 429 - {'error': {'message': 'Rate limit reached'}}")
    'the client or server of the tested model reported an error'
    >>> failure_of("The log says [ERROR]") is None
    True
    """
    start = text.lstrip()
    if start.startswith(_NO_ANSWER):
        return start.removeprefix(_NO_ANSWER)
    if reason := next((r for marker, r in _FAILURES.items() if start.startswith(marker)), None):
        return reason
    if start.rstrip() in _EMPTY_CELLS:
        return f"the text in the place of an answer is `{start.rstrip()}`"
    if _EXCEPTION.match(start):
        return "the client or server of the tested model reported an error"
    return None
