"""Opens an `openai` judge: its settings, from the options and the environment.

Variables for judges alone take precedence over those that also configure the tested model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, PositiveFloat, PositiveInt

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge, JudgeMisconfigured
from mmie_tasks.judges.openai.models import Price, dialect_of, price_of

ApiType: TypeAlias = Literal["openai", "azure"]

_KEY_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_API_KEY", "OPENAI_API_KEY"),
    "azure": ("JUDGE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
}
_URL_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "azure": ("JUDGE_BASE_URL", "AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT"),
}
_AZURE_VERSION_VARIABLES = ("API_VERSION", "AZURE_API_VERSION", "OPENAI_API_VERSION")
_AZURE_VERSION = "2024-10-21"
_DEFAULT_URL = "https://api.openai.com/v1"
_PROVIDER_DOMAINS = (".api.openai.com", ".openai.azure.com")  # OpenAI's own, and OpenAI at Azure
_SECRET_CHARACTERS = 6  # a shorter value in a query, such as a version, is no secret


def open_judge(
    *,
    environment: Mapping[str, str],
    model: str | None = None,
    base_url: str | None = None,
    api_type: ApiType | None = None,
    api_version: str | None = None,
    api_key_env: str | None = None,
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0,
    max_tokens: PositiveInt | None = None,
    detail: str | None = None,
    logprobs: bool = True,
    timeout: PositiveFloat = 120.0,
    patience: PositiveFloat = 120.0,
    max_concurrency: PositiveInt = 100,
    price: str | None = None,
    max_cost: PositiveFloat | None = None,
    batch: bool = False,
) -> Judge:
    """Open a judge; no request is sent yet.

    An option wins over the environment; an empty variable counts as unset. `registry.create` parses
    the options as the user typed them and checks their ranges.

    Args:
        environment: Holds the API key, and settings that no option gives.
        model: The judge's model, ``gpt-4o-2024-11-20``; at Azure, the deployment.
        base_url: Address of the server, ``http://HOST:PORT/v1``; several separated by ``;``.
        api_type: ``openai`` or ``azure``.
        api_version: Azure's API version.
        api_key_env: Name of the environment variable that holds the key.
        temperature: From 0 to 2, or None for the server's default.
        max_tokens: Longest reply in tokens, instead of the benchmark's limit.
        detail: Image resolution for the model: ``low``, ``high`` or ``auto``.
        logprobs: Whether the probabilities of digits are requested with replies where they are of use.
        timeout: Seconds that one attempt may take.
        patience: Seconds without any reply after which all remaining requests are given up.
        max_concurrency: Most requests in flight to each server; the actual number adapts.
        price: US dollars per million tokens in and out, ``2.5/10``; built in for some models.
        max_cost: US dollars that all processes of the run may spend together.
        batch: Use the provider's Batch API: half the price, up to 24 hours.

    Raises:
        SettingWrong: An option or variable has an invalid value, or one is missing.
    """
    model = model or _first_of(environment, registry.model_variables("openai"))
    if model is None:
        raise SettingWrong("The judge `openai` does not know which model to use.", hint="`model=`")
    # Other values of the variable (`async_openai`, `bedrock`) are for other tasks.
    service: ApiType = "azure" if (api_type or environment.get("API_TYPE")) == "azure" else "openai"
    key_variables = _KEY_VARIABLES[service] if api_key_env is None else (api_key_env,)
    version = api_version or _first_of(environment, _AZURE_VERSION_VARIABLES) or _AZURE_VERSION
    token_price = _price(price, model)
    if max_cost is not None and token_price is None:
        raise SettingWrong(
            f"The judge option `max_cost` is set, and the price of `{model}` is not known.",
            hint="add `price=IN/OUT` in US dollars per million tokens, as in `price=2.5/10`",
        )
    # Every process of a run sends its own requests.
    world_size = environment.get("WORLD_SIZE", "")
    processes = max(1, int(world_size) if world_size.isdecimal() else 1)
    settings = Settings(
        model=model,
        base_urls=_base_urls(base_url, service, environment),
        api_type=service,
        api_version=version,
        api_key=_api_key(api_key_env, key_variables, environment),
        key_variables=key_variables,
        timeout_s=timeout,
        max_concurrency=max_concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        detail=detail,
        logprobs=logprobs,
        price=token_price,
        max_cost_usd=None if max_cost is None else max_cost / processes,
        patience_s=patience,
        cache_dir=cache_dir(environment),
    )
    if batch:
        from mmie_tasks.judges.openai.batch import BatchJudge

        return BatchJudge(settings)
    from mmie_tasks.judges.openai.judge import OpenAIJudge

    return OpenAIJudge(settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `open_judge`, completed from the environment.

    Attributes:
        base_urls: Servers that all serve this model; without ``/chat/completions``. A query is sent with every request.
        api_key: None if no variable holds one.
        key_variables: The environment variables that may hold the key, in order of precedence.
        temperature: None for the server's default.
        price: US dollars per million tokens; None if unknown.
        max_cost_usd: US dollars that this process may spend.
        cache_dir: This package's cache folder.
    """

    model: str
    base_urls: tuple[str, ...] = field(repr=False)  # an address may hold a password
    api_type: ApiType
    api_version: str
    api_key: str | None = field(repr=False)
    key_variables: tuple[str, ...]
    timeout_s: float
    max_concurrency: int
    temperature: float | None
    max_tokens: int | None
    detail: str | None
    logprobs: bool
    price: Price | None
    max_cost_usd: float | None
    patience_s: float
    cache_dir: Path

    @property
    def signature(self) -> str:
        """Everything that can move a score: the model, its parameters, and whose server it is.

        The hosts of servers that are not the provider's own are named, since any model may have a
        provider's model's name there. The port is not: the same server may start on another one.
        """
        dialect = dialect_of(self.model)
        temperature = self.temperature if dialect.takes_temperature else None
        parts = [f"judge:openai|model:{self.model}", "t:none" if temperature is None else f"t:{temperature:g}"]
        if self.max_tokens is not None:
            parts.append(f"max:{self.max_tokens}")
        if self.detail:
            parts.append(f"detail:{self.detail}")
        if dialect.headroom:
            parts.append(f"reasoning:+{dialect.headroom}")
        hosts = {urlsplit(url).hostname or "" for url in self.base_urls}
        if foreign_hosts := sorted(host for host in hosts if not f".{host}".endswith(_PROVIDER_DOMAINS)):
            parts.append(f"host:{'+'.join(foreign_hosts)}")
        return "|".join(parts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may contain: the key, and passwords and queries of addresses."""
        parts = [urlsplit(url) for url in self.base_urls]
        pairs = (pair for part in parts for pair in parse_qsl(part.query))
        values = (value for _, value in pairs if len(value) >= _SECRET_CHARACTERS)
        texts = (self.api_key, *(part.password for part in parts), *(p.query for p in parts))
        return tuple(secret for secret in (*texts, *values) if secret)

    @property
    def needs_key(self) -> bool:
        """Whether a server is certain to require a key."""
        hosts = [urlsplit(url).hostname or "" for url in self.base_urls]
        return self.api_type == "azure" or any(host.endswith("openai.com") for host in hosts)

    def missing_key(self) -> JudgeMisconfigured | None:
        """The error if a key is required and no variable holds one."""
        if self.api_key is not None or not self.needs_key:
            return None
        names = ", ".join(f"`{name}`" for name in self.key_variables)
        return JudgeMisconfigured(
            f"The judge `{self.model}` at {public_address(self.base_urls[0])} needs a key, and none is set in {names}.",
            hint=f"`export {self.key_variables[-1]}=...`, or set `base_url=` to your own server",
        )


def public_address(url: str) -> str:
    """An address for messages: without user, password and query.

    >>> public_address("https://me:word@host:8000/v1?key=1")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _api_key(option: str | None, variables: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """The first key in the variables; one that the option names must be set."""
    api_key = _first_of(environment, variables)
    if option is not None and api_key is None:
        # The option may be the key itself: only what looks like a variable's name is repeated.
        named = f"`{option}`" if re.fullmatch(r"[A-Z][A-Z_]+[A-Z0-9_]*", option) else "a variable"
        raise SettingWrong(
            f"The judge option `api_key_env` names {named} that is not set or empty.",
            hint="give the name of the environment variable that holds the key, and export it",
        )
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        names = ", ".join(f"`{name}`" for name in variables)
        raise SettingWrong(
            "The judge's key has characters that cannot be sent, such as typographic quotes.",
            hint=f"copy it again into the variable: {names}",
        )
    return api_key


def _base_urls(option: str | None, api_type: ApiType, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses of the servers, without duplicates."""
    text = option or _first_of(environment, _URL_VARIABLES[api_type])
    if text is None and api_type == "azure":
        raise SettingWrong(
            "The judge is at Azure, but its address is not set.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    urls = [url for url in (text or _DEFAULT_URL).split(";") if url.strip()] or [""]
    return tuple(dict.fromkeys(_base_url(url, api_type) for url in urls))


def _base_url(text: str, api_type: ApiType) -> str:
    url = text.strip()
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        address = url.rpartition("@")[2].partition("?")[0]
        raise SettingWrong(
            f"The judge's base URL `{address}` is no address of a server.",
            hint="write it as `http://HOST:PORT/v1`; several are separated by `;`",
        )
    path, query = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/"), parts.query
    if api_type == "azure" and "/openai" in path:  # a deployment's, with the API version as query
        path, query = path.partition("/openai")[0], ""
    return parts._replace(path=path, query=query, fragment="").geturl()


def _price(option: str | None, model: str) -> Price | None:
    """The price from the option, or else the listed one."""
    if not option:
        return price_of(model)
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*/\s*(\d+(?:\.\d*)?|\.\d+)\s*", option)
    if numbers is None:
        raise SettingWrong(
            f"The judge option `price` is `{option}`.", hint="US dollars per million tokens, in and out: `price=2.5/10`"
        )
    return Price(input_usd=float(numbers[1]), output_usd=float(numbers[2]))


def _first_of(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first of the variables that is set and not empty."""
    return next((text for name in names if (text := environment.get(name, "").strip())), None)
