"""Judges on OpenAI-compatible servers: OpenAI, Azure, vLLM, SGLang, LMDeploy, gateways.

`open_judge` reads the options and the environment. Variables for judges alone take precedence over
those that also configure the tested model.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from mmie_tasks.http.extra_fields import read_extra_body
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.model_variables import MODEL_VARIABLES, OWN_URL_VARIABLE
from mmie_tasks.judges.openai.completion import Price
from mmie_tasks.judges.openai.judge import OpenAIJudge
from mmie_tasks.judges.openai.settings import Settings

_UsDollars: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_KEY_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": ("JUDGE_API_KEY", "OPENAI_API_KEY"),
    "azure": ("JUDGE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_API_KEY"),
}
_URL_VARIABLES: Mapping[ApiType, tuple[str, ...]] = {
    "openai": (OWN_URL_VARIABLE, "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"),
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
"""Fields of a request that `chat_request` sets or `completion` relies on, to what sets them."""
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
    timeout: PositiveFloat = 120.0,
    patience: PositiveFloat = 120.0,
    max_concurrency: PositiveInt = 100,
    price_in: _UsDollars | None = None,
    price_out: _UsDollars | None = None,
    max_cost: PositiveFloat | None = None,
    batch: bool = False,
    reasoning_effort: str = "",
    extra_body: str = "",
) -> Judge:
    """Open a judge; no request is sent yet.

    An option wins over the environment; an empty variable counts as unset. The options that a user
    typed are parsed, and their ranges checked, by `judges.registry.create`.

    Args:
        environment: Holds the API key, and settings that no option gives.
        model: The judge's model, ``gpt-4o-2024-11-20``; at Azure, the deployment.
        base_url: Address of the server, ``http://HOST:PORT/v1``.
        api_type: ``openai`` or ``azure``.
        api_version: Azure's API version.
        api_key_env: Name of the environment variable that holds the key.
        temperature: From 0 to 2, or None for the server's default.
        max_tokens: Longest reply in tokens, instead of the benchmark's limit.
        detail: Image resolution for the model: ``low``, ``high`` or ``auto``.
        timeout: Seconds that one attempt may take.
        patience: Seconds without any reply after which all remaining requests are given up.
        max_concurrency: Most requests in flight; the actual number adapts.
        price_in: US dollars per million tokens of requests.
        price_out: US dollars per million tokens of replies, hidden reasoning included.
        max_cost: US dollars that all processes of the run may spend together; needs both prices.
        batch: Use the provider's Batch API: half the price, up to 24 hours.
        reasoning_effort: ``none``, ``low`` or whatever else the server takes; empty for its
            default.
        extra_body: A JSON object, whose fields are added to the body of every request.

    Raises:
        SettingWrong: An option or variable has an invalid value, or one is missing.
    """
    model = model or first_of(environment, MODEL_VARIABLES)
    if model is None:
        raise SettingWrong("The judge `openai` does not know which model to use.", hint="`model=`")
    # Other values of the variable (`async_openai`, `bedrock`) are for other tasks.
    service: ApiType = "azure" if (api_type or environment.get("API_TYPE")) == "azure" else "openai"
    key_variables = _KEY_VARIABLES[service] if api_key_env is None else (api_key_env,)
    version = api_version or first_of(environment, _AZURE_VERSION_VARIABLES) or _AZURE_VERSION
    variable = None if base_url else first_set(environment, _URL_VARIABLES[service])
    address = base_url if variable is None else environment[variable].strip()
    access = Access(
        service=f"The judge `{model}`",
        base_url=read_base_url("judge", address or None, service),
        api_type=service,
        api_version=version,
        api_key=read_key("judge", api_key_env, key_variables, environment),
        key_variables=key_variables,
        timeout_s=timeout,
        shared_variable=variable if variable and variable != OWN_URL_VARIABLE else "",
    )
    settings = Settings(
        model=model,
        access=access,
        max_concurrency=max_concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        detail=detail,
        price=_price(price_in, price_out, max_cost),
        max_cost_usd=cost_share_usd(max_cost, environment),
        patience_s=patience,
        cache_dir=cache_dir(environment),
        reasoning_effort=reasoning_effort.strip(),
        extra_body=read_extra_body("judge", extra_body, _COMPUTED, access.secrets),
    )
    if batch:
        from mmie_tasks.judges.openai.batch import BatchJudge  # and the OpenAI SDK: a second

        return BatchJudge(settings)
    return OpenAIJudge(settings)


def _price(price_in: float | None, price_out: float | None, max_cost: float | None) -> Price | None:
    """The price; None if it is not set, and nothing needs it."""
    if price_in is not None and price_out is not None:
        return Price(input_usd=price_in, output_usd=price_out)
    options = {"max_cost": max_cost, "price_in": price_in, "price_out": price_out}
    if given := [name for name, value in options.items() if value is not None]:
        missing = [name for name in ("price_in", "price_out") if name not in given]
        raise SettingWrong(
            f"The judge option `{given[0]}` needs {' and '.join(f'`{name}`' for name in missing)}.",
            hint="set both in US dollars per million tokens, as in `price_in=2.5,price_out=10`",
        )
    return None
