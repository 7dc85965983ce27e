"""Whether a judge will work, found out in seconds before anything is generated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from difflib import get_close_matches
from functools import partial

import openai
from loguru import logger

from mmie_tasks.http import client as clients
from mmie_tasks.http.complaints import Complaint
from mmie_tasks.http.errors import TRY_ERRORS, Trouble, trouble_of
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.models import retirement_notice
from mmie_tasks.judges.openai.settings import Settings, shown

# What is said of a judge that cannot be used as it is set up, and what helps.

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What was found, and a hint."""

    found: str
    hint: str


def missing_key(settings: Settings) -> JudgeMisconfigured | None:
    """The error where a key is needed and there is none."""
    if settings.api_key is not None or not settings.needs_key:
        return None
    names = ", ".join(f"`{name}`" for name in settings.key_names)
    place = shown(settings.base_urls[0])
    return JudgeMisconfigured(
        f"The judge `{settings.model}` at {place} needs a key, and none is set in {names}.",
        hint=f"`export {settings.key_names[-1]}=...`, or point `base_url=` at a server of your own",
    )


def advice_on(trouble: Trouble, settings: Settings, place: str, listed: Sequence[str]) -> Advice:
    """What to say of a server that was asked and did not do.

    Args:
        trouble: What came instead.
        settings: How it was asked.
        place: Its address, as it may be shown.
        listed: The models it says it has.
    """
    asked = f"The judge `{settings.model}` at {place}"
    if (said := trouble.said) is None:
        found = f"{asked} is not reachable: {trouble.why}."
        return Advice(found=found, hint="start it, or correct `base_url=`; most end in `/v1`")
    found = f"{asked} cannot be used: it answered {trouble.why.rstrip('.')}."
    if said.of_model:
        return _on_model(found, settings.model, listed)
    return Advice(found=found, hint=_hint(said, settings))


def _on_model(found: str, model: str, listed: Sequence[str]) -> Advice:
    close = get_close_matches(model, listed, n=_MOST_NAMED, cutoff=0.4) or listed[:_MOST_NAMED]
    if not close:
        return Advice(found=found, hint="name a model this server has: `model=...`")
    names = ", ".join(f"`{name}`" for name in close)
    return Advice(found=f"{found} It has {names}.", hint=f"`model={close[0]}`")


def _hint(said: Complaint, settings: Settings) -> str:
    if said.of_quota or said.status == 402:
        return "nothing is left of the account's money: top it up, or use the key of another one"
    if said.status in (401, 403):
        names = ", ".join(f"`{name}`" for name in settings.key_names)
        return f"correct the key; the first of these that is set is used: {names}"
    if said.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if said.status >= 500:
        return "look at the server, or try again later"
    return "change the option it complains of: `model=`, `temperature=`, `api_version=`"


_TIMEOUT_S = 30.0
_PING = JudgeRequest(parts=("Say yes.",), max_tokens=16)
_NO_LIST = (404, 405, 501)


def check(settings: Settings, *, pace: Pace | None = None, today: date | None = None) -> None:
    """Ask every server for its models, and where that tells nothing, for a few words.

    One server that works is enough; the others are warned about, and so is a model that will be
    shut down soon.

    Args:
        settings: Who is asked.
        pace: How long to wait between tries.
        today: For the warning; by default, today.

    Raises:
        JudgeMisconfigured: No key, a wrong one, no such model, no server that answers.
    """
    if (error := missing_key(settings)) is not None:
        raise error
    notice = retirement_notice(settings.model, today or datetime.now(timezone.utc).date())
    if notice is not None:
        logger.warning(f"The judge {notice}. hint: choose another one with `model=`")
    found = [_advice(settings, url, pace or Pace()) for url in settings.base_urls]
    problems = [advice for advice in found if advice is not None]
    if len(problems) == len(found):
        raise JudgeMisconfigured(problems[0].found, hint=problems[0].hint)
    for problem in problems:
        logger.warning(f"{problem.found} The other servers are asked. hint: {problem.hint}")


def _advice(settings: Settings, url: str, pace: Pace) -> Advice | None:
    """What is wrong with one server; None if it can be used."""
    listed: Sequence[str] = ()
    with clients.client(settings, url, min(_TIMEOUT_S, settings.timeout_s)) as client:
        trouble: Trouble | None = None
        if settings.api_type != "azure":  # it lists models, and is asked for deployments
            came = _tried(partial(_models, client), settings, pace)
            listed, trouble = ([], came) if isinstance(came, Trouble) else (came, None)
        if trouble is None and settings.model not in listed:
            trouble = _ping(client, settings, pace)
    if trouble is None:
        return None
    if trouble.kind == "busy":
        logger.warning(f"The judge at {shown(url)} is busy: {trouble.why}")
        return None
    return advice_on(trouble, settings, shown(url), listed)


def _tried(
    work: Callable[[], Sequence[str]], settings: Settings, pace: Pace
) -> Sequence[str] | Trouble:
    """What the work gives, tried again a few times where that may help."""
    for pause_s in (*pace.check_s, None):
        try:
            return work()
        except TRY_ERRORS as error:
            trouble = trouble_of(error, settings.secrets)
        if trouble.kind != "failed" or pause_s is None:
            break
        time.sleep(pause_s)
    return trouble


def _models(client: openai.OpenAI) -> list[str]:
    """The names of the models a server has; none where it does not tell."""
    try:
        raw = client.models.with_raw_response.list()
        page = wire.parse(raw.content)
    except wire.UnusableBody:
        return []
    except openai.APIStatusError as error:
        if error.status_code in _NO_LIST:
            return []
        raise
    data = page.get("data") if isinstance(page, dict) else None
    entries = data if isinstance(data, list) else []
    names = (entry.get("id") for entry in entries if isinstance(entry, dict))
    return [name for name in names if isinstance(name, str)]


def _ping(client: openai.OpenAI, settings: Settings, pace: Pace) -> Trouble | None:
    """Ask for a few words, in another dialect if need be."""
    dialect: wire.Dialect | None = wire.dialect_of(settings.model)
    tried: set[wire.Dialect] = set()
    trouble: Trouble | None = None
    while dialect is not None and dialect not in tried:
        tried.add(dialect)
        asked = replace(dialect, headroom=0)
        came = _tried(partial(_complete, client, settings, asked), settings, pace)
        if not isinstance(came, Trouble):
            return None
        trouble = came
        dialect = wire.next_dialect(dialect, came.said) if came.said else None
    return trouble


def _complete(client: openai.OpenAI, settings: Settings, dialect: wire.Dialect) -> Sequence[str]:
    body = wire.body(_PING, model=settings.model, temperature=settings.temperature, dialect=dialect)
    raw = client.chat.completions.with_raw_response.create(**body)  # type: ignore[call-overload]
    wire.outcome(wire.parse(raw.content), model=settings.model)
    return ()
