"""Checks a server by its list of models, which costs nothing."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Sequence
from dataclasses import replace

import openai

from mmie_tasks.core.log import warn
from mmie_tasks.http import client as http_client
from mmie_tasks.http.access import UNREACHABLE_HINT, Access, ErrorT
from mmie_tasks.http.attempt import Failure
from mmie_tasks.http.bodies import json_list, json_object, parse_json
from mmie_tasks.http.errors import ServerError, UnusableBody

_TIMEOUT_S = 10.0


def check_model_lists(
    access: Access, model: str, pauses_s: Sequence[float], error: type[ErrorT]
) -> None:
    """Raise an error of this class if the server certainly cannot be used.

    That is so if a required key is missing, if the server denies the key, or if it cannot be
    reached after these pauses. The log warns of a model that is not in the server's list.
    """
    if (missing_key := access.missing_key(error)) is not None:
        raise missing_key
    access = replace(access, timeout_s=min(_TIMEOUT_S, access.timeout_s))
    models = http_client.run_in_thread(_models_after_retries(access, pauses_s))
    if (problem := _problem(access, model, models, error)) is not None:
        raise problem


async def _models_after_retries(access: Access, pauses_s: Sequence[float]) -> list[str] | Failure:
    async with http_client.async_client(access) as client:
        for wait_s in pauses_s:
            models = await list_models(client, access)
            if not isinstance(models, Failure) or models.kind != "failed":
                return models
            await asyncio.sleep(wait_s)
        return await list_models(client, access)


def _problem(
    access: Access, model: str, models: list[str] | Failure, error: type[ErrorT]
) -> ErrorT | None:
    name = f"{access.service} at {access.address}"
    match models:
        case Failure(error=None):
            return error(f"{name} is not reachable: {models.reason}.", hint=UNREACHABLE_HINT)
        case Failure(error=ServerError() as denial) if (
            denial.is_key or denial.status == 403
        ) and "scope" not in denial.message:
            reason = models.reason.rstrip(".")
            return error(f"{name} cannot be used: it answered {reason}.", hint=access.key_hint)
        case list() if models and model not in models:
            others = ", ".join(f"`{other}`" for other in nearest_names(model, models))
            warn(
                f"{name} is not in the server's list of models. It has {others}.",
                hint="check `model=`",
            )
    return None


def check_listed(access: Access, model: str, error: type[ErrorT], hint: str) -> None:
    """Raise an error of this class if the server's list of models lacks this one.

    Prefixes (``openai/gpt-4o``) and tags (``qwen3:latest``) are ignored. A gateway's list with a
    wildcard names any model.
    """
    access = replace(access, timeout_s=min(_TIMEOUT_S, access.timeout_s))
    names = http_client.run_in_thread(_models_after_retries(access, ()))
    if isinstance(names, Failure) or not names or any("*" in name for name in names):
        return
    if _plain_name(model) not in map(_plain_name, names):
        listed = ", ".join(f"`{name}`" for name in nearest_names(model, names))
        message = f"{access.service} is not at {access.address}, which has {listed}."
        raise error(message, hint=hint)


def _plain_name(model: str) -> str:
    return model.rpartition("/")[2].partition(":")[0]


async def list_models(client: openai.AsyncOpenAI, access: Access) -> list[str] | Failure:
    """The models that a server lists; a failure if it cannot be reached or answers with an error.

    There are none if it is slow or sends something else.
    """
    try:
        content, _ = await http_client.receive(
            client.models.with_streaming_response.list(), 2 * access.timeout_s
        )
        entries = json_list(json_object(parse_json(content)).get("data"))
    except http_client.ATTEMPT_ERRORS as error:
        failure = http_client.failure_from_error(error, access.secrets)
        is_slow = failure.kind == "timed_out" and "Connect" not in type(error.__cause__).__name__
        return [] if is_slow or isinstance(error, UnusableBody) else failure
    names = (json_object(entry).get("id") for entry in entries)
    return [name for name in names if isinstance(name, str)]


def nearest_names(model: str, names: list[str]) -> list[str]:
    """The five names most similar to a model's; the first five if none is similar."""
    return difflib.get_close_matches(model, names, n=5, cutoff=0.4) or names[:5]
