"""The `openai` judge: many requests at once to one or several OpenAI-compatible servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import date, datetime, timezone

import openai
from loguru import logger

from mmie_tasks.http.access import UNREACHABLE_HINT, public_address
from mmie_tasks.http.client import (
    ATTEMPT_ERRORS,
    ServerError,
    UnusableBody,
    async_client,
    check_servers,
    failure_of,
    model_names,
    nearest_names,
    open_endpoints,
    parse_json,
    redact,
)
from mmie_tasks.http.rate_limit import Budget, Pace, Traffic, quota_reset_s
from mmie_tasks.http.retries import Endpoint, Failure, ReplyStore, SendPolicy, Success, Undelivered, send_all
from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
    RequestCounts,
)
from mmie_tasks.judges.openai.settings import HEADROOM, Adaptations, Dialect, Settings, dialect_of, retirement_notice
from mmie_tasks.judges.openai.wire import (
    IncompleteReply,
    NoText,
    chat_body,
    cost_of,
    next_dialect,
    read_completion,
    top_logprobs_of,
)

_ERRORS: Mapping[str, type[JudgeError]] = {
    "unavailable": JudgeUnavailable,
    "over_budget": OutOfBudget,
    "rejected": JudgeRefused,
    "invalid": RequestBroken,
}

_TIMEOUT_S = 30.0  # of a check
_LIST_TIMEOUT_S = 10.0
_PING = JudgeRequest(parts=("Say yes.",), max_tokens=16)
_MAX_FAILURES_WITH_LOGPROBS = 2  # of one request, before it is sent without


class OpenAIJudge:
    """Requests chat completions. The cost limit counts over the object's lifetime.

    Args:
        settings: The model, its servers and parameters.
        pace: Waiting times between attempts.
    """

    def __init__(self, settings: Settings, *, pace: Pace | None = None) -> None:
        self.settings = settings
        self._pace = pace or Pace()
        self._budget = Budget(max_cost_usd=settings.max_cost_usd)
        self._adaptations = Adaptations()
        self._traffic = Traffic()

    def __repr__(self) -> str:
        return f"OpenAIJudge({self.settings!r})"

    @property
    def signature(self) -> str:
        """The model and its parameters: see `Settings.signature`."""
        return self.settings.signature

    @property
    def spent_usd(self) -> float:
        """US dollars spent by this object; 0 if the price is unknown."""
        return self._budget.spent_usd

    def request_counts(self) -> RequestCounts:
        """Requests in flight, and those sent again by this object."""
        return RequestCounts(in_flight=self._traffic.in_flight, retries=self._traffic.retries)

    def check(self) -> None:
        """Return if the key, the server and the model can be used: see `check`.

        Raises:
            JudgeMisconfigured: They cannot.
        """
        check(self.settings, pace=self._pace, adaptations=self._adaptations)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome per request, with its index, as they arrive.

        Nothing is sent before the first `next`; closing the iterator cancels the requests in flight.
        """
        return self.ask_with_store(requests)

    def ask_with_store(
        self, requests: Sequence[JudgeRequest], store: ReplyStore[Outcome] | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """As `ask`; replies are looked up right before sending, and stored on arrival."""
        if (missing_key := self.settings.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        if not requests:
            return
        policy = SendPolicy(
            service=self.settings.access.service,
            budget=self._budget,
            pace=self._pace,
            patience_s=self.settings.patience_s,
            redact=lambda text: redact(text, self.settings.access.secrets),
            traffic=self._traffic,
        )
        errors: dict[Undelivered, JudgeError] = {}
        for index, result in send_all(requests, self._connect, policy, store):
            if isinstance(result, Undelivered):
                yield index, errors.setdefault(result, judge_error_of(result, self.settings))
            else:
                yield index, result

    def _connect(self) -> AbstractAsyncContextManager[Sequence[Endpoint[JudgeRequest, JudgeReply | JudgeError]]]:
        settings = self.settings
        return open_endpoints(
            settings.access,
            lambda client, address: ChatServer(settings, client, address, self._adaptations).attempt,
            pace=self._pace,
            max_concurrency=settings.max_concurrency,
        )


def judge_error_of(undelivered: Undelivered, settings: Settings) -> JudgeError:
    """The judge error for a request without a reply."""
    if undelivered.cause == "denied":
        return JudgeMisconfigured(
            f"the judge `{settings.model}` denies access: {undelivered.reason}",
            hint="correct that, then run again: the replies so far are in the cache",
        )
    return _ERRORS[undelivered.cause](undelivered.reason)


def check(
    settings: Settings, *, pace: Pace | None = None, today: date | None = None, adaptations: Adaptations | None = None
) -> None:
    """Check every server by a chat request with the run's parameters, for a few tokens.

    One server that works is enough; the log warns about the others, and about a model that will be shut down soon.

    Args:
        settings: The judge's.
        pace: Waiting times between attempts.
        today: For the warning; by default, today.
        adaptations: Gets the parameters that the servers accept.

    Raises:
        JudgeMisconfigured: No key, a wrong key, an unknown model, or no server that answers.
    """
    if (missing_key := settings.access.missing_key(JudgeMisconfigured)) is not None:
        raise missing_key
    notice = retirement_notice(settings.model, today or datetime.now(timezone.utc).date())
    if notice is not None:
        logger.warning(f"The judge {notice}. hint: choose another one with `model=`")
    shared = (pace or Pace(), adaptations or Adaptations())
    check_servers(settings.access, lambda url: _problem(settings, url, *shared))


async def _problem(settings: Settings, url: str, pace: Pace, adaptations: Adaptations) -> JudgeMisconfigured | None:
    """Why a server cannot be used; None if it can."""
    address = public_address(url)
    access = replace(settings.access, timeout_s=min(_TIMEOUT_S, settings.access.timeout_s))
    settings = replace(settings, max_tokens=None, access=access)
    async with async_client(access, url) as client:
        server = ChatServer(settings, client, address, adaptations)
        for wait_s in (*pace.check_s, None):
            match await server.attempt(_PING):
                case Success(reply=JudgeUnavailable() as incomplete):
                    failure = Failure(kind="failed", reason=str(incomplete))
                case Success():
                    return None
                case Failure() as failure:
                    pass
            if failure.kind != "failed" or wait_s is None:
                break
            await asyncio.sleep(wait_s)
        if failure.kind == "busy":
            logger.warning(f"The judge at {address} is busy: {failure.reason}")
            return None
        models = await _models(client) if failure.error is not None and failure.error.is_model else []
    return _describe(settings, address, failure, models)


def _describe(settings: Settings, address: str, failure: Failure, models: list[str]) -> JudgeMisconfigured:
    judge = f"The judge `{settings.model}` at {address}"
    if (error := failure.error) is None:
        return JudgeMisconfigured(f"{judge} is not reachable: {failure.reason}.", hint=UNREACHABLE_HINT)
    message = f"{judge} cannot be used: it answered {failure.reason.rstrip('.')}."
    if not error.is_model:
        return JudgeMisconfigured(message, hint=_hint(error, settings))
    if not (suggestions := nearest_names(settings.model, models)):
        return JudgeMisconfigured(message, hint="name a model that this server has: `model=...`")
    names = ", ".join(f"`{name}`" for name in suggestions)
    return JudgeMisconfigured(f"{message} It has {names}.", hint=f"`model={suggestions[0]}`")


def _hint(error: ServerError, settings: Settings) -> str:
    if error.is_quota or error.status == 402:
        return "the account has no credit left: top it up, or use another account's key"
    if error.status in (401, 403):
        return settings.access.key_hint
    if error.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if error.status >= 500:
        return "check the server, or try again later"
    return "change the option that it rejects: `model=`, `temperature=`, `api_version=`"


async def _models(client: openai.AsyncOpenAI) -> list[str]:
    """The models that a server lists; none if it has no list that this key may read."""
    try:
        response = await asyncio.wait_for(client.models.with_raw_response.list(), _LIST_TIMEOUT_S)
        return model_names(parse_json(response.content))
    except ATTEMPT_ERRORS:
        return []


class ChatServer:
    """Sends chat requests to one server, in the dialect that it accepts.

    Args:
        settings: The model and its parameters.
        client: A client of the server.
        address: For messages; holds no secret.
        adaptations: Those of all servers of the judge.
    """

    def __init__(self, settings: Settings, client: openai.AsyncOpenAI, address: str, adaptations: Adaptations) -> None:
        self._settings = settings
        self._client = client
        self._address = address
        self._adaptations = adaptations
        adaptations.dialects.setdefault(address, dialect_of(settings.model))

    async def attempt(self, request: JudgeRequest) -> Success[JudgeReply | JudgeError] | Failure:
        """Send a request; again at once if the server only rejects a parameter.

        What it accepts instead is remembered when it has replied, so an error of another cause changes nothing.
        """
        initial = dialect = self._adaptations.dialects[self._address]
        rejections: dict[Dialect, Failure] = {}
        while isinstance(result := await self._send(request, dialect), Failure):
            rejections[dialect] = result
            other = next_dialect(dialect, result.error) or self._without_logprobs(request, dialect, result)
            if other is None or other in rejections:
                return result
            dialect = other
        if top_logprobs_of(request, self._settings, dialect):
            self._adaptations.accept_logprobs.add(self._address)
        # If the server's dialect is no longer the initial one, another request was faster.
        if dialect != initial and self._adaptations.dialects[self._address] == initial:
            self._adaptations.dialects[self._address] = dialect
            changes = (
                f"`{dialect.max_tokens_name}`" if dialect.max_tokens_name != initial.max_tokens_name else "",
                "no temperature" if dialect.takes_temperature != initial.takes_temperature else "",
                f"{dialect.top_logprobs} `top_logprobs`" if dialect.top_logprobs != initial.top_logprobs else "",
            )
            logger.warning(
                f"The judge `{self._settings.model}` at {self._address} now gets {', '.join(filter(None, changes))}, "
                f"because it answered {'; '.join(dict.fromkeys(failure.reason for failure in rejections.values()))}"
            )
        return result

    def _without_logprobs(self, request: JudgeRequest, dialect: Dialect, failure: Failure) -> Dialect | None:
        """The dialect to try after an error that names no parameter; counts those that a retry may help."""
        if not top_logprobs_of(request, self._settings, dialect):
            return None
        if failure.kind in ("failed", "timed_out"):
            self._adaptations.failures[request] += 1
        error = failure.error
        if error is None or error.status not in (400, 422) or error.is_content_filter:
            return None
        return None if self._address in self._adaptations.accept_logprobs else replace(dialect, top_logprobs=0)

    async def _send(self, request: JudgeRequest, dialect: Dialect) -> Success[JudgeReply | JudgeError] | Failure:
        try:
            return await self._complete(request, dialect)
        except RequestBroken as error:
            return Failure(kind="invalid", reason=str(error))
        except ATTEMPT_ERRORS as error:
            return failure_of(error, self._settings.access.secrets)

    async def _complete(self, request: JudgeRequest, dialect: Dialect) -> Success[JudgeReply | JudgeError] | Failure:
        settings = self._settings
        if request in self._adaptations.out_of_tokens:
            dialect = replace(dialect, headroom=dialect.headroom + HEADROOM)
        if self._adaptations.failures[request] >= _MAX_FAILURES_WITH_LOGPROBS:
            dialect = replace(dialect, top_logprobs=0)
        # The SDK's timeout applies to every piece of the response; this one to all of it.
        response = await asyncio.wait_for(
            self._client.chat.completions.with_raw_response.create(
                **chat_body(request, settings, dialect)  # type: ignore[call-overload]
            ),
            settings.access.timeout_s,
        )
        pause_s = quota_reset_s(response.headers)
        reply: JudgeReply | JudgeError
        is_final = True
        try:
            completion = parse_json(response.content)
            reply = read_completion(completion, model=settings.model, price=settings.price)
        except IncompleteReply as error:
            reply, is_final = JudgeUnavailable(str(error)), False
        except NoText as error:
            reply = JudgeRefused(str(error))
            is_final = error.is_cut and request in self._adaptations.out_of_tokens
            if error.is_cut:
                self._adaptations.out_of_tokens.add(request)
        except UnusableBody as error:
            return Failure(kind="failed", reason=str(error), pause_s=pause_s)
        return Success(reply=reply, is_final=is_final, cost_usd=cost_of(request, completion, settings), pause_s=pause_s)
