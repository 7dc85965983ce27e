"""Checks in seconds, before a run, whether a judge can be used."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timezone
from difflib import get_close_matches
from functools import partial

import openai
from loguru import logger

from mmie_tasks.http.client import (
    ATTEMPT_ERRORS,
    ServerError,
    UnusableBody,
    blocking_client,
    failure_of,
    json_list,
    json_object,
    parse_json,
)
from mmie_tasks.http.rate_limit import Pace
from mmie_tasks.http.retries import Failure
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest
from mmie_tasks.judges.openai.models import Dialect, dialect_of, retirement_notice
from mmie_tasks.judges.openai.settings import Settings, public_address
from mmie_tasks.judges.openai.wire import chat_body, next_dialect, read_completion

_TIMEOUT_S = 30.0
_MAX_NAMES = 5
_PING = JudgeRequest(parts=("Say yes.",), max_tokens=16)
_NO_LIST = (404, 405, 501)


def check(settings: Settings, *, pace: Pace | None = None, today: date | None = None) -> None:
    """Check every server: by its list of models, or else by a request for a few tokens.

    One server that works is enough; the log warns about the others, and about a model that will
    be shut down soon.

    Args:
        settings: The judge's.
        pace: Waiting times between attempts.
        today: For the warning; by default, today.

    Raises:
        JudgeMisconfigured: No key, a wrong key, an unknown model, or no server that answers.
    """
    if (missing_key := settings.missing_key()) is not None:
        raise missing_key
    notice = retirement_notice(settings.model, today or datetime.now(timezone.utc).date())
    if notice is not None:
        logger.warning(f"The judge {notice}. hint: choose another one with `model=`")
    checks = [_Check(settings, url, pace or Pace()) for url in settings.base_urls]
    problems = [problem for problem in map(_Check.problem, checks) if problem is not None]
    if len(problems) == len(checks):
        raise problems[0]
    for problem in problems:
        logger.warning(f"{problem.message} The other servers are used. hint: {problem.hint}")


@dataclass(frozen=True, slots=True)
class _Check:
    """The check of one server."""

    settings: Settings
    url: str = field(repr=False)
    pace: Pace

    def problem(self) -> JudgeMisconfigured | None:
        """Why the server cannot be used; None if it can."""
        timeout_s = min(_TIMEOUT_S, self.settings.timeout_s)
        models: list[str] = []
        failure = None
        with blocking_client(self.settings, self.url, timeout_s) as client:
            if self.settings.api_type != "azure":  # which lists models, not deployments
                failure = self._retry(lambda: models.extend(_models(client)))
            if failure is None and self.settings.model not in models:
                failure = self._ping(client)
        if failure is None:
            return None
        if failure.kind == "busy":
            address = public_address(self.url)
            logger.warning(f"The judge at {address} is busy: {failure.reason}")
            return None
        return self._describe(failure, models)

    def _ping(self, client: openai.OpenAI) -> Failure | None:
        """Request a few tokens, in another dialect if necessary."""
        dialect: Dialect | None = dialect_of(self.settings.model)
        tried: set[Dialect] = set()
        failure = None
        while dialect is not None and dialect not in tried:
            tried.add(dialect)
            failure = self._retry(partial(self._complete, client, replace(dialect, headroom=0)))
            dialect = next_dialect(dialect, failure.error) if failure else None
        return failure

    def _complete(self, client: openai.OpenAI, dialect: Dialect) -> None:
        body = chat_body(_PING, replace(self.settings, max_tokens=None), dialect)
        response = client.chat.completions.with_raw_response.create(**body)  # type: ignore[call-overload]
        read_completion(parse_json(response.content), model=self.settings.model)

    def _retry(self, request: Callable[[], None]) -> Failure | None:
        """Make a request, retried a few times if a retry may help."""
        for wait_s in (*self.pace.check_s, None):
            try:
                request()
            except ATTEMPT_ERRORS as error:
                failure = failure_of(error, self.settings.secrets)
            else:
                return None
            if failure.kind != "failed" or wait_s is None:
                break
            time.sleep(wait_s)
        return failure

    def _describe(self, failure: Failure, models: Sequence[str]) -> JudgeMisconfigured:
        judge = f"The judge `{self.settings.model}` at {public_address(self.url)}"
        if (error := failure.error) is None:
            return JudgeMisconfigured(
                f"{judge} is not reachable: {failure.reason}.",
                hint="start it, or correct `base_url=`; most end in `/v1`",
            )
        message = f"{judge} cannot be used: it answered {failure.reason.rstrip('.')}."
        if not error.is_model:
            return JudgeMisconfigured(message, hint=_hint(error, self.settings))
        similar = get_close_matches(self.settings.model, models, n=_MAX_NAMES, cutoff=0.4)
        if not (suggestions := similar or models[:_MAX_NAMES]):
            hint = "name a model that this server has: `model=...`"
            return JudgeMisconfigured(message, hint=hint)
        names = ", ".join(f"`{name}`" for name in suggestions)
        return JudgeMisconfigured(f"{message} It has {names}.", hint=f"`model={suggestions[0]}`")


def _hint(error: ServerError, settings: Settings) -> str:
    if error.is_quota or error.status == 402:
        return "the account has no credit left: top it up, or use another account's key"
    if error.status in (401, 403):
        names = ", ".join(f"`{name}`" for name in settings.key_variables)
        return f"correct the key; the first of these that is set is used: {names}"
    if error.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if error.status >= 500:
        return "check the server, or try again later"
    return "change the option that it rejects: `model=`, `temperature=`, `api_version=`"


def _models(client: openai.OpenAI) -> list[str]:
    """The models that a server lists; none if it has no such list."""
    try:
        response = client.models.with_raw_response.list()
        page = parse_json(response.content)
    except UnusableBody:
        return []
    except openai.APIStatusError as error:
        if error.status_code in _NO_LIST:
            return []
        raise
    entries = json_list(json_object(page).get("data"))
    names = (json_object(entry).get("id") for entry in entries)
    return [name for name in names if isinstance(name, str)]
