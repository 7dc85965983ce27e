"""Options of the judge `openai`, and settings: the options completed from the environment.

Variables for judges alone take precedence over variables that also configure the tested model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.http.access import (
    Access,
    ApiType,
    cost_share_usd,
    first_of,
    first_set,
    read_base_url,
    read_key,
)
from mmie_tasks.http.extra_fields import extra_fields, read_extra_body
from mmie_tasks.judges.base import JudgeOptions
from mmie_tasks.judges.openai.completion import Price
from mmie_tasks.judges.openai.dialect import Dialect, dialect_of

MODEL_VARIABLES = ("JUDGE_MODEL_NAME", "JUDGE_MODEL_VERSION", "MODEL_VERSION")
"""Variables that name the model, in order of precedence."""

OWN_URL_VARIABLE = "JUDGE_BASE_URL"
"""The variable that names a server for judges alone; the others serve tested models, too."""

OWN_ADDRESS_HINT = (
    f"`{OWN_URL_VARIABLE}=...` or `--judge_args base_url=...` names a server for the judge alone"
)

_UsDollars: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_KEY_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_API_KEY", "OPENAI_API_KEY"),
    "azure": ("JUDGE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
}
_URL_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": (OWN_URL_VARIABLE, "OPENAI_API_URL", "OPENAI_BASE_URL"),
    "azure": (OWN_URL_VARIABLE, "AZURE_OPENAI_ENDPOINT", "AZURE_ENDPOINT"),
}
_COMPUTED: Mapping[str, str] = {
    **{name: f"`{name}=`" for name in ("model", "temperature", "max_tokens", "reasoning_effort")},
    "max_completion_tokens": "`max_tokens=`",
    **dict.fromkeys(("messages", "response_format"), "leave it out: the benchmark sets it"),
    **dict.fromkeys(
        ("functions", "function_call", "tools", "tool_choice"),
        "leave it out: the benchmark's schema sets it",
    ),
    **dict.fromkeys(
        ("n", "stream", "stream_options"), "leave it out: a request has one whole reply"
    ),
}
"""Fields that `chat_request` sets or `completion` relies on, and the hint for each."""
_AZURE_VERSION_VARIABLES = ("API_VERSION", "AZURE_API_VERSION", "OPENAI_API_VERSION")
_AZURE_VERSION = "2024-10-21"


class OpenAIOptions(JudgeOptions):
    """The options of the judge `openai`, which win over the environment.

    Attributes:
        model: The judge's model, ``gpt-4o-2024-11-20``; at Azure, the deployment.
        base_url: Address of the server, ``http://HOST:PORT/v1``.
        api_type: ``openai`` or ``azure``.
        api_version: Azure's API version.
        api_key_env: Name of the environment variable that holds the key.
        temperature: 0 to 2; None for the server's default.
        max_tokens: Longest reply in tokens, instead of the benchmark's limit.
        detail: Image resolution for the model: ``low``, ``high`` or ``auto``.
        timeout: Longest time of one attempt, in seconds.
        patience: Seconds without any reply after which all remaining requests are given up.
        max_concurrency: Most requests in flight; the actual number adapts.
        price_in: US dollars per million tokens of requests.
        price_out: US dollars per million tokens of replies, hidden reasoning included.
        max_cost: US dollars that all processes of the run may spend together; needs both prices.
        batch: Use the provider's Batch API: half the price, up to 24 hours.
        reasoning_effort: ``none``, ``low`` or another value of the server; empty for its default.
        extra_body: A JSON object with fields to add to the body of every request.
    """

    model: str | None = None
    base_url: str | None = None
    api_type: ApiType | None = None
    api_version: str | None = None
    api_key_env: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    max_tokens: PositiveInt | None = None
    detail: str | None = None
    timeout: PositiveFloat = 120.0
    patience: PositiveFloat = 120.0
    max_concurrency: PositiveInt = 100
    price_in: _UsDollars | None = None
    price_out: _UsDollars | None = None
    max_cost: PositiveFloat | None = None
    batch: bool = False
    reasoning_effort: str = ""
    extra_body: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options, completed from the environment.

    Attributes:
        temperature: None for the server's default.
        reasoning_effort: Empty for the server's default.
        extra_body: Canonical JSON; may be empty.
        price: None if unknown.
        max_cost_usd: What this process may spend, in US dollars.
        cache_dir: This package's cache folder.
    """

    model: str
    access: Access
    max_concurrency: int
    temperature: float | None
    max_tokens: int | None
    detail: str | None
    price: Price | None
    max_cost_usd: float | None
    patience_s: float
    cache_dir: Path
    reasoning_effort: str = ""
    extra_body: str = ""

    @property
    def dialect(self) -> Dialect:
        """The parameters that the model accepts, judging by its name."""
        return dialect_of(self.model, self.reasoning_effort)

    @property
    def extra_fields(self) -> dict[str, object]:
        """Fields to add to the body of every request."""
        return extra_fields(self.reasoning_effort, self.extra_body)

    @property
    def signature(self) -> Mapping[str, object]:
        """The model, its parameters and a foreign server's host: all that can move a score.

        A foreign server is not the provider's own, and may serve any model under a provider's name.
        The port is part of the cache's key only.
        """
        dialect = self.dialect
        headroom = f"+{dialect.headroom}" if dialect.headroom else ""
        temperature = self.temperature if dialect.takes_temperature else None
        return {
            "judge": "openai",
            "model": self.model,
            "t": "none" if temperature is None else f"{temperature:g}",
            "max": self.max_tokens,
            "detail": self.detail or None,
            "reasoning": f"{self.reasoning_effort}{headroom}" or None,
            "extra_body": self.extra_body or None,
            "host": self.access.foreign_host,
        }


def read_settings(options: OpenAIOptions, environment: Mapping[str, str]) -> Settings:
    """Complete the options from the environment, API key included; empty variables are ignored.

    Raises:
        SettingWrong: An option or variable has an invalid value, or one is missing.
    """
    model = options.model or first_of(environment, MODEL_VARIABLES)
    if model is None:
        message = "The judge `openai` does not know which model to use."
        raise SettingWrong(message, hint="`openai:MODEL`, or the option `model=MODEL`")
    # Other values of `API_TYPE` (`async_openai`, `bedrock`) are for other tasks.
    service: ApiType = (
        "azure" if (options.api_type or environment.get("API_TYPE")) == "azure" else "openai"
    )
    key_variables = (
        _KEY_VARIABLES[service] if options.api_key_env is None else (options.api_key_env,)
    )
    version = (
        options.api_version or first_of(environment, _AZURE_VERSION_VARIABLES) or _AZURE_VERSION
    )
    variable = None if options.base_url else first_set(environment, _URL_VARIABLES[service])
    address = options.base_url if variable is None else environment[variable].strip()
    access = Access(
        service=f"The judge `{model}`",
        base_url=read_base_url("judge", address or None, service),
        api_type=service,
        api_version=version,
        api_key=read_key("judge", options.api_key_env, key_variables, environment),
        key_variables=key_variables,
        timeout_s=options.timeout,
        shared_variable=variable if variable and variable != OWN_URL_VARIABLE else "",
    )
    return Settings(
        model=model,
        access=access,
        max_concurrency=options.max_concurrency,
        temperature=options.temperature,
        max_tokens=options.max_tokens,
        detail=options.detail,
        price=_price(options),
        max_cost_usd=cost_share_usd(options.max_cost, environment),
        patience_s=options.patience,
        cache_dir=cache_dir(environment),
        reasoning_effort=options.reasoning_effort.strip(),
        extra_body=read_extra_body("judge", options.extra_body, _COMPUTED, access.secrets),
    )


def _price(options: OpenAIOptions) -> Price | None:
    """The price; None if it is not set and not needed."""
    if options.price_in is not None and options.price_out is not None:
        return Price(input_usd=options.price_in, output_usd=options.price_out)
    names = {"max_cost", "price_in", "price_out"}
    if given := sorted(options.model_dump(include=names, exclude_none=True)):
        missing = [name for name in ("price_in", "price_out") if name not in given]
        raise SettingWrong(
            f"The judge option `{given[0]}` needs {' and '.join(f'`{name}`' for name in missing)}.",
            hint="set both in US dollars per million tokens, as in `price_in=2.5,price_out=10`",
        )
    return None
