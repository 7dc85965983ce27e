"""Sends chat requests to a server and learns the dialect that it accepts."""

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
from mmie_tasks.judges.openai.chat_request import chat_body, cost_of
from mmie_tasks.judges.openai.completion import PoorReply, read_completion
from mmie_tasks.judges.openai.dialect import HEADROOM, Adaptations, Dialect
from mmie_tasks.judges.openai.schemas import next_style
from mmie_tasks.judges.openai.settings import Settings
from mmie_tasks.record.reply import JudgeReply


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts; updates `adaptations`."""

    def __init__(
        self, settings: Settings, client: openai.AsyncOpenAI, adaptations: Adaptations
    ) -> None:
        self._settings = settings
        self._client = client
        self._adaptations = adaptations

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request, at once again in another dialect while the server rejects a parameter.

        A new dialect is remembered only after a reply, so that unrelated errors change nothing.
        """
        initial = dialect = self._adaptations.dialect
        rejections: dict[Dialect, Failure] = {}
        while isinstance(result := await self._send(request, dialect), Failure):
            rejections[dialect] = result
            other = next_dialect(dialect, result.error, has_schema=request.schema is not None)
            if other is None or other in rejections:
                return result
            dialect = other
        # Another request was faster if the server's dialect is no longer the initial one.
        if dialect != initial == self._adaptations.dialect:
            self._change(dialect, rejections.values())
        return result

    def _change(self, dialect: Dialect, failures: Iterable[Failure]) -> None:
        """Use another dialect from now on, and log why."""
        initial, self._adaptations.dialect = self._adaptations.dialect, dialect
        changes = []
        if dialect.max_tokens_name != initial.max_tokens_name:
            changes.append(f"`{dialect.max_tokens_name}`")
        if dialect.takes_temperature != initial.takes_temperature:
            changes.append("no temperature")
        if dialect.schema_style != initial.schema_style:
            changes.append(f"the reply's schema as `{dialect.schema_style}`")
        reasons = dict.fromkeys(f"it answered {failure.reason}" for failure in failures)
        access = self._settings.access
        logger.warning(
            f"{access.service} at {access.address} now gets "
            f"{', '.join(changes)}, because {'; '.join(reasons).rstrip('.')}."
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
            if refused_field(failure.error, settings.extra_fields):  # every request has the field
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
    """The dialect to try after an error about a parameter; None if none would help.

    >>> from mmie_tasks.judges.openai.dialect import PLAIN
    >>> error = ServerError(status=400, code="unsupported_parameter", param="max_tokens")
    >>> next_dialect(PLAIN, error).max_tokens_name
    'max_completion_tokens'
    """
    if error is None:
        return None
    if has_schema and (style := next_style(dialect.schema_style, error)):
        return replace(dialect, schema_style=style)
    if not error.is_parameter:
        return None
    if error.concerns(dialect.max_tokens_name):
        if dialect.max_tokens_name == "max_completion_tokens":
            return replace(dialect, max_tokens_name="max_tokens")
        return replace(dialect, max_tokens_name="max_completion_tokens", headroom=HEADROOM)
    if error.concerns("temperature") and dialect.takes_temperature:
        return replace(dialect, takes_temperature=False)
    return None
