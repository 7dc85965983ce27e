"""Recognises failures that stand in for an answer, such as an error message of a server."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mmie_tasks.answers.drawn import read_drawn_answer

MISSING = "[PREDICTIONS_MISSING]"
"""In place of a saved answer that is missing or null."""

NOT_TEXT = "[PREDICTIONS_NOT_TEXT]"
"""In place of a saved answer that is a number, a list or an object; its JSON follows."""

NO_REPLY = "[NO_REPLY]"
"""In place of a null reply, of which the runner would make an empty answer."""

_NOT_AN_ANSWER = "[REPLY_NOT_AN_ANSWER]"
"""In place of a chat server's reply without a readable answer; the reason follows."""

_MAX_REASON_CHARACTERS = 80

# What this package, lmms-eval 0.7.3 (``models/``, ``llm_judge/``) and vLLM-Omni
# (``serving_chat.py``) put in place of an answer.
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
    ("Error: can only concatenate str (not ", "the content of the server's reply was not text"),
)


_GATEWAY = (
    r"bad\sgateway|(?:service|server)\s(?:temporarily\s)?unavailable|gateway\stime-?out"
    r"|internal\sserver\serror|too\smany\srequests|request\stime-?out"
    r"|upstream\srequest\stimeout|no\shealthy\supstream|stream\stimeout"
)
# An exception of a package (`litellm.RateLimitError`), or one that only clients of servers raise.
_EXCEPTION = r"""
    (?: (?-i:(?:[a-z_]\w*\.)+[A-Z]\w*(?:Error|Exception|Timeout|Exhausted|Unavailable|Denied|Found))
      | litellm\.\w+
      | (?:api\w*|ratelimit|authentication|badrequest|permissiondenied|unprocessableentity
          |(?:internal|client|server)\w*|serviceunavailable|overloaded|invalidrequest|notfound
          |context\w+exceeded|contentpolicyviolation|outofmemory|connection\w*|http\w*|ssl|proxy
          |timeout|(?:max)?retry|throttling|quota\w*|stopcandidate|blockedprompt
        )(?:error|exception)
      | readtimeout | connecttimeout | resourceexhausted
    )\s?[:(\[]
"""
# How the messages of clients, servers and other runners begin, perhaps after "Error: " or "Error
# calling the model: ". The sources are in ``README.md``.
_FAILURE = re.compile(
    rf"""
    \W{{0,4}}
    (?: (?:(?:api|http|llm|server)\s)? [\w.]{{0,60}}(?:error|exception|failed|failure)
        (?:\s[\w-]+){{0,5}}
        \W{{0,3}}(?:[:-]\s+|\() \W{{0,2}} ){{0,2}}
    (?:
      (?P<error> error\ code:\ [45]\d\d\b | http\ error\ [45]\d\d:
        | [45]\d\d\ (?:client|server)\ error\b | (?:client|server)\ error\ '[45]\d\d\b
        | request\ failed\ with\ status\ code\ [45]\d\d\b
        | (?-i:[45]\d\d\ (?:[A-Z]+_[A-Z_]+\b|[A-Z]+\.\s\{{))
        | an\ error\ occurred\ \(\w+\)\ when\ calling\ the\b
        | (?:[45]\d\d\s)?\[?\{{\s* (?:
            ["']error["']\s*:\s*\{{\s*["'](?:message|code|type|status|param|innererror)["']
          | ["'](?:object|type)["']\s*:\s*["']error["']
          | ["'](?:error|detail)["']\s*:\s*["'][^"']*["']\s*\}}\s*\Z )
        | {_EXCEPTION} | traceback\ \(most\ recent\ call\ last\):(?=.*^{_EXCEPTION}) )
      | (?P<connection> https?connectionpool\(host= | connection\ aborted\.'
        | errno\ -?\d+\] | server\ disconnected\ without\ sending
        | max\ retries\ exceeded\ with | upstream\ connect\ error\b
        | network\ error\ due\ to\ high\ traffic
        | (?:(?:http\ )?[45]\d\d\ )?(?:{_GATEWAY}|request\ timed\ out|connection\ error
            |connection\ refused|error\ code:\ \d{{3,4}})[.!]?\s*\Z
        | <?(?:!doctype\ html|html)\b(?=.{{0,3000}}?<(?:title|h1)\b[^<>]*>[^<]{{0,80}}
            (?:{_GATEWAY}|\b[45]\d\d\s(?:error|forbidden|not\ found|unauthorized)
              |error\ [45]\d\d|\b5\d\d:\s|just\ a\ moment|attention\ required|access\ denied)) )
      | (?P<memory> (?:cuda|hip|mps|npu|xpu|gpu)\b[^\n]{{0,20}}\bout\ of\ memory
        | cuda\ error:\ )
      | (?P<blocked> (?:input|output)(?:\ or\ output)?(?:\ (?:text|image))?\ data\ may\ contain
          \ inappropriate\ content
        | output\ blocked\ by\ content\ filtering | (?:moderation\W\W?)?your\ input\ violates\ our
        | the\ response\ was\ filtered\ due\ to )
      | (?P<runner> failed\ to\ obtain\ answer | failed_infer\b | error\$
        | agent\ stopped\ due\ to\ (?:iteration|max\ iterations) )
    )
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_REASON_OF = {
    "error": "the client or server of the tested model reported an error",
    "connection": "the connection to the tested model failed",
    "memory": "the tested model ran out of memory",
    "blocked": "the API of the tested model blocked the answer",
    "runner": "the runner of the tested model got no answer",
}
# How pandas, Python and JavaScript print a missing value, and what scripts write instead.
_NULLS = frozenset(
    ("nan", "NaN", "NaT", "<NA>", "None", "null", "NULL", "undefined", "error", "Error", "ERROR")
)


def not_text(content: str) -> str:
    """The text for a saved answer that is not text; `content` is its JSON, or the reason."""
    return f"{NOT_TEXT} {content}"


def not_text_content(answer: str) -> str | None:
    """The content that `not_text` was given; None for other answers.

    >>> not_text_content(not_text("3.5"))
    '3.5'
    """
    return answer.removeprefix(NOT_TEXT).strip() if answer.startswith(NOT_TEXT) else None


def not_an_answer(reason: str) -> str:
    """The text for a reply without an answer; `failure_of` repeats the reason.

    >>> failure_of(not_an_answer("not text"))
    "the server's reply is not an answer: not text"
    """
    return f"{_NOT_AN_ANSWER} {reason}"


def failure_of(answer: object) -> str | None:
    """Why a text is not an answer of the tested model; None if it is an answer.

    Only the beginning counts: an answer may quote an error. The first failed round gives the
    reason. In an answer of ``--model interleaved``, the writer's answer is checked.

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
    if start.startswith(_NOT_AN_ANSWER):
        reason = start.removeprefix(_NOT_AN_ANSWER).strip()[:_MAX_REASON_CHARACTERS]
        return f"the server's reply is not an answer: {reason}"
    if reason := next((reason for text, reason in _FAILURES if start.startswith(text)), None):
        return reason
    failure = _FAILURE.match(start)
    return _REASON_OF[failure.lastgroup or ""] if failure else None


def null_failure(answer: object, sample_texts: Iterable[str | None]) -> str | None:
    """The reason if an answer is only a printed missing value, such as ``nan``; None otherwise.

    The word is an answer if one of the sample's texts (the gold answer, the options) contains it.

    >>> null_failure("None", ["a cat", "a dog"])
    'the text in the place of an answer is `None`'
    >>> null_failure("None", ["a cat", "none of these"]) is None
    True
    """
    text = answer.strip() if isinstance(answer, str) else ""
    if text not in _NULLS:
        return None
    word = re.compile(rf"(?<!\w){re.escape(text.strip('<>'))}(?!\w)", re.IGNORECASE)
    if any(word.search(sample_text or "") for sample_text in sample_texts):
        return None
    return f"the text in the place of an answer is `{text}`"
