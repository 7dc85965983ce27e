"""The check of a judge's servers before a run."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import date, datetime, timezone

import openai
from loguru import logger

from mmie_tasks.core.log import warn
from mmie_tasks.http.access import UNREACHABLE_HINT, Access, public_address
from mmie_tasks.http.attempt import Failure, Success
from mmie_tasks.http.client import async_client, check_servers
from mmie_tasks.http.errors import ServerError
from mmie_tasks.http.model_list import list_models, nearest_names
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.rate_limit import LONGEST_WAIT_S, demand_text
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.model_variables import OWN_ADDRESS_HINT
from mmie_tasks.judges.openai.adaptations import Adaptations
from mmie_tasks.judges.openai.chat_request import top_logprobs_of
from mmie_tasks.judges.openai.chat_server import ChatServer
from mmie_tasks.judges.openai.retirements import retirement_notice
from mmie_tasks.judges.openai.settings import Settings

_TIMEOUT_S = 30.0
_LIST_TIMEOUT_S = 5.0  # `list_models` waits at most twice as long
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
        warn(f"The judge {notice}.", hint="choose another one with `model=`")
    shared = (pace or Pace(), adaptations or Adaptations())
    check_servers(settings.access, lambda url: _problem(settings, url, *shared))


async def _problem(
    settings: Settings, url: str, pace: Pace, adaptations: Adaptations
) -> JudgeMisconfigured | None:
    """Why a server cannot be used; None if it can, or is busy."""
    address = public_address(url)
    access = replace(settings.access, timeout_s=min(_TIMEOUT_S, settings.access.timeout_s))
    async with async_client(access, url) as client:
        short = replace(settings, max_tokens=None, access=access)
        server = ChatServer(short, client, address, adaptations)
        # With log-probabilities unless the run will request none.
        traits = adaptations.of(address, settings.model)
        wants_digits = top_logprobs_of(_PING, settings, traits.dialect) > 0
        failure = await _failure(server, replace(_PING, wants_digits=wants_digits), pace)
        # What it accepts with a few tokens may fail with a whole reply.
        traits.accepts_logprobs = False
        if failure is None:
            return None
        wait_s = max(failure.wait_s or 0.0, failure.pause_s or 0.0)
        longest_s = max(LONGEST_WAIT_S, settings.patience_s)
        if wait_s > longest_s:
            reason = f"{failure.reason.rstrip('.')}; {demand_text(wait_s, longest_s)}"
            failure = replace(failure, reason=reason)
        elif failure.kind == "busy":
            logger.warning(f"The judge at {address} is busy: {failure.reason}")
            return None
        return await _describe(settings, address, failure, client, access)


async def _failure(server: ChatServer, ping: JudgeRequest, pace: Pace) -> Failure | None:
    """Why a server gives no whole reply, after some retries; None if it does."""
    for wait_s in (*pace.check_s, None):
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


async def _describe(
    settings: Settings, address: str, failure: Failure, client: openai.AsyncOpenAI, access: Access
) -> JudgeMisconfigured:
    judge = f"The judge `{settings.model}` at {address}"
    if (error := failure.error) is None:
        return JudgeMisconfigured(
            f"{judge} is not reachable: {failure.reason}.", hint=UNREACHABLE_HINT
        )
    message = f"{judge} cannot be used: it answered {failure.reason.rstrip('.')}."
    if not error.is_model:
        return JudgeMisconfigured(message, hint=_hint(error, settings))
    short = replace(access, timeout_s=min(_LIST_TIMEOUT_S, access.timeout_s))
    models = await list_models(client, short)
    if isinstance(models, Failure) or not models:
        return JudgeMisconfigured(message, hint="name a model that this server has: `model=...`")
    nearest = nearest_names(settings.model, models)
    names = ", ".join(f"`{name}`" for name in nearest)
    hint = f"`model={nearest[0]}`"
    if variable := access.shared_variable:
        names += f"; the address is from `{variable}`"
        hint = f"{OWN_ADDRESS_HINT}; or {hint}"
    return JudgeMisconfigured(f"{message} It has {names}.", hint=hint)


def _hint(error: ServerError, settings: Settings) -> str:
    if error.is_quota or error.status == 402:
        return "the account has no credit left: top it up, or use another account's key"
    if error.is_key or error.status == 403:
        return settings.access.key_hint
    if error.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if error.status == 429:
        return "run again then, use another server or account, or wait with a longer `patience=`"
    if error.status >= 500:
        return "check the server, or try again later"
    return "change the option that it rejects: `model=`, `temperature=`, `api_version=`"
