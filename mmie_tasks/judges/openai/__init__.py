"""Judges behind an OpenAI-compatible server: OpenAI, Azure, vLLM, SGLang, LMDeploy, gateways."""

from __future__ import annotations

from collections.abc import Mapping

from mmie_tasks.core.paths import cache_dir
from mmie_tasks.judges.base import Judge
from mmie_tasks.judges.openai import settings as read


def open_judge(
    *,
    environment: Mapping[str, str],
    model: str | None = None,
    base_url: str | None = None,
    api_type: str | None = None,
    api_version: str | None = None,
    api_key_env: str | None = None,
    temperature: str = "0",
    max_tokens: int | None = None,
    detail: str | None = None,
    timeout: float = 120.0,
    patience: float = 120.0,
    max_concurrency: int = 100,
    price: str | None = None,
    max_cost: float | None = None,
    batch: bool = False,
) -> Judge:
    """Open a judge; no request is sent yet.

    An option wins over the environment; an empty variable counts as unset.

    Args:
        environment: Holds the API key, and settings that no option gives.
        model: The judge's model, ``gpt-4o-2024-11-20``; at Azure, the deployment.
        base_url: Address of the server, ``http://HOST:PORT/v1``; several separated by ``;``.
        api_type: ``openai`` or ``azure``.
        api_version: Azure's API version.
        api_key_env: Name of the environment variable that holds the key.
        temperature: From 0 to 2, or ``none`` for the server's default.
        max_tokens: Longest reply in tokens, instead of the benchmark's limit.
        detail: Image resolution for the model: ``low``, ``high`` or ``auto``.
        timeout: Seconds that one attempt may take.
        patience: Seconds without any reply after which all remaining requests are given up.
        max_concurrency: Most requests in flight to each server; the actual number adapts.
        price: US dollars per million tokens in and out, ``2.5/10``; built in for some models.
        max_cost: US dollars that all processes of the run may spend together.
        batch: Use the provider's Batch API: half the price, up to 24 hours.

    Raises:
        SettingWrong: An option or variable has an invalid value, or one is missing.
    """
    read.check_positive(
        timeout=timeout,
        max_concurrency=max_concurrency,
        max_tokens=max_tokens,
        max_cost=max_cost,
        patience=patience,
    )
    service = read.api_type_of(api_type, environment)
    model = read.model_of(model, environment)
    key_variables = (api_key_env,) if api_key_env is not None else read.KEY_VARIABLES[service]
    token_price = read.price_of_option(price, model)
    settings = read.Settings(
        model=model,
        base_urls=read.base_urls_of(base_url, service, environment),
        api_type=service,
        api_version=api_version
        or read.first_of(environment, read.AZURE_VERSIONS)
        or read.AZURE_VERSION,
        api_key=read.key_of(api_key_env, key_variables, environment),
        key_variables=key_variables,
        timeout_s=timeout,
        max_concurrency=max_concurrency,
        temperature=read.temperature_of(temperature),
        max_tokens=max_tokens,
        detail=detail,
        price=token_price,
        max_cost_usd=read.cost_share(max_cost, token_price, model, environment),
        patience_s=patience,
        cache_dir=cache_dir(environment),
    )
    if batch:
        from mmie_tasks.judges.openai.batch import open_batch_judge

        return open_batch_judge(settings)
    from mmie_tasks.judges.openai.judge import OpenAIJudge

    return OpenAIJudge(settings)
