"""Clients of the OpenAI SDK, and what their errors mean.

The SDK's own retries are switched off: the only retries are those of `http.retries`. A query in a
server's address is sent with every request, and hidden from the log of the HTTP library.
"""

from __future__ import annotations

import asyncio
import base64
import difflib
import json
import re
import string
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import quote, unquote, urlsplit

import openai
from loguru import logger

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.http.access import Access, public_address
from mmie_tasks.http.rate_limit import Health, Limiter, Pace, quota_reset_s, retry_after_s
from mmie_tasks.http.retries import Endpoint, Failure, FailureKind, ReplyT, RequestT, Success

if TYPE_CHECKING:  # the HTTP library of older SDKs is `httpx`
    from httpx2 import Request, Response

MAX_BODY_BYTES = 4 * 2**20
"""Default limit of a response, after decompression. A long reply has some 100 KiB."""

_CONNECT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK needs a text; servers without keys do not read it

_FILTER_CODES = (
    "content_filter",
    "content_policy_violation",
    "responsibleaipolicyviolation",
    "invalid_prompt",
    "moderation_blocked",
    "data_inspection_failed",
)
_PARAMETER_CODES = ("unsupported_parameter", "unsupported_value", "unknown_parameter")
_UNSUPPORTED = re.compile(
    r"unsupported|not support|deprecated|unrecogni[sz]ed|unknown|not permitted|unexpected", re.IGNORECASE
)
_PARAMETERS = re.compile(
    r"\b(?:max_tokens|max_completion_tokens|temperature|response_format|seed|(?i:(?:top_)?logprobs))\b"
)
_LOGPROBS_STATUSES = (400, 403, 422, 500, 501)
_KEY = re.compile(
    r"\b(?:sk|pk|rk|hf|gsk|xai|nvapi)[-_][\w*.-]{4,}|\bAIza[\w-]{20,}|\b(?i:bearer|basic)\s+[^\s\"',}]{8,}"
)
_CREDENTIALS = re.compile(r"(\w+://)[^\s/@\"']+@")
_MAX_CHARACTERS = 200

_DENIED = (401, 402, 403, 404, 405)
_RETRIED = (408, 409, 425)


class UnusableBody(Exception):
    """A response is not what the API promises. A retry may help."""


# What an attempt may raise. Any other exception is a programming error.
ATTEMPT_ERRORS = (openai.OpenAIError, asyncio.TimeoutError, UnusableBody, OSError)


Attempt: TypeAlias = Callable[[RequestT], Awaitable[Success[ReplyT] | Failure]]


def async_client(access: Access, url: str, max_body_bytes: int = MAX_BODY_BYTES) -> openai.AsyncOpenAI:
    """An asynchronous client, to be opened and closed in the loop that uses it. It reads no larger bodies."""
    kind = openai.AsyncAzureOpenAI if access.api_type == "azure" else openai.AsyncOpenAI
    return kind(**_options(access, url), http_client=_BoundedClient(urlsplit(url).query, max_body_bytes))


@asynccontextmanager
async def open_endpoints(
    access: Access,
    attempt_with: Callable[[openai.AsyncOpenAI, str], Attempt[RequestT, ReplyT]],
    *,
    pace: Pace,
    max_concurrency: int,
    max_body_bytes: int = MAX_BODY_BYTES,
) -> AsyncIterator[Sequence[Endpoint[RequestT, ReplyT]]]:
    """Open a client for each server, for `send_all`.

    `attempt_with` returns, for a client and its address for messages, the function that sends a request once.
    """
    endpoints = []
    async with AsyncExitStack() as stack:
        for url in access.base_urls:
            client = await stack.enter_async_context(async_client(access, url, max_body_bytes))
            address = public_address(url)
            endpoints.append(
                Endpoint(
                    address=address,
                    limiter=Limiter(ceiling=max_concurrency, no_growth_s=pace.no_growth_s, clock=time.monotonic),
                    health=Health(pace=pace, clock=time.monotonic),
                    send=attempt_with(client, address),
                )
            )
        yield endpoints


def check_servers(access: Access, problem_of: Callable[[str], Coroutine[Any, Any, MmieTasksError | None]]) -> None:
    """Check all servers at once. One that works is enough; the log warns about the others.

    Raises:
        MmieTasksError: The problem of the first server, if `problem_of` finds one for each.
    """

    async def results() -> list[MmieTasksError | None]:
        return await asyncio.gather(*(problem_of(url) for url in access.base_urls))

    with ThreadPoolExecutor(max_workers=1) as pool:  # in a notebook, a loop is running in this thread
        outcomes = pool.submit(lambda: asyncio.run(results())).result()
    problems = [problem for problem in outcomes if problem is not None]
    if len(problems) == len(outcomes):
        raise problems[0]
    for problem in problems:
        logger.warning(f"{problem.message} The other servers are used. hint: {problem.hint}")


def blocking_client(access: Access, url: str) -> openai.OpenAI:
    """A blocking client of one server, for a few requests. Reads responses of any size."""
    kind = openai.AzureOpenAI if access.api_type == "azure" else openai.OpenAI
    query = urlsplit(url).query
    http_client = openai.DefaultHttpxClient(
        follow_redirects=not query, event_hooks={"request": [partial(_add_query, query)]}
    )
    return kind(**_options(access, url), http_client=http_client)


def _options(access: Access, url: str) -> dict[str, Any]:
    parts, headers = urlsplit(url), {}
    if parts.username is not None:
        credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
    # Without user, password and query, which the HTTP library would log.
    address = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    azure = {"azure_endpoint": address, "api_version": access.api_version}
    return {
        **(azure if access.api_type == "azure" else {"base_url": address}),
        "api_key": access.api_key or _NO_KEY,
        "timeout": openai.Timeout(access.timeout_s, connect=min(_CONNECT_S, access.timeout_s)),
        "max_retries": 0,
        "default_headers": {**headers, "Accept-Encoding": "gzip"},
    }


class _BoundedClient(openai.DefaultAsyncHttpxClient):
    """The SDK's HTTP client, which also adds the query of the server's address and reads no body beyond a limit."""

    def __init__(self, url_query: str, max_body_bytes: int) -> None:
        super().__init__(follow_redirects=not url_query)
        self._url_query = url_query
        self._max_body_bytes = max_body_bytes

    async def send(self, request: Request, **options: Any) -> Response:  # noqa: ANN401
        """Send a request, and read the response; an error's body that is unusable counts as empty."""
        _add_query(self._url_query, request)
        response = await super().send(request, **{**options, "stream": True})
        try:
            body = await _read_body(response, self._max_body_bytes)
        except UnusableBody:
            if not response.is_error:
                raise
            body = b""
        finally:
            await response.aclose()
        encoding = ("content-encoding", "content-length", "transfer-encoding")
        return type(response)(
            response.status_code,
            headers=[pair for pair in response.headers.multi_items() if pair[0] not in encoding],
            content=body,
            request=response.request,
            extensions=response.extensions,
        )


def _add_query(url_query: str, request: Request) -> None:
    """Add a query to a request. The HTTP library logs the URL, and sends this in its place.

    It would also go to where a server redirects, so redirects must not be followed.
    """
    if url_query:
        target = request.url.raw_path
        separator = b"&" if b"?" in target else b"?"
        request.extensions["target"] = target + separator + quote(url_query, safe=string.punctuation).encode("ascii")


async def _read_body(response: Response, max_bytes: int) -> bytes:
    """The decompressed body of a response; no more of it is in memory than is allowed."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    if encoding not in ("identity", "gzip", "deflate"):
        raise UnusableBody(f"the server sent a body with the encoding `{encoding:.20}`")
    # gzip or zlib, by the header of the data
    inflater = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding != "identity" else None
    body = bytearray()
    async for chunk in response.aiter_raw():
        try:
            body += inflater.decompress(chunk, max_bytes + 1 - len(body)) if inflater else chunk
        except zlib.error as error:
            raise UnusableBody("the server sent a body that cannot be decompressed") from error
        if len(body) > max_bytes:
            raise UnusableBody(f"the server sent more than {max_bytes // 2**20} MiB")
    if inflater and not inflater.eof:
        raise UnusableBody("the server sent a compressed body that is cut off")
    return bytes(body)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerError:
    """An error response.

    Attributes:
        status: HTTP status.
        code: The provider's error code in lower case, ``insufficient_quota``; may be empty.
        param: The parameter it concerns; may be empty.
        message: The server's message, cut to 200 characters, without keys.
    """

    status: int
    code: str = ""
    param: str = ""
    message: str = ""

    def __str__(self) -> str:
        code = f" ({self.code})" if self.code else ""
        return f"HTTP {self.status}{code}" + (f": {self.message}" if self.message else "")

    @property
    def is_content_filter(self) -> bool:
        """Whether a content filter stopped the request."""
        return any(code in self.code for code in _FILTER_CODES)

    @property
    def is_quota(self) -> bool:
        """Whether the account has no credit left, so that waiting does not help."""
        return "insufficient_quota" in self.code or "billing" in self.code

    @property
    def is_parameter(self) -> bool:
        """Whether the server does not support a parameter or its value."""
        has_code = any(code in self.code for code in _PARAMETER_CODES)
        return self.status in (400, 422) and (has_code or bool(_UNSUPPORTED.search(self.message)))

    @property
    def is_logprobs(self) -> bool:
        """Whether the server reports no log-probabilities, or fewer than were requested."""
        is_named = self.concerns("logprobs") or self.concerns("top_logprobs")
        return is_named and self.status in _LOGPROBS_STATUSES

    @property
    def is_model(self) -> bool:
        """Whether the server does not have the model."""
        has_code = self.code in ("model_not_found", "deploymentnotfound", "unknown_model")
        return has_code or (self.status == 404 and "model" in self.message.lower())

    def concerns(self, parameter: str) -> bool:
        """Whether the error is about this parameter."""
        if self.param:
            return self.param.rpartition(".")[2] == parameter
        # The first parameter in the message is the wrong one; a second may be its replacement.
        match = _PARAMETERS.search(self.message)
        return match is not None and match.group().lower() == parameter


def read_server_error(status: int, body: object, secrets: Sequence[str] = ()) -> ServerError:
    """Read an error response of any shape: OpenAI's JSON, another server's, a proxy's page.

    >>> str(read_server_error(429, b'{"error": {"code": "insufficient_quota", "message": "Pay."}}'))
    'HTTP 429 (insufficient_quota): Pay.'
    """
    if isinstance(body, (bytes, str)):
        text = body.decode(errors="replace") if isinstance(body, bytes) else body
        try:
            body = json.loads(text)
        except (ValueError, RecursionError):
            body = text
    fields = _mapping(body, "message")
    fields = {**fields, **_mapping(fields.get("error"), "message")}
    codes = (fields.get("code"), fields.get("type"), _mapping(fields.get("innererror"), "code").get("code"))
    code, error_type, inner_code = (text.lower() if isinstance(text, str) else "" for text in codes)
    message = fields.get("message") or fields.get("detail") or ""
    text = message if isinstance(message, str) else json.dumps(message, default=str)
    param = fields.get("param")
    return ServerError(
        status=status,
        code=" ".join(filter(None, (code or error_type, inner_code))),
        param=param if isinstance(param, str) else "",
        message=redact(" ".join(text.split())[: 4 * _MAX_CHARACTERS], secrets),
    )


def _mapping(json_value: object, text_key: str) -> Mapping[str, object]:
    """A JSON object; a text becomes an object with this one key."""
    if isinstance(json_value, dict):
        return json_value
    return {text_key: json_value} if isinstance(json_value, str) else {}


def json_object(json_value: object) -> Mapping[str, object]:
    """A JSON object; an empty one for any other JSON."""
    return json_value if isinstance(json_value, dict) else {}


def json_list(json_value: object) -> list[object]:
    """A JSON array; an empty one for any other JSON."""
    return json_value if isinstance(json_value, list) else []


def model_names(json_value: object) -> list[str]:
    """The names in a server's list of models; none if it is another JSON."""
    names = (json_object(entry).get("id") for entry in json_list(json_object(json_value).get("data")))
    return [name for name in names if isinstance(name, str)]


def nearest_names(model: str, names: Sequence[str]) -> list[str]:
    """The names, at most five, that are most similar to a model's; the first ones if none is similar."""
    return difflib.get_close_matches(model, names, n=5, cutoff=0.4) or list(names[:5])


def json_count(json_value: object) -> int:
    """A positive integer; 0 for any other JSON."""
    return json_value if type(json_value) is int and json_value > 0 else 0


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """The first 200 characters of a server's message, without keys and passwords.

    >>> redact("wrong key sk-abcdef123 at http://me:word@host/v1")
    'wrong key … at http://host/v1'
    """
    for secret in filter(None, secrets):
        text = text.replace(secret, "…")
    text = _CREDENTIALS.sub(r"\1", _KEY.sub("…", text))
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def parse_json(content: bytes | str) -> object:
    """The JSON of a response.

    Raises:
        UnusableBody: It is not JSON: cut off, a proxy's page, empty.
    """
    try:
        parsed: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnusableBody(f"the server sent {len(content)} bytes that are no JSON") from error
    return parsed


def failure_of(error: BaseException, secrets: Sequence[str]) -> Failure:
    """What one of `ATTEMPT_ERRORS` means for the request."""
    match error:
        case openai.APIStatusError():
            # Not the SDK's reading of the body, which knows only one shape of errors.
            server_error = read_server_error(error.status_code, error.response.content, secrets)
            headers = error.response.headers
            return Failure(
                kind=_kind(server_error),
                reason=str(server_error),
                error=server_error,
                wait_s=retry_after_s(headers, time.time()),
                pause_s=quota_reset_s(headers),
            )
        case openai.APITimeoutError() | asyncio.TimeoutError():
            return Failure(kind="timed_out", reason="no answer in time")
        case openai.APIConnectionError():
            cause = error.__cause__ or error
            text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
            return Failure(kind="failed", reason=redact(f"no connection ({text})", secrets))
        case _:
            return Failure(kind="failed", reason=redact(str(error), secrets))


def _kind(error: ServerError) -> FailureKind:
    if error.is_content_filter:
        return "rejected"
    if error.is_quota or error.is_model or error.status in _DENIED:
        return "denied"
    if error.status == 429:
        return "busy"
    return "failed" if error.status in _RETRIED or error.status >= 500 or error.status < 400 else "rejected"
