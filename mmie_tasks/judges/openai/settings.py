"""Settings of an `openai` judge, from the options of `open_judge` and the environment.

Variables for judges alone take precedence over those that also configure the tested model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.judges.openai.models import Price, dialect_of, price_of

ApiType: TypeAlias = Literal["openai", "azure"]

AZURE_VERSION = "2024-10-21"
DEFAULT_URL = "https://api.openai.com/v1"

KEY_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_API_KEY", "OPENAI_API_KEY"),
    "azure": ("JUDGE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
}
_URLS: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_BASE_URL", "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    "azure": ("JUDGE_BASE_URL", "AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT"),
}
AZURE_VERSIONS = ("API_VERSION", "AZURE_API_VERSION", "OPENAI_API_VERSION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The resolved settings of a judge; `open_judge` documents the options behind them.

    Attributes:
        model: The judge's model; at Azure, the deployment.
        base_urls: Servers that all serve this model; without ``/chat/completions``.
        api_type: ``azure`` for Azure's addresses and header.
        api_version: Azure's API version.
        api_key: None if no variable holds one.
        key_variables: The environment variables that may hold the key, in order of precedence.
        timeout_s: Seconds that one attempt may take.
        max_concurrency: Most requests in flight to each server.
        temperature: None for the server's default.
        max_tokens: Longest reply in tokens, instead of the request's own limit.
        detail: Image resolution for the model.
        price: US dollars per million tokens; None if unknown.
        max_cost_usd: US dollars that this process may spend.
        patience_s: Seconds without any reply after which all remaining requests are given up.
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
    price: Price | None
    max_cost_usd: float | None
    patience_s: float
    cache_dir: Path

    @property
    def signature(self) -> str:
        """Everything that can move a score: the model and its parameters. No address, no key."""
        dialect = dialect_of(self.model)
        temperature = self.temperature if dialect.takes_temperature else None
        parts = [
            f"judge:openai|model:{self.model}",
            "t:none" if temperature is None else f"t:{temperature:g}",
        ]
        if self.max_tokens is not None:
            parts.append(f"max:{self.max_tokens}")
        if self.detail:
            parts.append(f"detail:{self.detail}")
        if dialect.headroom:
            parts.append(f"reasoning:+{dialect.headroom}")
        return "|".join(parts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may contain: the key, and passwords in addresses."""
        passwords = (urlsplit(url).password for url in self.base_urls)
        return tuple(secret for secret in (self.api_key, *passwords) if secret)

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
        address = public_address(self.base_urls[0])
        hint = f"`export {self.key_variables[-1]}=...`, or set `base_url=` to your own server"
        return JudgeMisconfigured(
            f"The judge `{self.model}` at {address} needs a key, and none is set in {names}.",
            hint=hint,
        )


def public_address(url: str) -> str:
    """An address for messages: without user, password and query.

    >>> public_address("https://me:word@host:8000/v1?key=1")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def model_of(option: str | None, environment: Mapping[str, str]) -> str:
    """The model's name. Defaults belong to the benchmarks.

    Raises:
        SettingWrong: Neither the option nor a variable names a model.
    """
    model = option or first_of(environment, registry.model_variables("openai"))
    if model is None:
        raise SettingWrong("The judge `openai` does not know which model to use.", hint="`model=`")
    return model


def api_type_of(option: str | None, environment: Mapping[str, str]) -> ApiType:
    """The type of the API, from the option or ``API_TYPE``.

    Raises:
        SettingWrong: The option is another word.
    """
    if option is not None and option not in ("openai", "azure"):
        raise SettingWrong(
            f"The judge option `api_type` is `{option}`.", hint="`api_type=openai` or `azure`"
        )
    # Other values of the variable (`async_openai`, `bedrock`) are for other tasks.
    return "azure" if (option or environment.get("API_TYPE")) == "azure" else "openai"


def key_of(
    option: str | None, variables: Sequence[str], environment: Mapping[str, str]
) -> str | None:
    """The first API key in the variables; one that the option names must be set.

    Raises:
        SettingWrong: The named variable is not set, or the key cannot be sent. The message does
            not repeat the key.
    """
    api_key = first_of(environment, variables)
    if option is not None and api_key is None:
        # The option may be the key itself: only what looks like a variable's name is repeated.
        is_name = re.fullmatch(r"[A-Z][A-Z_]+[A-Z0-9_]*", option)
        named = f"`{option}`" if is_name else "a variable"
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


def base_urls_of(
    option: str | None, api_type: ApiType, environment: Mapping[str, str]
) -> tuple[str, ...]:
    """The addresses of the servers, each once.

    Raises:
        SettingWrong: An address is not one of a server, or Azure's is missing.
    """
    text = option or first_of(environment, _URLS[api_type])
    if text is None and api_type == "azure":
        raise SettingWrong(
            "The judge is at Azure, but its address is not set.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    urls = [url for url in (text or DEFAULT_URL).split(";") if url.strip()] or [""]
    return tuple(dict.fromkeys(_base_url(url, api_type) for url in urls))


def _base_url(text: str, api_type: ApiType) -> str:
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises if it is not a number
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        is_address = False
    if not is_address:
        raise SettingWrong(
            f"The judge's base URL `{url.rpartition('@')[2]}` is no address of a server.",
            hint="write it as `http://HOST:PORT/v1`; several are separated by `;`",
        )
    if api_type == "azure":
        return url.partition("/openai")[0]
    return url.removesuffix("/chat/completions").rstrip("/")


def temperature_of(option: str) -> float | None:
    """The temperature; None for the server's default.

    Raises:
        SettingWrong: It is neither a number from 0 to 2 nor ``none``.
    """
    if option.strip().lower() in ("none", ""):
        return None
    try:
        temperature = float(option)
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= 2:
        raise SettingWrong(
            f"The judge option `temperature` is `{option}`.",
            hint="a number from 0 to 2, or `none` for the server's default",
        )
    return temperature


def price_of_option(option: str | None, model: str) -> Price | None:
    """The price from the option, or else the listed one; None if unknown.

    Raises:
        SettingWrong: The option has another form than ``2.5/10``.
    """
    if not option:
        return price_of(model)
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*/\s*(\d+(?:\.\d*)?|\.\d+)\s*", option)
    if numbers is None:
        raise SettingWrong(
            f"The judge option `price` is `{option}`.",
            hint="US dollars per million tokens, in and out: `price=2.5/10`",
        )
    return Price(input_usd=float(numbers[1]), output_usd=float(numbers[2]))


def cost_share(
    max_cost_usd: float | None, price: Price | None, model: str, environment: Mapping[str, str]
) -> float | None:
    """This process's share of the cost limit: every process of a run sends its own requests.

    Raises:
        SettingWrong: There is a limit, and the model's price is unknown.
    """
    if max_cost_usd is None:
        return None
    if price is None:
        raise SettingWrong(
            f"The judge option `max_cost` is set, and the price of `{model}` is not known.",
            hint="add `price=IN/OUT` in US dollars per million tokens, as in `price=2.5/10`",
        )
    processes = environment.get("WORLD_SIZE", "")
    return max_cost_usd / max(1, int(processes) if processes.isdecimal() else 1)


def check_positive(**options: float | None) -> None:
    """Check that options are positive numbers, or not set.

    Raises:
        SettingWrong: One is not.
    """
    for name, number in options.items():
        if number is not None and not number > 0:
            raise SettingWrong(
                f"The judge option `{name}` is `{number}`.", hint="it must be more than 0"
            )


def first_of(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    """The first of the variables that is set and not empty."""
    texts = (environment.get(name, "").strip() for name in names)
    return next((text for text in texts if text), None)
