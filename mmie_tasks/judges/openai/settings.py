"""Options of the judge `openai`, completed from the environment.

Variables for judges alone take precedence over variables that also configure the tested model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from pydantic import Field, PositiveFloat, PositiveInt, field_validator

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.access import (
    Access,
    ApiType,
    cost_share_usd,
    first_of,
    read_base_url,
    read_key,
)
from mmie_tasks.http.extra_body import extra_fields, read_extra_body
from mmie_tasks.judges.base import JudgeOptions

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
_AZURE_VERSION_VARIABLES = ("API_VERSION", "AZURE_API_VERSION", "OPENAI_API_VERSION")
_AZURE_VERSION = "2024-10-21"
_COMPUTED = (
    *("model", "messages", "temperature", "max_tokens", "max_completion_tokens"),
    *("functions", "function_call", "tools", "tool_choice", "reasoning_effort"),
    *("n", "stream", "stream_options"),  # a request has one whole reply
)


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
        extra_body: A JSON object with fields to add to the body of every request, as canonical
            JSON.
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

    @field_validator("extra_body")
    @classmethod
    def _canonical(cls, text: str) -> str:
        return read_extra_body(text, _COMPUTED)

    @property
    def extra_fields(self) -> dict[str, object]:
        """Fields to add to the body of every request."""
        return extra_fields(self.reasoning_effort, self.extra_body)

    def cost_usd(self, input_tokens: int, output_tokens: int) -> float | None:
        """The cost of a number of tokens in US dollars; None if the prices are unknown.

        >>> OpenAIOptions(price_in=2.5, price_out=10.0).cost_usd(1_000_000, 100_000)
        3.5
        """
        if self.price_in is None or self.price_out is None:
            return None
        return (self.price_in * input_tokens + self.price_out * output_tokens) / 1e6

    def completed(self, environment: Mapping[str, str]) -> OpenAIOptions:
        """These options, with the model and this process's share of the cost limit.

        Raises:
            SettingWrong: No option or variable names a model, or a price is missing.
        """
        if (model := self.model or first_of(environment, MODEL_VARIABLES)) is None:
            message = "The judge `openai` does not know which model to use."
            raise SettingWrong(message, hint="`openai:MODEL`, or the option `model=MODEL`")
        names = ("max_cost", "price_in", "price_out")
        values = {name: value for name, value in self if name in names and value is not None}
        if missing := [f"`{name}`" for name in names[1:] if values and name not in values]:
            raise SettingWrong(
                f"The judge option `{next(iter(sorted(values)))}` needs {' and '.join(missing)}.",
                hint="set both in US dollars per million tokens: `price_in=2.5,price_out=10`",
            )
        share_usd = cost_share_usd(self.max_cost, environment)
        return self.model_copy(update={"model": model, "max_cost": share_usd})

    def access(self, environment: Mapping[str, str]) -> Access:
        """The judge's server and key, from the options or else the environment.

        Raises:
            SettingWrong: An address or a key cannot be used.
        """
        # Other values of `API_TYPE` (`async_openai`, `bedrock`) are for other tasks.
        is_azure = (self.api_type or environment.get("API_TYPE")) == "azure"
        kind: ApiType = "azure" if is_azure else "openai"
        names = [name for name in _URL_VARIABLES[kind] if first_of(environment, (name,))]
        variable = names[0] if names and not self.base_url else ""
        version = self.api_version or first_of(environment, _AZURE_VERSION_VARIABLES)
        keys = _KEY_VARIABLES[kind] if self.api_key_env is None else (self.api_key_env,)
        address = self.base_url or first_of(environment, (variable,))
        return Access(
            service=f"The judge `{self.model}`",
            base_url=read_base_url("judge", address, kind),
            api_type=kind,
            api_version=version or _AZURE_VERSION,
            api_key=read_key("judge", self.api_key_env, keys, environment),
            key_variables=keys,
            timeout_s=self.timeout,
            shared_variable="" if variable == OWN_URL_VARIABLE else variable,
        )
