"""Checks servers by their list of models, which costs nothing."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TypeAlias, TypeVar

import openai

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.log import warn
from mmie_tasks.http import access as http_access
from mmie_tasks.http import client as http_client
from mmie_tasks.http.access import Access
from mmie_tasks.http.attempt import Failure
from mmie_tasks.http.bodies import json_list, json_object, parse_json
from mmie_tasks.http.errors import ServerError, UnusableBody
from mmie_tasks.http.retirements import retirement_notice, shutdown_day

_TIMEOUT_S = 10.0

ModelList: TypeAlias = Mapping[str, date | None]
"""Models by name, in the server's order, to the day on which it shuts them down, if it names one.
"""

ErrorT = TypeVar("ErrorT", bound=MmieTasksError)


def check_model_lists(
    access: Access, model: str, pauses_s: Sequence[float], error: type[ErrorT]
) -> None:
    """Raise an error of this class without a key, or if no server can be used.

    A server certainly cannot be used if it denies the key, or cannot be reached after so many
    pauses. The log warns of a model that is not in its list, or that will be shut down soon.
    """
    if (missing_key := access.missing_key(error)) is not None:
        raise missing_key
    access = replace(access, timeout_s=min(_TIMEOUT_S, access.timeout_s))
    lists: list[ModelList] = []

    async def problem(url: str) -> ErrorT | None:
        return await _problem(access, url, model, pauses_s, error, lists)

    try:
        http_client.check_servers(access, problem)
    finally:
        warn_of_retirement(access, model, lists)


def warn_of_retirement(
    access: Access, model: str, lists: Sequence[ModelList], today: date | None = None
) -> None:
    """Log a warning of a model that was shut down, or will be soon: see `retirement_notice`.

    Args:
        access: Its servers.
        model: Its name.
        lists: Of its servers, as far as they are known; the first day in them counts.
        today: By default, today.
    """
    plain = _without_prefix(model)
    days = [
        day
        for models in lists
        for name, day in models.items()
        if day and (name == model or (model not in models and _without_prefix(name) == plain))
    ]
    notice = retirement_notice(
        model,
        today or datetime.now(timezone.utc).date(),
        is_at_azure=access.is_at_azure,
        shutdown=min(days, default=None),
    )
    if notice is not None:
        subject = access.service.partition(" `")[0]
        warn(f"{subject} {notice}.", hint="choose another one with `model=`")


async def _problem(
    access: Access,
    url: str,
    model: str,
    pauses_s: Sequence[float],
    error: type[ErrorT],
    lists: list[ModelList],
) -> ErrorT | None:
    name = f"{access.service} at {http_access.public_address(url)}"
    async with http_client.async_client(access, url) as client:
        for wait_s in (*pauses_s, None):
            models = await list_models(client, access)
            if not isinstance(models, Failure) or models.kind != "failed" or wait_s is None:
                break
            await asyncio.sleep(wait_s)
    if not isinstance(models, Failure):
        lists.append(models)
    match models:
        case Failure(error=None):
            return error(
                f"{name} is not reachable: {models.reason}.", hint=http_access.UNREACHABLE_HINT
            )
        case Failure(error=ServerError() as denial) if (
            denial.is_key or denial.status == 403
        ) and "scope" not in denial.message:
            reason = models.reason.rstrip(".")
            return error(f"{name} cannot be used: it answered {reason}.", hint=access.key_hint)
        case Mapping() if models and model not in models:
            others = ", ".join(f"`{other}`" for other in nearest_names(model, models))
            warn(
                f"{name} is not in the server's list of models. It has {others}.",
                hint="check `model=`",
            )
    return None


def announce_retirement(access: Access, model: str) -> None:
    """Warn of a model that leaves as `warn_of_retirement`, by the lists that come in two seconds.

    No server makes it fail, and without a key that is required, nothing is sent.
    """
    lists: list[ModelList] = []
    short = replace(access, timeout_s=min(1.0, access.timeout_s))

    async def look(url: str) -> None:
        async with http_client.async_client(short, url) as client:
            models = await list_models(client, short)
        if not isinstance(models, Failure):
            lists.append(models)

    if access.missing_key(MmieTasksError) is None:
        http_client.check_servers(access, look)
    warn_of_retirement(access, model, lists)


def check_listed(access: Access, model: str, error: type[ErrorT], hint: str) -> None:
    """Raise an error of this class if every server has a list of models without this one.

    Prefixes (``openai/gpt-4o``) and tags (``qwen3:latest``) of names do not count. A list with a
    wildcard, as gateways have them, names any model.
    """
    access = replace(access, timeout_s=min(_TIMEOUT_S, access.timeout_s))

    async def problem(url: str) -> ErrorT | None:
        async with http_client.async_client(access, url) as client:
            names = await list_models(client, access)
        if isinstance(names, Failure) or not names or any("*" in name for name in names):
            return None
        if _plain_name(model) in map(_plain_name, names):
            return None
        listed = ", ".join(f"`{name}`" for name in nearest_names(model, names))
        address = http_access.public_address(url)
        return error(f"{access.service} is not at {address}, which has {listed}.", hint=hint)

    http_client.check_servers(access, problem)


def _plain_name(model: str) -> str:
    return _without_prefix(model).partition(":")[0]


def _without_prefix(model: str) -> str:
    return model.rpartition("/")[2]


async def list_models(client: openai.AsyncOpenAI, access: Access) -> ModelList | Failure:
    """The models that a server lists; none if it takes long or sends something else.

    A failure if it cannot be reached, or answers with an error.
    """
    try:
        content, _ = await http_client.receive(
            client.models.with_streaming_response.list(), 2 * access.timeout_s
        )
        entries = json_list(json_object(parse_json(content)).get("data"))
    except http_client.ATTEMPT_ERRORS as error:
        failure = http_client.failure_from_error(error, access.secrets)
        is_slow = failure.kind == "timed_out" and "Connect" not in type(error.__cause__).__name__
        return {} if is_slow or isinstance(error, UnusableBody) else failure
    models: dict[str, date | None] = {}
    for entry in map(json_object, entries):
        if isinstance(name := entry.get("id"), str):
            models[name] = shutdown_day(entry.get("shutdown_date"))
    return models


def nearest_names(model: str, names: Collection[str]) -> list[str]:
    """The names, at most five, that are most similar to a model's; the first ones if none is
    similar.
    """
    return difflib.get_close_matches(model, names, n=5, cutoff=0.4) or list(names)[:5]
