"""Judges behind an OpenAI-compatible server: OpenAI, Azure, vLLM, SGLang, LMDeploy, gateways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mmie_tasks.judges.base import Judge


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
    """Open a judge; nothing is sent yet.

    Args:
        environment: Where keys are, and what no option says.
        model: Who judges, ``gpt-4o-2024-11-20``; at Azure, the deployment.
        base_url: Address of the server, ``http://HOST:PORT/v1``; several separated by ``;``.
        api_type: ``openai`` or ``azure``.
        api_version: Azure's API version.
        api_key_env: Name of the environment variable that holds the key.
        temperature: From 0 to 2, or ``none`` for the server's own.
        max_tokens: Longest reply in tokens, instead of the benchmark's limit.
        detail: How closely images are looked at: ``low``, ``high`` or ``auto``.
        timeout: Seconds one try may take.
        patience: Seconds without any reply after which all that is left is given up.
        max_concurrency: Most requests at once to each server; how many fit is found out.
        price: US dollars per million tokens in and out, ``2.5/10``; known for some models.
        max_cost: US dollars that may be spent, by all processes together.
        batch: Use the provider's Batch API: half the price, up to 24 hours.

    Raises:
        SettingWrong: An option cannot be obeyed.
    """
    from mmie_tasks.judges.openai.settings import Options, read_settings

    options = Options(
        model=model,
        base_url=base_url,
        api_type=api_type,
        api_version=api_version,
        api_key_env=api_key_env,
        timeout_s=timeout,
        max_concurrency=max_concurrency,
        temperature=temperature,
        max_tokens=max_tokens,
        detail=detail,
        price=price,
        max_cost_usd=max_cost,
        patience_s=patience,
    )
    settings = read_settings(options, environment)
    if batch:
        from mmie_tasks.judges.openai.batch import open_batch_judge

        return open_batch_judge(settings)
    from mmie_tasks.judges.openai.judge import OpenAIJudge

    return OpenAIJudge(settings)
