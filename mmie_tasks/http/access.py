"""A server of the OpenAI API: its address and key, clients of the SDK, and its list of models."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.http.errors import Fault, fault_of, redact

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

ApiType: TypeAlias = Literal["openai", "azure"]

_DEFAULT_URL = "https://api.openai.com/v1"
_OPENAI, _AZURE = ".api.openai.com", ".openai.azure.com"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = ("localhost", "0.0.0.0")  # noqa: S104 - what vLLM prints; nothing is bound to it
_ROUTES = re.compile(r"/+(?:(?:chat/completions|images/generations)/*)?$")
_ADDRESS = re.compile(
    r"https?://(?:[^\s/@;?#]+@)?(?:[^\s/;?#:@\[\]]+|\[[\da-f:]+\])(?::\d{1,5})?(?:/[^\s;?#]*)?"
    r"(?:\?\S*)?",
    re.IGNORECASE,
)
_LIST_TIMEOUT_S = 10.0
_NO_KEY = "EMPTY"  # the SDK needs a text; servers without keys do not read it

ErrorT = TypeVar("ErrorT", bound=MmieTasksError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The server of a model, and how a client reaches it.

    Attributes:
        service: The subject of messages: ``The judge `gpt-4o```.
        base_url: Without a route; may hold a user and a password.
        api_type: The kind of server.
        api_version: Azure's API version.
        api_key: None if none is set.
        key_variables: Environment variables that may hold the key, in order of precedence.
        timeout_s: Longest time of one attempt.
        shared_variable: The environment variable that holds the address, if other programs read
            it, too.
    """

    service: str
    base_url: str = field(repr=False)
    api_type: ApiType = "openai"
    api_version: str = ""
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]
    timeout_s: float
    shared_variable: str = ""

    @property
    def address(self) -> str:
        """The server's address for messages: without user and password."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def foreign_host(self) -> str | None:
        """The host, without port; None for OpenAI's own.

        A model at a foreign host may be any model, whatever its name; at Azure, any deployment.
        """
        host = _host(self.base_url)
        return None if f".{host}".endswith(_OPENAI) else host

    @property
    def storage_name(self) -> str | None:
        """The function `storage_name` of the address."""
        return storage_name(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may contain: the key, and the password of the address."""
        password = urlsplit(self.base_url).password or ""
        return tuple(filter(None, (self.api_key, password, unquote(password))))

    @property
    def unreachable_hint(self) -> str:
        """What to do if there is no connection; names a proxy that the address goes through."""
        hint = "start it, or correct `base_url=`; most end in `/v1`"
        parts, proxies = urlsplit(self.base_url), getproxies()
        scheme = next((scheme for scheme in (parts.scheme, "all") if scheme in proxies), None)
        if scheme is None or proxy_bypass(parts.hostname or ""):
            return hint
        return f"{hint}; `{scheme}_proxy` is set: `export no_proxy={parts.hostname}` goes past it"

    def missing_key(self, error: type[ErrorT]) -> ErrorT | None:
        """An error of this class if the server requires a key and there is none."""
        is_own = f".{_host(self.base_url)}".endswith((_OPENAI, _AZURE))
        if self.api_key is not None or not (self.api_type == "azure" or is_own):
            return None
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return error(
            f"{self.service} at {self.address} needs a key, and none is set in {names}.",
            hint=f"`export {self.key_variables[-1]}=...`, or set `base_url=` to your own server",
        )

    # Clients. Their other log lines have the whole address.

    def async_client(self) -> AsyncOpenAI:
        """A client without retries of its own, to be opened in the loop that uses it.

        Raises:
            SettingWrong: A proxy variable of the environment cannot be used.
        """
        import openai  # takes a second

        kind = openai.AsyncAzureOpenAI if self.api_type == "azure" else openai.AsyncOpenAI
        try:
            return kind(**self._client_options(), max_retries=0)
        except (ImportError, ValueError) as error:
            raise self._wrong_proxy(error) from None

    def client(self, max_retries: int) -> OpenAI:
        """A blocking client.

        Raises:
            SettingWrong: A proxy variable of the environment cannot be used.
        """
        import openai

        kind = openai.AzureOpenAI if self.api_type == "azure" else openai.OpenAI
        try:
            return kind(**self._client_options(), max_retries=max_retries)
        except (ImportError, ValueError) as error:
            raise self._wrong_proxy(error) from None

    def _client_options(self) -> dict[str, Any]:
        for name in ("openai", "httpx", "httpx2"):
            logging.getLogger(name).setLevel(logging.WARNING)
        is_azure = self.api_type == "azure"
        azure = {"azure_endpoint": self.base_url, "api_version": self.api_version}
        return {
            **(azure if is_azure else {"base_url": self.base_url}),
            "api_key": self.api_key or _NO_KEY,
            "timeout": self.timeout_s,
        }

    def _wrong_proxy(self, error: Exception) -> SettingWrong:
        names = ", ".join(f"`{scheme}_proxy`" for scheme in getproxies())
        return SettingWrong(
            f"{self.service} at {self.address} cannot be reached: {redact(str(error))}",
            hint=f"correct {names}; SOCKS needs `pip install socksio`",
        )

    # The list of models.

    def model_names(self, max_retries: int = 0) -> list[str]:
        """The models that the server lists; none if its list cannot be read.

        Raises:
            Fault: The server sent an error, or no response.
        """
        import openai

        short = replace(self, timeout_s=min(_LIST_TIMEOUT_S, self.timeout_s))
        try:
            with short.client(max_retries) as client:
                models = json.loads(client.models.with_raw_response.list().content)
        except openai.OpenAIError as error:
            raise fault_of(error, self.secrets) from None
        except (ValueError, RecursionError):
            return []
        match models:
            case {"data": [*entries]}:
                names = (entry.get("id") for entry in entries if isinstance(entry, dict))
                return [name for name in names if isinstance(name, str)]
        return []

    def check_listed(self, model: str, error: type[ErrorT], hint: str) -> None:
        """Raise an error of this class if the server's list of models lacks this one.

        Prefixes (``openai/gpt-4o``) and tags (``qwen3:latest``) are ignored. A gateway's list with
        a wildcard names any model.
        """
        try:
            names = self.model_names()
        except Fault:
            return
        if not names or any("*" in name for name in names):
            return
        if _plain_name(model) not in map(_plain_name, names):
            listed = ", ".join(f"`{name}`" for name in similar_names(model, names))
            raise error(f"{self.service} is not at {self.address}, which has {listed}.", hint=hint)


def similar_names(model: str, names: Sequence[str]) -> Sequence[str]:
    """The five names most similar to a model's; the first five if none is similar."""
    return get_close_matches(model, names, n=5, cutoff=0.4) or names[:5]


def _plain_name(model: str) -> str:
    return model.rpartition("/")[2].partition(":")[0]


def server_name(url: str) -> str:
    """A server's host, port and path, the same for all ways to write its address.

    >>> [server_name(url) for url in ("http://LocalHost:8000/v1/", "https://host:443/other/v1")]
    ['127.0.0.1:8000', 'host/other']
    """
    parts = urlsplit(url)
    is_default = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    port = "" if is_default else f":{parts.port}"
    return f"{_host(url)}{port}{parts.path.rstrip('/').removesuffix('/v1')}"


def storage_name(url: str) -> str | None:
    """The server in the keys of stored replies, images and texts; None for OpenAI's own.

    It is the `server_name`: two servers of one host may have different weights under one name.
    """
    return None if f".{_host(url)}".endswith(_OPENAI) else server_name(url)


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return "127.0.0.1" if host in _THIS_MACHINE else host


def read_base_url(kind: str, text: str | None, api_type: ApiType = "openai") -> str:
    """The address in a text, without its route; OpenAI's own without a text.

    Raises:
        SettingWrong: The text is not one address, has a query, or is missing for Azure.

    >>> read_base_url("judge", "http://h/v1/chat/completions")
    'http://h/v1'
    """
    if text is None and api_type == "azure":
        raise SettingWrong(
            f"The {kind} is at Azure, but its address is not set.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    url = (text or _DEFAULT_URL).strip()
    if not _ADDRESS.fullmatch(url):
        raise SettingWrong(
            f"The {kind}'s base URL is not the address of one server.",
            hint="write it as `http://HOST:PORT/v1`; put a load balancer in front of several",
        )
    parts = urlsplit(url)
    if api_type == "azure":  # a deployment's address has the API version as query
        return parts._replace(path=parts.path.partition("/openai")[0], query="").geturl()
    if parts.query:
        raise SettingWrong(
            f"The {kind}'s base URL has a query, which requests would not have.",
            hint="put a proxy in front that adds it; a key goes into `OPENAI_API_KEY`",
        )
    return parts._replace(path=_ROUTES.sub("", parts.path)).geturl()


def read_key(
    kind: str, option: str | None, variables: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """The key in the first of the variables that is set.

    Raises:
        SettingWrong: The variable of the option ``api_key_env`` is not set, or the key cannot be
            sent. Neither is repeated: the option may be the key itself.
    """
    api_key = first_of(environment, variables)
    if option is not None and api_key is None:
        raise SettingWrong(
            f"The {kind} option `api_key_env` names no variable that is set.",
            hint="give the name of the environment variable that holds the key, and export it",
        )
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        names = ", ".join(f"`{name}`" for name in variables)
        raise SettingWrong(
            f"The {kind}'s key has characters that cannot be sent, such as typographic quotes.",
            hint=f"copy it again into the variable: {names}",
        )
    return api_key


def first_of(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The value of the first variable that is set and not empty."""
    return next(filter(None, (environment.get(name, "").strip() for name in names)), None)


def cost_share_usd(max_cost_usd: float | None, environment: Mapping[str, str]) -> float | None:
    """The share of one process in the cost limit of a run, in US dollars."""
    return max_cost_usd and max_cost_usd / int(environment.get("WORLD_SIZE") or 1)
