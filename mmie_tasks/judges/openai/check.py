"""The check of a judge's servers before a run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timezone

import openai
from loguru import logger

from mmie_tasks.http.access import UNREACHABLE_HINT, public_address
from mmie_tasks.http.bodies import model_names, nearest_names, parse_json
from mmie_tasks.http.client import ATTEMPT_ERRORS, async_client, check_servers
from mmie_tasks.http.endpoint import Failure, Pace, Success
from mmie_tasks.http.errors import ServerError
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.openai.models import retirement_notice
from mmie_tasks.judges.openai.settings import Adaptations, Settings
from mmie_tasks.judges.openai.wire import ChatServer, top_logprobs_of

_TIMEOUT_S = 30.0
_LIST_TIMEOUT_S = 10.0
_PING = JudgeRequest(parts=("Say yes.",), max_tokens=16, wants_digits=True)


def check(
    settings: Settings,
    *,
    pace: Pace | None = None,
    today: date | None = None,
    adaptations: Adaptations | None = None,
) -> None:
    """Check every server by a chat request with the run's parameters, for a few tokens.

    One server that works is enough; the log warns about the others, and about a model that will be
    shut down soon.

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


async def _problem(
    settings: Settings, url: str, pace: Pace, adaptations: Adaptations
) -> JudgeMisconfigured | None:
    """Why a server cannot be used; None if it can.

    It is asked as in the run, so with log-probabilities unless the run will request none.
    """
    address = public_address(url)
    access = replace(settings.access, timeout_s=min(_TIMEOUT_S, settings.access.timeout_s))
    async with async_client(access, url) as client:
        server = ChatServer(
            replace(settings, max_tokens=None, access=access), client, address, adaptations
        )
        traits = adaptations.of(address, settings.model)
        plain = replace(_PING, wants_digits=False)
        ping = _PING if top_logprobs_of(_PING, settings, traits.dialect) else plain
        failure = await _failure(server, ping, pace.check_s)
        if failure is not None and ping is not plain and _may_be_logprobs(failure):
            failure = await _failure(server, plain)
            if failure is None:
                traits.note_works_without_logprobs()
        if failure is None and traits.works_without_logprobs:
            # If this fails too, the run goes on without log-probabilities.
            await server.attempt(_PING)
        # What it accepts with a few tokens may fail with a whole reply.
        traits.accepts_logprobs = False
        if failure is None:
            return None
        if failure.kind == "busy":
            logger.warning(f"The judge at {address} is busy: {failure.reason}")
            return None
        models = (
            await _models(client) if failure.error is not None and failure.error.is_model else []
        )
    return _describe(settings, address, failure, models)


async def _failure(
    server: ChatServer, ping: JudgeRequest, waits_s: Sequence[float] = ()
) -> Failure | None:
    """Why a server gives no whole reply, after as many retries as there are waits; None if it
    does.
    """
    for wait_s in (*waits_s, None):
        match await server.attempt(ping):
            case Success(reply=JudgeUnavailable() as incomplete):
                failure = Failure(kind="failed", reason=str(incomplete))
            case Success():
                return None
            case Failure() as failure:
                pass
        if failure.kind != "failed" or wait_s is None:
            break
        await asyncio.sleep(wait_s)
    return failure


def _may_be_logprobs(failure: Failure) -> bool:
    """Whether log-probabilities may be why a check failed, rather than the account, the key or the
    model.
    """
    error = failure.error
    if error is None:
        return True
    return error.status not in (401, 402, 429) and not error.is_quota and not error.is_model


def _describe(
    settings: Settings, address: str, failure: Failure, models: list[str]
) -> JudgeMisconfigured:
    judge = f"The judge `{settings.model}` at {address}"
    if (error := failure.error) is None:
        return JudgeMisconfigured(
            f"{judge} is not reachable: {failure.reason}.", hint=UNREACHABLE_HINT
        )
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
