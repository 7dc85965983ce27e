"""Settings of an `openai` judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.http.access import Access
from mmie_tasks.judges.openai.dialect import dialect_of
from mmie_tasks.judges.openai.prices import Price
from mmie_tasks.record.signature import signature_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `openai.open_judge`, completed from the environment.

    Attributes:
        temperature: None for the server's default.
        price: None if unknown.
        max_cost_usd: What this process may spend.
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
        provider's model's name there. The port is in the cache's key only: see `OnServers`.
        """
        dialect = dialect_of(self.model)
        temperature = self.temperature if dialect.takes_temperature else None
        return signature_text(
            judge="openai",
            model=self.model,
            t="none" if temperature is None else f"{temperature:g}",
            max=self.max_tokens,
            detail=self.detail or None,
            reasoning=f"+{dialect.headroom}" if dialect.headroom else None,
            host="+".join(self.access.foreign_hosts) or None,
        )
