"""What an `openai` judge needs to know."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.models import Price, price_of

ApiType = Literal["openai", "azure"]

AZURE_VERSION = "2024-10-21"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything an `openai` judge needs to know.

    Attributes:
        model: Who is asked; at Azure, the deployment.
        base_urls: Servers that all serve this model; without ``/chat/completions``.
        api_type: ``azure`` for Azure's own addresses and header.
        api_version: Azure's.
        api_key: None where no variable holds one.
        key_names: The environment variables it may stand in, the first one first.
        timeout_s: How long one try may take.
        max_concurrency: Requests on their way at once, to each server.
        temperature: None leaves it to the server.
        max_tokens: Instead of the requests' own limits.
        detail: How closely the model looks at images.
        price: US dollars per million tokens; None where unknown.
        max_cost_usd: What this process may spend.
        patience_s: How long no request at all may get a reply before all are given up.
        cache_dir: Our folder for what is kept on disk.
    """

    model: str
    base_urls: tuple[str, ...] = field(repr=False)  # an address may hold a password
    api_type: ApiType = "openai"
    api_version: str = AZURE_VERSION
    api_key: str | None = field(default=None, repr=False)
    key_names: tuple[str, ...] = ()
    timeout_s: float = 120.0
    max_concurrency: int = 100
    temperature: float | None = 0.0
    max_tokens: int | None = None
    detail: str | None = None
    price: Price | None = None
    max_cost_usd: float | None = None
    patience_s: float = 120.0
    cache_dir: Path

    @property
    def signature(self) -> str:
        """What can move a score: the model and how it is asked. No address, no key."""
        dialect = wire.dialect_of(self.model)
        told = self.temperature if dialect.takes_temperature else None
        words = [f"judge:openai|model:{self.model}", "t:none" if told is None else f"t:{told:g}"]
        if self.max_tokens is not None:
            words.append(f"max:{self.max_tokens}")
        if self.detail:
            words.append(f"detail:{self.detail}")
        if dialect.headroom:
            words.append(f"reasoning:+{dialect.headroom}")
        return "|".join(words)

    def body(self, request: JudgeRequest, dialect: wire.Dialect) -> dict[str, object]:
        """The body of a request to this judge; its images are read now.

        Raises:
            RequestBroken: An image cannot be read.
        """
        return wire.body(
            request,
            model=self.model,
            temperature=self.temperature,
            dialect=dialect,
            max_tokens=self.max_tokens,
            detail=self.detail,
        )

    @property
    def needs_key(self) -> bool:
        """Whether it is known that no server answers without one."""
        hosts = [urlsplit(url).hostname or "" for url in self.base_urls]
        return self.api_type == "azure" or any(host.endswith("openai.com") for host in hosts)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be in any message: the key, and passwords in addresses."""
        passwords = (urlsplit(url).password for url in self.base_urls)
        return tuple(secret for secret in (self.api_key, *passwords) if secret)


def shown(url: str) -> str:
    """An address as it may stand in a message: no user, password, query.

    >>> shown("https://me:word@host:8000/v1?key=1")
    'https://host:8000/v1'
    """
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


# What an `openai` judge is told: by options, then by the environment. Read here and nowhere else.
#
# The names that only judges have come before those that steer the tested model as well.

DEFAULT_URL = "https://api.openai.com/v1"

_KEYS: Mapping[ApiType, Sequence[str]] = {
    "openai": ("MMIE_TASKS_JUDGE_API_KEY", "JUDGE_API_KEY", "OPENAI_API_KEY"),
    "azure": (
        *("MMIE_TASKS_JUDGE_API_KEY", "JUDGE_API_KEY"),
        *("AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
    ),
}
_URLS: Mapping[ApiType, Sequence[str]] = {
    "openai": (
        *("MMIE_TASKS_JUDGE_BASE_URL", "JUDGE_BASE_URL"),
        *("OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
    ),
    "azure": (
        *("MMIE_TASKS_JUDGE_BASE_URL", "JUDGE_BASE_URL"),
        *("AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT"),
    ),
}
_VERSIONS = ("API_VERSION", "AZURE_API_VERSION", "OPENAI_API_VERSION")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `open_judge` as they were given, before the environment is asked."""

    model: str | None = None
    base_url: str | None = None
    api_type: str | None = None
    api_version: str | None = None
    api_key_env: str | None = None
    timeout_s: float = 120.0
    max_concurrency: int = 100
    temperature: str | float | None = 0.0
    max_tokens: int | None = None
    detail: str | None = None
    price: str | None = None
    max_cost_usd: float | None = None
    patience_s: float = 120.0


def read_settings(options: Options, environment: Mapping[str, str]) -> Settings:
    """Join options and environment; an option wins, an empty variable counts as unset.

    Raises:
        SettingWrong: An option cannot be obeyed.
    """
    api_type = _api_type(options.api_type, environment)
    model = _model(options.model, environment)
    key_names = _key_names(options.api_key_env, api_type, environment)
    api_key = _first(environment, key_names)
    price = _price(options.price) if options.price else price_of(model)
    _check_numbers(options)
    _check_key(api_key, key_names)
    return Settings(
        model=model,
        base_urls=_base_urls(options.base_url, api_type, environment),
        api_type=api_type,
        api_version=options.api_version or _first(environment, _VERSIONS) or AZURE_VERSION,
        api_key=api_key,
        key_names=tuple(key_names),
        timeout_s=options.timeout_s,
        max_concurrency=options.max_concurrency,
        temperature=_temperature(options.temperature),
        max_tokens=options.max_tokens,
        detail=options.detail,
        price=price,
        max_cost_usd=_share(options.max_cost_usd, price, model, environment),
        patience_s=options.patience_s,
        cache_dir=cache_dir(environment),
    )


def _first(environment: Mapping[str, str], names: Sequence[str]) -> str | None:
    values = (environment.get(name, "").strip() for name in names)
    return next((value for value in values if value), None)


def _model(given: str | None, environment: Mapping[str, str]) -> str:
    """The model; which one is the default is for a benchmark to say."""
    model = given or _first(environment, registry.model_variables("openai"))
    if model is None:
        raise SettingWrong("The judge `openai` is not told which model to ask.", hint="`model=...`")
    return model


def _api_type(given: str | None, environment: Mapping[str, str]) -> ApiType:
    if given is not None and given not in ("openai", "azure"):
        raise SettingWrong(
            f"The judge option `api_type` is `{given}`.", hint="`api_type=openai` or `azure`"
        )
    # In the variable, other words (`async_openai`, `bedrock`) are meant for other tasks.
    return "azure" if (given or environment.get("API_TYPE")) == "azure" else "openai"


def _key_names(
    given: str | None, api_type: ApiType, environment: Mapping[str, str]
) -> Sequence[str]:
    if given is None:
        return _KEYS[api_type]
    if _first(environment, [given]) is None:
        # Somebody may have put the key itself here; only what looks like a name is repeated.
        named = f"`{given}`" if re.fullmatch(r"[A-Z][A-Z_]+[A-Z0-9_]*", given) else "a variable"
        raise SettingWrong(
            f"The judge option `api_key_env` names {named} that is not set or empty.",
            hint="give the name of the environment variable that holds the key, and export it",
        )
    return (given,)


def _base_urls(
    given: str | None, api_type: ApiType, environment: Mapping[str, str]
) -> tuple[str, ...]:
    text = given or _first(environment, _URLS[api_type])
    if text is None and api_type == "azure":
        raise SettingWrong(
            "The judge is at Azure, and nothing says at which address.",
            hint="`base_url=https://NAME.openai.azure.com`, or set `AZURE_OPENAI_ENDPOINT`",
        )
    written = [url for url in (text or DEFAULT_URL).split(";") if url.strip()]
    urls = [_base_url(url, api_type) for url in written or [""]]
    return tuple(dict.fromkeys(urls))


def _base_url(text: str, api_type: ApiType) -> str:
    url = text.strip().rstrip("/")
    if not _is_address(url):
        raise SettingWrong(
            f"The judge's base URL `{url.rpartition('@')[2]}` is no address of a server.",
            hint="write it as `http://HOST:PORT/v1`; several are separated by `;`",
        )
    if api_type == "azure":
        return url.partition("/openai")[0]
    return url.removesuffix("/chat/completions").rstrip("/")


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname)


def _temperature(given: str | float | None) -> float | None:
    if given is None or (isinstance(given, str) and given.strip().lower() in ("none", "")):
        return None
    try:
        temperature = float(given)
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= 2:
        raise SettingWrong(
            f"The judge option `temperature` is `{given}`.",
            hint="a number from 0 to 2, or `none` for the server's own",
        )
    return temperature


def _price(text: str) -> Price:
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*/\s*(\d+(?:\.\d*)?|\.\d+)\s*", text)
    if numbers is None:
        raise SettingWrong(
            f"The judge option `price` is `{text}`.",
            hint="US dollars per million tokens, in and out: `price=2.5/10`",
        )
    return Price(input_usd=float(numbers[1]), output_usd=float(numbers[2]))


def _share(
    max_cost_usd: float | None, price: Price | None, model: str, environment: Mapping[str, str]
) -> float | None:
    """This process's part of what may be spent: all processes of a run ask on their own."""
    if max_cost_usd is None:
        return None
    if price is None:
        raise SettingWrong(
            f"The judge option `max_cost` is set, and the price of `{model}` is not known.",
            hint="add `price=IN/OUT` in US dollars per million tokens, as in `price=2.5/10`",
        )
    processes = environment.get("WORLD_SIZE", "")
    return max_cost_usd / max(1, int(processes) if processes.isdecimal() else 1)


def _check_numbers(options: Options) -> None:
    positive = {
        "timeout": options.timeout_s,
        "max_concurrency": options.max_concurrency,
        "max_tokens": options.max_tokens,
        "max_cost": options.max_cost_usd,
        "patience": options.patience_s,
    }
    for name, value in positive.items():
        if value is not None and not value > 0:
            raise SettingWrong(
                f"The judge option `{name}` is `{value}`.", hint="it must be more than 0"
            )


def _check_key(api_key: str | None, names: Sequence[str]) -> None:
    if api_key is not None and not (api_key.isascii() and api_key.isprintable()):
        # Said without the key.
        raise SettingWrong(
            "The judge's key has characters that cannot be sent, such as typographic quotes.",
            hint=f"copy it again into the variable: {', '.join(f'`{name}`' for name in names)}",
        )
