"""Settings of an `openai` judge, from the options and the environment, and tables of models.

Variables for judges alone take precedence over those that also configure the tested model. A model that is in no
table works like any other; its price is unknown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.http.access import Access, ApiType, cost_share_usd, first_of, read_base_urls, read_key
from mmie_tasks.judges import registry
from mmie_tasks.judges.base import Judge, JudgeRequest

WARN_DAYS = 60
HEADROOM = 8192
"""Tokens that a reasoning model may use on top of its reply. Unused ones cost nothing."""
TOP_LOGPROBS, FEWER_TOP_LOGPROBS = 10, 5
"""Alternatives per token to request log-probabilities of: at first, and where that is too many."""

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
        base_url: Address of the server, ``http://HOST:PORT/v1``; several separated by ``;`` or blanks.
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
    model = model or first_of(environment, registry.model_variables("openai"))
    if model is None:
        raise SettingWrong("The judge `openai` does not know which model to use.", hint="`model=`")
    # Other values of the variable (`async_openai`, `bedrock`) are for other tasks.
    service: ApiType = "azure" if (api_type or environment.get("API_TYPE")) == "azure" else "openai"
    key_variables = _KEY_VARIABLES[service] if api_key_env is None else (api_key_env,)
    version = api_version or first_of(environment, _AZURE_VERSION_VARIABLES) or _AZURE_VERSION
    token_price = _price(price, model)
    if max_cost is not None and token_price is None:
        raise SettingWrong(
            f"The judge option `max_cost` is set, and the price of `{model}` is not known.",
            hint="add `price=IN/OUT` in US dollars per million tokens, as in `price=2.5/10`",
        )
    access = Access(
        service=f"The judge `{model}`",
        base_urls=read_base_urls("judge", base_url or first_of(environment, _URL_VARIABLES[service]), service),
        api_type=service,
        api_version=version,
        api_key=read_key("judge", api_key_env, key_variables, environment),
        key_variables=key_variables,
        timeout_s=timeout,
    )
    settings = Settings(
        model=model,
        access=access,
        max_concurrency=max_concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        detail=detail,
        logprobs=logprobs,
        price=token_price,
        max_cost_usd=cost_share_usd(max_cost, environment),
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
        access: Its servers.
        temperature: None for the server's default.
        price: US dollars per million tokens; None if unknown.
        max_cost_usd: US dollars that this process may spend.
        cache_dir: This package's cache folder.
    """

    model: str
    access: Access
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
        if foreign_hosts := self.access.foreign_hosts:
            parts.append(f"host:{'+'.join(foreign_hosts)}")
        return "|".join(parts)


def _price(option: str | None, model: str) -> Price | None:
    """The price from the option, or else the listed one."""
    if not option:
        return PRICES.get(_without_prefix(model))
    numbers = re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*/\s*(\d+(?:\.\d*)?|\.\d+)\s*", option)
    if numbers is None:
        raise SettingWrong(
            f"The judge option `price` is `{option}`.", hint="US dollars per million tokens, in and out: `price=2.5/10`"
        )
    return Price(input_usd=float(numbers[1]), output_usd=float(numbers[2]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars per million tokens."""

    input_usd: float
    output_usd: float

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float:
        """The cost of a number of tokens, in US dollars.

        >>> Price(input_usd=2.5, output_usd=10.0).cost_usd(1_000_000, 100_000)
        3.5
        """
        return (self.input_usd * input_tokens + self.output_usd * output_tokens) / 1e6

    def times(self, factor: float) -> Price:
        """The price with a discount: 0.5 for the Batch API."""
        return Price(input_usd=self.input_usd * factor, output_usd=self.output_usd * factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    Attributes:
        max_tokens_name: The parameter that limits the reply.
        takes_temperature: Whether the temperature may be set.
        headroom: Tokens added to the limit, because hidden reasoning counts against it.
        top_logprobs: The most alternatives per token with log-probabilities; 0 if none may be requested.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    top_logprobs: int = TOP_LOGPROBS


PLAIN = Dialect()
REASONING = Dialect(max_tokens_name="max_completion_tokens", takes_temperature=False, headroom=HEADROOM, top_logprobs=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptations:
    """What the responses of a judge's servers showed. Shared by its check and its requests.

    Attributes:
        dialects: The parameters that a server accepts, by its address.
        out_of_tokens: Requests that got a reply without text at the token limit; they are sent again with headroom.
        accept_logprobs: Addresses of servers that replied to a request for log-probabilities.
        failures: How often a request for log-probabilities failed for an unknown reason.
    """

    dialects: dict[str, Dialect] = field(default_factory=dict)
    out_of_tokens: set[JudgeRequest] = field(default_factory=set)
    accept_logprobs: set[str] = field(default_factory=set)
    failures: Counter[JudgeRequest] = field(default_factory=Counter)


_GPT_4O = Price(input_usd=2.50, output_usd=10.00)

# The provider's price list for synchronous requests, as of 2026-11.
PRICES: Mapping[str, Price] = {
    "gpt-4o": _GPT_4O,
    "gpt-4o-2024-08-06": _GPT_4O,
    "gpt-4o-2024-11-20": _GPT_4O,
    "gpt-6-luna": Price(input_usd=0.10, output_usd=0.50),
}

# The provider's deprecations page, as of 2026-11: days of shutdown, and one successor for all. It
# names no day for the undated alias.
SUCCESSOR = "gpt-6-luna"
RETIREMENTS: Mapping[str, date] = {
    "gpt-4o-2024-05-13": date(2026, 10, 23),
    "gpt-4o-2024-08-06": date(2027, 1, 14),
    "gpt-4o-2024-11-20": date(2027, 1, 14),
    "gpt-5": date(2026, 12, 11),
    "gpt-5-mini": date(2026, 12, 11),
    "gpt-5-nano": date(2026, 12, 11),
}

# They reason before they reply, take `max_completion_tokens` and only their own temperature.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str) -> Dialect:
    """The parameters that a model accepts, as far as its name shows.

    A gateway's prefix is ignored.

    >>> models = ("gpt-6-luna", "openai/o3-mini", "gpt-4o", "o12")
    >>> [dialect_of(model) is REASONING for model in models]
    [True, True, False, False]
    """
    return REASONING if _REASONING.fullmatch(_without_prefix(model)) else PLAIN


def retirement_notice(model: str, today: date) -> str | None:
    """A notice if a model was shut down, or will be within `WARN_DAYS` days.

    >>> retirement_notice("gpt-4o-2024-11-20", date(2026, 12, 1))
    '`gpt-4o-2024-11-20` is shut down on 2027-01-14; its provider names `gpt-6-luna` instead'
    """
    day = RETIREMENTS.get(_without_prefix(model))
    if day is None or today < day - timedelta(days=WARN_DAYS):
        return None
    verb = "is shut down" if today < day else "was shut down"
    return f"`{model}` {verb} on {day}; its provider names `{SUCCESSOR}` instead"


def _without_prefix(model: str) -> str:
    return model.rpartition("/")[2]
