"""How a server is reached: its address and key, from options and the environment, and which parts
are secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mmie_tasks.core.errors import MmieTasksError, SettingWrong

ApiType: TypeAlias = Literal["openai", "azure"]

_DEFAULT_URL = "https://api.openai.com/v1"
_PROVIDER_DOMAIN = ".api.openai.com"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = ("localhost", "0.0.0.0")  # noqa: S104 - what vLLM prints; nothing is bound to it
_ROUTES = re.compile(r"/+(?:(?:chat/completions|images/generations)/*)?$")
UNREACHABLE_HINT = "start it, or correct `base_url=`; most end in `/v1`"

ErrorT = TypeVar("ErrorT", bound=MmieTasksError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The server of a model, and how a client reaches it.

    A query in `base_url` is sent with every request. `shared_variable` is the environment variable
    that holds the address, if other programs read it, too.
    """

    service: str  # the subject of messages: The judge `gpt-4o`
    base_url: str = field(repr=False)  # without a route; may hold a password
    api_type: ApiType = "openai"
    api_version: str = ""
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]  # that may hold the key, in order of precedence
    timeout_s: float  # of one attempt
    shared_variable: str = ""

    @property
    def address(self) -> str:
        """The server's address for messages: without user, password and query."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def foreign_host(self) -> str | None:
        """The host, without port; None for the provider's own.

        A model at a foreign host may be any model, whatever its name.
        """
        host = _host(self.base_url)
        return None if f".{host}".endswith(_PROVIDER_DOMAIN) else host

    @property
    def storage_name(self) -> str | None:
        """The function `storage_name` of the address; None for the provider's own server."""
        return None if self.foreign_host is None else storage_name(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may contain: the key, and password and query of the address.

        They are also listed URL-quoted and unquoted, and in base64 as they are sent. The longest
        is first, since one may be part of another.
        """
        parts = urlsplit(self.base_url)
        credentials = (basic_credentials(self.base_url) or "").rstrip("=")
        secrets = [self.api_key, parts.password, parts.query, credentials]
        secrets += [value for _, value in parse_qsl(parts.query)]
        secrets += [] if parts.password else [parts.username]  # may be a key
        forms = set()
        for secret in filter(None, secrets):
            plain = unquote(secret)
            forms |= {secret, plain, quote(plain, safe="", errors="surrogatepass")}
        return tuple(sorted(forms, key=len, reverse=True))

    @property
    def needs_key(self) -> bool:
        """Whether the server certainly requires a key: the provider's does."""
        return self.api_type == "azure" or self.foreign_host is None

    @property
    def key_hint(self) -> str:
        """What to do if the server denies the key."""
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return f"correct the key; the first of these that is set is used: {names}"

    def missing_key(self, error: type[ErrorT]) -> ErrorT | None:
        """Returns an error of this class if a key is required and no variable holds one."""
        if self.api_key is not None or not self.needs_key:
            return None
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return error(
            f"{self.service} at {self.address} needs a key, and none is set in {names}.",
            hint=f"`export {self.key_variables[-1]}=...`, or set `base_url=` to your own server",
        )


def server_name(url: str) -> str:
    """A server's host, port and path, the same for all ways to write its address.

    A default port and a ``/v1`` at the end are left out; ``localhost`` and ``0.0.0.0`` become
    ``127.0.0.1``.

    >>> [server_name(url) for url in ("http://LocalHost:8000/v1/", "https://host:443/other/v1")]
    ['127.0.0.1:8000', 'host/other']
    """
    host = urlsplit(url).hostname or ""
    host = "127.0.0.1" if host in _THIS_MACHINE else host
    port = f":{_port(url)}" if _port(url) else ""
    path = urlsplit(url).path.rstrip("/").removesuffix("/v1")
    return f"[{host}]{port}{path}" if ":" in host else f"{host}{port}{path}"


def storage_name(url: str) -> str | None:
    """The part of an address in the keys of stored replies, images and texts, next to the host.

    It is the `server_name` of an address with a port: two servers of one machine may have different
    weights under one name. It is None without a port: the signature has the host.
    """
    return server_name(url) if _port(url) else None


def _port(url: str) -> int | None:
    """The port, unless it is the default one."""
    parts = urlsplit(url)
    return None if parts.port == _DEFAULT_PORTS.get(parts.scheme) else parts.port


def _host(url: str) -> str:
    host = urlsplit(url).hostname or ""
    return "127.0.0.1" if host in _THIS_MACHINE and _port(url) else host


def basic_credentials(url: str) -> str | None:
    """User and password of an address in base64, as a header has them; None without a user.

    >>> basic_credentials("http://me:word@host/v1")
    'bWU6d29yZA=='
    """
    parts = urlsplit(url)
    if parts.username is None:
        return None
    credentials = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return base64.b64encode(credentials.encode()).decode()


def read_key(
    kind: str, option: str | None, variables: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """The key in the first of the variables that is set.

    Raises:
        SettingWrong: The variable of the option ``api_key_env`` is not set, or the key cannot be
            sent.
    """
    api_key = first_of(environment, variables)
    if option is not None and api_key is None:
        # The option is not repeated: it may be the key itself.
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


def read_base_url(kind: str, text: str | None, api_type: ApiType = "openai") -> str:
    """The address in a text, without its route; OpenAI's own without a text.

    Raises:
        SettingWrong: The text is not one address, or the address of a server at Azure is missing.

    >>> read_base_url("judge", "http://h/v1/chat/completions")
    'http://h/v1'
    """
    if text is None and api_type == "azure":
        raise SettingWrong(
            f"The {kind} is at Azure, but its address is not set.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    url = (text or _DEFAULT_URL).strip("; ")
    if re.search(r"[;\s]", url):
        raise SettingWrong(
            f"The {kind}'s `base_url` holds several addresses, and a {kind} has one server.",
            hint="put a load balancer in front of them and name its address: `vllm-router`, "
            "LiteLLM, nginx",
        )
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        address = url.rpartition("@")[2].partition("?")[0]
        raise SettingWrong(
            f"The {kind}'s base URL `{address}` is no address of a server.",
            hint="write it as `http://HOST:PORT/v1`",
        )
    path, query = _ROUTES.sub("", parts.path), parts.query
    if api_type == "azure" and "/openai" in path:  # a deployment's, with the API version as query
        path, query = path.partition("/openai")[0], ""
    return parts._replace(path=path, query=query, fragment="").geturl()


def first_set(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first of the variables that is set and not empty."""
    return next((name for name in names if environment.get(name, "").strip()), None)


def first_of(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The value of `first_set`."""
    name = first_set(environment, names)
    return None if name is None else environment[name].strip()


def cost_share_usd(max_cost_usd: float | None, environment: Mapping[str, str]) -> float | None:
    """The share of one process in the cost limit of a run, in US dollars."""
    world_size = environment.get("WORLD_SIZE", "")
    processes = max(1, int(world_size) if world_size.isdecimal() else 1)
    return None if max_cost_usd is None else max_cost_usd / processes
