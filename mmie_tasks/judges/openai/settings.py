"""Settings of an `openai` judge."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mmie_tasks.http.access import Access
from mmie_tasks.http.extra_fields import extra_fields
from mmie_tasks.judges.openai.completion import Price
from mmie_tasks.judges.openai.dialect import Dialect, dialect_of
from mmie_tasks.record.signature import signature_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `openai.open_judge`, completed from the environment.

    Attributes:
        temperature: None for the server's default.
        reasoning_effort: Empty for the server's default.
        extra_body: Canonical JSON; empty for none.
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
    price: Price | None
    max_cost_usd: float | None
    patience_s: float
    cache_dir: Path
    reasoning_effort: str = ""
    extra_body: str = ""

    @property
    def dialect(self) -> Dialect:
        """What the model's name shows of the parameters that it accepts."""
        return dialect_of(self.model, self.reasoning_effort)

    @property
    def extra_fields(self) -> dict[str, object]:
        """The fields that the user adds to the body of every request."""
        return extra_fields(self.reasoning_effort, self.extra_body)

    @property
    def signature(self) -> str:
        """Everything that can move a score: the model, its parameters, and whose server it is.

        The host of a server that is not the provider's own is named, since any model may have a
        provider's model's name there. The port is in the cache's key only: see `OnServer`.
        """
        dialect = self.dialect
        headroom = f"+{dialect.headroom}" if dialect.headroom else ""
        temperature = self.temperature if dialect.takes_temperature else None
        return signature_text(
            judge="openai",
            model=self.model,
            t="none" if temperature is None else f"{temperature:g}",
            max=self.max_tokens,
            detail=self.detail or None,
            reasoning=f"{self.reasoning_effort}{headroom}" or None,
            extra_body=self.extra_body or None,
            host=self.access.foreign_host,
        )
