"""How servers are reached: addresses and keys, from options and the environment, and what of them
is secret.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from mmie_tasks.core.errors import MmieTasksError, SettingWrong

ApiType: TypeAlias = Literal["openai", "azure"]

_DEFAULT_URL = "https://api.openai.com/v1"
_PROVIDER_DOMAINS = (".api.openai.com", ".openai.azure.com")  # OpenAI's own, and OpenAI at Azure
_AZURE_DOMAIN = ".azure.com"
_DEFAULT_PORTS = {"http": 80, "https": 443}
_THIS_MACHINE = ("localhost", "0.0.0.0")  # noqa: S104 - what vLLM prints; nothing is bound to it
_ROUTES = re.compile(r"/+(?:(?:chat/completions|images/generations)/*)?$")
UNREACHABLE_HINT = "start it, or correct `base_url=`; most end in `/v1`"

ErrorT = TypeVar("ErrorT", bound=MmieTasksError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Servers of one model, and how a client reaches them.

    Attributes:
        service: The subject of messages: ``The judge `gpt-4o```.
        base_urls: Servers that all serve the model; without a route. A query is sent with every
            request.
        api_version: Azure's.
        key_variables: The environment variables that may hold the key, in order of precedence.
        timeout_s: Seconds that one attempt may take.
        shared_variable: The environment variable that holds the addresses, if other programs read
            it, too; empty for an option, a variable for judges alone, and the default.
    """

    service: str
    base_urls: tuple[str, ...] = field(repr=False)  # an address may hold a password
    api_type: ApiType = "openai"
    api_version: str = ""
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]
    timeout_s: float
    shared_variable: str = ""

    @property
    def _foreign_urls(self) -> list[str]:
        return [url for url in self.base_urls if not f".{_host(url)}".endswith(_PROVIDER_DOMAINS)]

    @property
    def is_at_azure(self) -> bool:
        """Whether all servers are at Azure, whose days of shutdown are its own."""
        is_azure = self.api_type == "azure"
        return is_azure or all(f".{_host(url)}".endswith(_AZURE_DOMAIN) for url in self.base_urls)

    @property
    def foreign_hosts(self) -> list[str]:
        """Hosts that are not the provider's own, where any model may have a provider's model's
        name. Without ports.
        """
        return sorted(set(map(_host, self._foreign_urls)))

    @property
    def storage_names(self) -> str | None:
        """`storage_names` of the servers that are not the provider's own."""
        return storage_names(self._foreign_urls)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may contain: the key, and passwords and queries of addresses; also
        URL-quoted and unquoted, and in base64 as they are sent.

        The longest first, as one may be part of another.
        """
        secrets = [self.api_key]
        for url in self.base_urls:
            parts = urlsplit(url)
            secrets += [parts.password, parts.query, (basic_credentials(url) or "").rstrip("=")]
            secrets += [value for _, value in parse_qsl(parts.query)]
            secrets += [] if parts.password else [parts.username]  # may be a key
        forms = set()
        for secret in filter(None, secrets):
            plain = unquote(secret)
            forms |= {secret, plain, quote(plain, safe="", errors="surrogatepass")}
        return tuple(sorted(forms, key=len, reverse=True))

    @property
    def needs_key(self) -> bool:
        """Whether a server is certain to require a key: one of the provider."""
        return self.api_type == "azure" or len(self._foreign_urls) < len(self.base_urls)

    @property
    def key_hint(self) -> str:
        """What to do about a key that a server denies."""
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return f"correct the key; the first of these that is set is used: {names}"

    def missing_key(self, error: type[ErrorT]) -> ErrorT | None:
        """An error of this class if a key is required and no variable holds one."""
        if self.api_key is not None or not self.needs_key:
            return None
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return error(
            f"{self.service} at {public_address(self.base_urls[0])} needs a key, and none is set "
            f"in {names}.",
            hint=f"`export {self.key_variables[-1]}=...`, or set `base_url=` to your own server",
        )


def public_address(url: str) -> str:
    """An address for messages: without user, password and query.

    >>> public_address("https://me:word@host:8000/v1?key=1")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def server_name(url: str) -> str:
    """A server's host, port and path, the same for all ways to write its address.

    A default port is left out, and so is ``/v1`` at the end of the path. ``localhost`` and
    ``0.0.0.0`` are ``127.0.0.1``.

    >>> [server_name(url) for url in ("http://LocalHost:8000/v1/", "https://host:443/other/v1")]
    ['127.0.0.1:8000', 'host/other']
    """
    host = urlsplit(url).hostname or ""
    host = "127.0.0.1" if host in _THIS_MACHINE else host
    port = f":{_port(url)}" if _port(url) else ""
    path = urlsplit(url).path.rstrip("/").removesuffix("/v1")
    return f"[{host}]{port}{path}" if ":" in host else f"{host}{port}{path}"


def storage_names(urls: Iterable[str]) -> str | None:
    """What of addresses is in the keys of stored replies, pictures and texts, beside the hosts.

    That is the `server_name` of those with a port, joined by ``+``: several servers of one machine
    may serve other weights under one name. None if there are none: a server without a port has the
    keys that it had when they held the host alone.
    """
    return "+".join(sorted({server_name(url) for url in urls if _port(url)})) or None


def _port(url: str) -> int | None:
    """The port, if it is not the default one."""
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
    """The first key in the variables, which are that of the option ``api_key_env`` if it is given;
    None if none is set.

    Raises:
        SettingWrong: The option's variable is not set, or the key cannot be sent.
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


def read_base_urls(kind: str, text: str | None, api_type: ApiType = "openai") -> tuple[str, ...]:
    """The addresses in a text, separated by blanks or ``;``, each once and without route; OpenAI's
    own if it is None.

    Raises:
        SettingWrong: One is no address, or there is none and the servers are at Azure.

    >>> read_base_urls("judge", "http://a/v1/ http://b/v1/chat/completions")
    ('http://a/v1', 'http://b/v1')
    """
    if text is None and api_type == "azure":
        raise SettingWrong(
            f"The {kind} is at Azure, but its address is not set.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    urls = (text or _DEFAULT_URL).replace(";", " ").split() or [""]
    return tuple(dict.fromkeys(_base_url(kind, url, api_type) for url in urls))


def _base_url(kind: str, url: str, api_type: ApiType) -> str:
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
            hint="write it as `http://HOST:PORT/v1`; several are separated by blanks",
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
    """What one process may spend of the limit of a run, in US dollars: every process sends its own
    requests.
    """
    world_size = environment.get("WORLD_SIZE", "")
    processes = max(1, int(world_size) if world_size.isdecimal() else 1)
    return None if max_cost_usd is None else max_cost_usd / processes
