"""What an `openai` judge needs to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.models import Price

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
