"""What the responses of a judge's servers showed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.openai.dialect import Dialect
from mmie_tasks.judges.openai.settings import Settings


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

    def of(self, address: str, settings: Settings) -> ServerTraits:
        """The traits of a server; at first, what the model's name shows."""
        return self.servers.setdefault(address, ServerTraits(dialect=settings.dialect))
