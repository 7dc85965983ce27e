"""Settings of an `openai` judge, the request parameters that its model accepts, and what its
servers' responses showed.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from mmie_tasks.http.access import Access
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.models import Price, without_prefix
from mmie_tasks.judges.openai.schemas import SchemaStyle
from mmie_tasks.record.signature import signature_text

HEADROOM = 8192
"""Tokens that a reasoning model may use on top of its reply. Unused ones cost nothing."""
TOP_LOGPROBS, FEWER_TOP_LOGPROBS = 10, 5
"""Alternatives per token to request log-probabilities of: at first, and where that is too many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of `open_judge`, completed from the environment.

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
        provider's model's name there. The port is not: the same server may start on another one.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The request parameters that a model accepts.

    Attributes:
        headroom: Tokens added to the limit, because hidden reasoning counts against it.
        top_logprobs: The most alternatives per token with log-probabilities; 0 if none may be
            requested.
    """

    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    takes_temperature: bool = True
    headroom: int = 0
    top_logprobs: int = TOP_LOGPROBS
    schema_style: SchemaStyle = "tools"


PLAIN = Dialect()
REASONING = Dialect(
    max_tokens_name="max_completion_tokens",
    takes_temperature=False,
    headroom=HEADROOM,
    top_logprobs=0,
)


@dataclass(slots=True, kw_only=True)
class ServerTraits:
    """What the responses of one server showed. Shared by the check and the requests of a judge.

    Attributes:
        accepts_logprobs: Whether it replied to a request of the run for log-probabilities.
    """

    dialect: Dialect
    accepts_logprobs: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Adaptations:
    """What the responses to a judge's requests showed.

    Attributes:
        servers: By address.
        out_of_tokens: Requests that got a reply without text at the token limit; they are sent
            again with headroom.
        failures: How often a request for log-probabilities failed on servers that accept them.
    """

    servers: dict[str, ServerTraits] = field(default_factory=dict)
    out_of_tokens: set[JudgeRequest] = field(default_factory=set)
    failures: Counter[JudgeRequest] = field(default_factory=Counter)

    def of(self, address: str, model: str) -> ServerTraits:
        """The traits of a server; at first, what the model's name shows."""
        return self.servers.setdefault(address, ServerTraits(dialect=dialect_of(model)))


# They reason before they reply, take `max_completion_tokens` and only their own temperature.
_REASONING = re.compile(r"(?:gpt-5|gpt-6|o1|o3|o4)(?:[-.:_].*)?")


def dialect_of(model: str) -> Dialect:
    """The parameters that a model accepts, as far as its name shows.

    A gateway's prefix is ignored.

    >>> models = ("gpt-6-luna", "openai/o3-mini", "gpt-4o", "o12")
    >>> [dialect_of(model) is REASONING for model in models]
    [True, True, False, False]
    """
    name = without_prefix(model)
    if _REASONING.fullmatch(name):
        return REASONING
    return replace(PLAIN, schema_style="functions") if name.startswith("gpt-4o") else PLAIN
