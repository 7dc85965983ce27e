"""The provider's SDK, made to try once: there is one retry loop, and it is ours."""

from __future__ import annotations

import openai

from mmie_tasks.judges.openai.settings import Settings

_CONNECT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK wants some word; servers that need no key do not read it


def async_client(settings: Settings, url: str) -> openai.AsyncOpenAI:
    """A client for one of the servers; to be made and closed in the loop that uses it."""
    key, timeout = settings.api_key or _NO_KEY, _timeout(settings.timeout_s)
    if settings.api_type == "azure":
        return openai.AsyncAzureOpenAI(
            azure_endpoint=url,
            api_version=settings.api_version,
            api_key=key,
            timeout=timeout,
            max_retries=0,
        )
    return openai.AsyncOpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0)


def client(settings: Settings, url: str, timeout_s: float) -> openai.OpenAI:
    """A client that blocks, for a few requests before a run."""
    key, timeout = settings.api_key or _NO_KEY, _timeout(timeout_s)
    if settings.api_type == "azure":
        return openai.AzureOpenAI(
            azure_endpoint=url,
            api_version=settings.api_version,
            api_key=key,
            timeout=timeout,
            max_retries=0,
        )
    return openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0)


def _timeout(timeout_s: float) -> openai.Timeout:
    return openai.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s))
