"""Clients of the OpenAI SDK, and what their errors mean.

The SDK's own retries are switched off: the only retries are those of `http.retries`. The SDK and
its HTTP library log only warnings, because their other lines contain the whole address.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

import openai

from mmie_tasks.http.access import Access, basic_credentials
from mmie_tasks.http.attempt import Failure, FailureKind
from mmie_tasks.http.errors import ServerError, UnusableBody, read_server_error, redact
from mmie_tasks.http.rate_limit import quota_reset_s, retry_after_s, wait_in_body_s

MAX_BODY_BYTES = 4 * 2**20
"""Limit of a decompressed reply. A long one has some 100 KiB."""

ResultT = TypeVar("ResultT")

_CONNECT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK needs a text; servers without keys do not read it

# The SDK's HTTP library: `httpx2`, or `httpx` of older SDKs.
_HTTPX: Any = sys.modules[openai.DefaultAsyncHttpxClient.__mro__[1].__module__.partition(".")[0]]

_DENIED = (401, 402, 403, 404, 405)
_RETRIED = (408, 409, 425)

# What an attempt may raise. Any other exception is a programming error.
ATTEMPT_ERRORS = (openai.OpenAIError, _HTTPX.HTTPError, asyncio.TimeoutError, UnusableBody, OSError)


def async_client(access: Access) -> openai.AsyncOpenAI:
    """An asynchronous client, to be opened and closed in the loop that uses it."""
    kind = openai.AsyncAzureOpenAI if access.api_type == "azure" else openai.AsyncOpenAI
    return kind(**_options(access))


def blocking_client(access: Access) -> openai.OpenAI:
    """A blocking client of a server that is not at Azure."""
    return openai.OpenAI(**_options(access))


def _options(access: Access) -> dict[str, Any]:
    for name in ("openai", _HTTPX.__name__):
        library = logging.getLogger(name)
        library.setLevel(max(library.level, logging.WARNING))
    parts, credentials = urlsplit(access.base_url), basic_credentials(access.base_url)
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    azure = {"azure_endpoint": address, "api_version": access.api_version}
    return {
        **(azure if access.api_type == "azure" else {"base_url": address}),
        "api_key": access.api_key or _NO_KEY,
        "timeout": openai.Timeout(access.timeout_s, connect=min(_CONNECT_S, access.timeout_s)),
        "max_retries": 0,
        "default_headers": {"Authorization": f"Basic {credentials}"} if credentials else {},
        "default_query": dict(parse_qsl(parts.query, keep_blank_values=True)),
    }


async def receive(
    response: AbstractAsyncContextManager[openai.AsyncAPIResponse[Any]],
    timeout_s: float,
    max_bytes: int = MAX_BODY_BYTES,
) -> tuple[bytes, float | None]:
    """The decompressed body of a response, and the seconds until an exhausted quota is reset.

    The SDK's timeout applies to every piece of the response, this one to all of it.

    Raises:
        UnusableBody: The body is larger than the limit, or cannot be decompressed.
        openai.OpenAIError: One of `ATTEMPT_ERRORS`; `failure_from_error` explains them.
        ConnectionError: The SDK raised an error of another library.
    """

    async def read() -> tuple[bytes, Mapping[str, str]]:
        body = bytearray()
        async with response as opened:
            async for chunk in opened.iter_bytes():
                body.extend(chunk)
                if len(body) > max_bytes:
                    raise UnusableBody(f"the server sent more than {max_bytes // 2**20} MiB")
            return bytes(body), opened.headers

    try:
        content, headers = await asyncio.wait_for(read(), timeout_s)
    except _HTTPX.DecodingError as error:
        raise UnusableBody("the server sent a body that cannot be decompressed") from error
    except ATTEMPT_ERRORS:
        raise
    except Exception as error:
        # Errors of anyio and of the event loop reach the callers of the SDK now and then, such as
        # `EndOfStream` (encode/httpcore#808) and `RuntimeError` (openai/openai-python#1059).
        raise ConnectionError(f"{type(error).__name__}: {error}") from error
    return content, quota_reset_s(headers, time.time())


def run_in_thread(coroutine: Coroutine[Any, Any, ResultT]) -> ResultT:
    """The result of a coroutine, run in another thread: a notebook's thread has a loop already."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def failure_from_error(error: BaseException, secrets: Sequence[str]) -> Failure:
    """What one of `ATTEMPT_ERRORS` means for the request."""
    match error:
        case openai.APIStatusError():
            # The SDK reads only one form of error bodies.
            content, headers, now = error.response.content, error.response.headers, time.time()
            server_error = read_server_error(error.status_code, content, secrets)
            wait_s = retry_after_s(headers, now) or wait_in_body_s(content, now)
            return Failure(
                kind=_kind(server_error),
                reason=str(server_error),
                error=server_error,
                wait_s=wait_s,
                # A 429 that demands a wait is not about every quota that is used up.
                pause_s=None
                if error.status_code == 429 and wait_s is not None
                else quota_reset_s(headers, now),
            )
        case openai.APITimeoutError() | _HTTPX.TimeoutException() | asyncio.TimeoutError():
            return Failure(kind="timed_out", reason="no answer in time")
        case openai.APIConnectionError() | _HTTPX.HTTPError():
            cause = error.__cause__ or error
            text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            return Failure(kind="failed", reason=redact(f"no connection ({text})", secrets))
        case _:
            return Failure(kind="failed", reason=redact(str(error), secrets))


def _kind(error: ServerError) -> FailureKind:
    if error.is_content_filter:
        return "rejected"
    if error.is_quota or error.is_key or error.is_model or error.status in _DENIED:
        return "denied"
    if error.status == 429:
        return "busy"
    can_pass = error.status in _RETRIED or error.status >= 500 or error.status < 400
    return "failed" if can_pass else "rejected"
