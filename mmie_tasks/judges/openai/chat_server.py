"""One server of chat completions, and the dialect it turns out to accept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import openai
from loguru import logger

from mmie_tasks.http.attempt import Failure, Success
from mmie_tasks.http.bodies import parse_json
from mmie_tasks.http.client import ATTEMPT_ERRORS, failure_from_error, receive
from mmie_tasks.http.errors import ServerError, UnusableBody, redact
from mmie_tasks.http.extra_fields import refused_field
from mmie_tasks.judges.base import JudgeError, JudgeRequest, RequestBroken
from mmie_tasks.judges.openai.adaptations import Adaptations
from mmie_tasks.judges.openai.chat_request import chat_body, cost_of, top_logprobs_of
from mmie_tasks.judges.openai.completion import PoorReply, read_completion
from mmie_tasks.judges.openai.dialect import HEADROOM, Dialect
from mmie_tasks.judges.openai.schemas import next_style
from mmie_tasks.judges.openai.settings import Settings
from mmie_tasks.record.reply import JudgeReply

# Alternatives per token, where `TOP_LOGPROBS` of them are too many.
_FEWER_TOP_LOGPROBS = 5
# Of one request to a server that sends log-probabilities, before it is sent without.
_MAX_LOGPROBS_FAILURES = 4


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts.

    Args:
        address: For messages; holds no secret.
        adaptations: Those of all servers of the judge.
    """

    def __init__(
        self, settings: Settings, client: openai.AsyncOpenAI, address: str, adaptations: Adaptations
    ) -> None:
        self._settings = settings
        self._client = client
        self._address = address
        self._adaptations = adaptations
        self._traits = adaptations.of(address, settings)

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request; again at once if the server only rejects a parameter.

        A failure may be due to log-probabilities: then it is sent without. If that works, and fails
        when it is sent with them once more, the server gets no requests for them from then on,
        unless another request got them meanwhile.
        """
        result = await self._adapt(request)
        if isinstance(result, Success) or not self._may_be_logprobs(request, result):
            return result
        without = await self._adapt(replace(request, wants_digits=False))
        traits = self._traits
        if isinstance(without, Failure):
            return replace(without, reason=f"{without.reason} (with `logprobs=false` too)")
        if traits.accepts_logprobs or not self._asks(request):
            return without
        again = await self._adapt(request)
        if isinstance(again, Success):
            return replace(again, cost_usd=(again.cost_usd or 0.0) + (without.cost_usd or 0.0))
        if self._asks(request) and not traits.accepts_logprobs:  # else another one was faster
            self._change(replace(traits.dialect, top_logprobs=0), [result])
        return without

    def _asks(self, request: JudgeRequest) -> bool:
        """Whether the server is asked for log-probabilities with this request."""
        return top_logprobs_of(request, self._settings, self._traits.dialect) > 0

    def _may_be_logprobs(self, request: JudgeRequest, failure: Failure) -> bool:
        """Whether to try without log-probabilities, after an error that does not name them.

        Where the server accepts them, it may have an outage, so only after some failures.
        """
        if not self._asks(request) or failure.kind in ("busy", "invalid"):
            return False
        if self._traits.accepts_logprobs:
            failures = self._adaptations.failures
            failures[request] += {"failed": 1, "timed_out": 2}.get(failure.kind, 0)
            return failures[request] >= _MAX_LOGPROBS_FAILURES
        error = failure.error
        if error is None:
            return True
        if refused_field(error, self._settings.extra_fields):
            return False
        is_account = error.status == 402 or error.is_key or error.is_quota or error.is_model
        return not (is_account or error.is_content_filter)

    async def _adapt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request in one dialect after the other, until the server rejects no parameter.

        What it accepts instead is remembered when it has replied, so an error of another cause
        changes nothing.
        """
        initial = dialect = self._traits.dialect
        rejections: dict[Dialect, Failure] = {}
        while isinstance(result := await self._send(request, dialect), Failure):
            rejections[dialect] = result
            other = next_dialect(dialect, result.error, has_schema=request.schema is not None)
            if other is None or other in rejections:
                return result
            dialect = other
        if top_logprobs_of(request, self._settings, dialect):
            self._traits.accepts_logprobs = True
        # If the server's dialect is no longer the initial one, another request was faster.
        if dialect != initial == self._traits.dialect:
            self._change(dialect, rejections.values())
        return result

    def _change(self, dialect: Dialect, failures: Iterable[Failure]) -> None:
        """Use another dialect from now on, and log why."""
        initial, self._traits.dialect = self._traits.dialect, dialect
        changes, loss = [], ""
        if dialect.max_tokens_name != initial.max_tokens_name:
            changes.append(f"`{dialect.max_tokens_name}`")
        if dialect.takes_temperature != initial.takes_temperature:
            changes.append("no temperature")
        if dialect.top_logprobs != initial.top_logprobs:
            changes.append(f"{dialect.top_logprobs} `top_logprobs`")
            loss = "" if dialect.top_logprobs else " Its replies have no expected score."
        if dialect.schema_style != initial.schema_style:
            changes.append(f"the reply's schema as `{dialect.schema_style}`")
        reasons = (
            f"it answered {failure.reason}" if failure.error else failure.reason
            for failure in failures
        )
        logger.warning(
            f"The judge `{self._settings.model}` at {self._address} now gets "
            f"{', '.join(changes)}, because {'; '.join(dict.fromkeys(reasons)).rstrip('.')}.{loss}"
        )

    async def _send(
        self, request: JudgeRequest, dialect: Dialect
    ) -> Success[JudgeReply | JudgeError] | Failure:
        settings = self._settings
        if request in self._adaptations.out_of_tokens:
            dialect = replace(dialect, headroom=dialect.headroom + HEADROOM)
        completions = self._client.chat.completions.with_streaming_response
        try:
            body = chat_body(request, settings, dialect)
            added = {name: body.pop(name) for name in settings.extra_fields}
            content, pause_s = await receive(
                completions.create(**body, extra_body=added or None),  # type: ignore[call-overload]
                settings.access.timeout_s,
            )
        except RequestBroken as error:
            return Failure(kind="invalid", reason=str(error))
        except ATTEMPT_ERRORS as error:
            failure = failure_from_error(error, settings.access.secrets)
            if refused_field(failure.error, settings.extra_fields):  # and so every request
                return replace(failure, kind="denied")
            return failure
        return self._read(request, content, pause_s)

    def _read(
        self, request: JudgeRequest, content: bytes, pause_s: float | None
    ) -> Success[JudgeReply | JudgeError] | Failure:
        settings, out_of_tokens = self._settings, self._adaptations.out_of_tokens
        reply: JudgeReply | JudgeError
        is_final = True
        try:
            completion = parse_json(content)
            reply = read_completion(
                completion,
                model=settings.model,
                price=settings.price,
                has_schema=request.schema is not None,
            )
        except UnusableBody as error:
            reason = redact(str(error), settings.access.secrets)
            return Failure(kind="failed", reason=reason, pause_s=pause_s)
        except PoorReply as poor:
            reply, is_final = poor.outcome, poor.is_cut and request in out_of_tokens
            if poor.is_cut:
                out_of_tokens.add(request)
        if isinstance(reply, JudgeError):
            reply = type(reply)(redact(str(reply), settings.access.secrets))
        cost_usd = cost_of(request, completion, settings)
        return Success(reply=reply, is_final=is_final, cost_usd=cost_usd, pause_s=pause_s)


def next_dialect(
    dialect: Dialect, error: ServerError | None, *, has_schema: bool = False
) -> Dialect | None:
    """The dialect to try after an error about a parameter; None if another would not help.

    >>> from mmie_tasks.judges.openai.dialect import PLAIN
    >>> error = ServerError(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, error).max_tokens_name
    'max_completion_tokens'
    """
    if error is None:
        return None
    if has_schema and (style := next_style(dialect.schema_style, error)):
        return replace(dialect, schema_style=style)
    if error.is_logprobs and dialect.top_logprobs:
        fewer = _FEWER_TOP_LOGPROBS if dialect.top_logprobs > _FEWER_TOP_LOGPROBS else 0
        return replace(dialect, top_logprobs=fewer)
    if not error.is_parameter:
        return None
    if error.concerns(dialect.max_tokens_name):
        if dialect.max_tokens_name == "max_completion_tokens":
            return replace(dialect, max_tokens_name="max_tokens")
        return replace(dialect, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
    if error.concerns("temperature") and dialect.takes_temperature:
        return replace(dialect, takes_temperature=False)
    return None
