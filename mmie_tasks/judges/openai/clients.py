"""The provider's SDK, made to try once: there is one retry loop, and it is ours."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urlsplit

import openai

from mmie_tasks.judges.openai.settings import Settings

_CONNECT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK wants some word; servers that need no key do not read it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Address:
    """An address without the user and password it may hold, which go into a header.

    The HTTP library would do the same, and log the whole address.
    """

    url: str
    headers: Mapping[str, str] = field(repr=False)


def async_client(settings: Settings, url: str) -> openai.AsyncOpenAI:
    """A client for one of the servers; to be made and closed in the loop that uses it."""
    address, told = _address(url), _told(settings, settings.timeout_s)
    if settings.api_type == "azure":
        return openai.AsyncAzureOpenAI(
            azure_endpoint=address.url,
            api_version=settings.api_version,
            default_headers=address.headers,
            **told,
        )
    return openai.AsyncOpenAI(base_url=address.url, default_headers=address.headers, **told)


def client(settings: Settings, url: str, timeout_s: float) -> openai.OpenAI:
    """A client that blocks, for a few requests before a run."""
    address, told = _address(url), _told(settings, timeout_s)
    if settings.api_type == "azure":
        return openai.AzureOpenAI(
            azure_endpoint=address.url,
            api_version=settings.api_version,
            default_headers=address.headers,
            **told,
        )
    return openai.OpenAI(base_url=address.url, default_headers=address.headers, **told)


def _told(settings: Settings, timeout_s: float) -> dict[str, Any]:
    """What every kind of client is told."""
    timeout = openai.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
    return {"api_key": settings.api_key or _NO_KEY, "timeout": timeout, "max_retries": 0}


def _address(url: str) -> _Address:
    parts = urlsplit(url)
    if parts.username is None:
        return _Address(url=url, headers={})
    words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    basic = base64.b64encode(words.encode()).decode("ascii")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return _Address(url=bare, headers={"Authorization": f"Basic {basic}"})
