"""The judge protocol: requests in, replies or errors out.

* JudgeError
  + JudgeUnavailable    no reply after retries: no connection, timeout, 429, 5xx, unusable bodies
  + JudgeRefused        replied without judging: content filter, refusal, no text
  + RequestBroken       the request cannot be sent: an image file cannot be read
  + RequestUnfit        this judge cannot take the request: too long, or with its control strings
  + OutOfBudget         the request was not sent: the spending limit is reached
  + JudgeMisconfigured  cannot reply as it is set up: no key, 401, unknown model, wrong option

The first five concern one sample. The last stops a run before it generates anything; when it
happens later (a revoked key), it leaves samples unscored like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.record.reply import JudgeReply

if TYPE_CHECKING:
    from mmie_tasks.http.access import Access
    from mmie_tasks.http.sender import ReplyStore
    from mmie_tasks.hub.asset import Asset


class JudgeError(Exception):
    """A judge gave no reply."""


class JudgeUnavailable(JudgeError):
    """The judge did not reply within its retries."""


class JudgeRefused(JudgeError):
    """The judge replied, but refused to judge."""


class RequestBroken(JudgeError):
    """The request cannot be sent: one of its files cannot be read."""


class RequestUnfit(JudgeError):
    """This judge cannot take the request: it is too long, or holds the judge's control strings."""


class OutOfBudget(JudgeError):
    """The request was not sent: the spending limit is reached."""


class JudgeMisconfigured(JudgeError, MmieTasksError):
    """The judge cannot reply as it is set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplySchema:
    """The JSON object that a reply is asked to be: a function that the judge is told to call.

    Attributes:
        name: Of the function: letters, digits, ``_`` and ``-``.
        description: Of the function; empty if there is none.
        parameters: Its JSON schema, as JSON text: the order of the keys is kept.
    """

    name: str
    description: str = ""
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """A request to a judge.

    Attributes:
        parts: Texts and paths of image files, in the order in which the judge reads them. Files
            are opened when the request is sent, and sent byte for byte.
        max_tokens: The longest reply, in tokens of the judge.
        system: The system message; empty if there is none.
        schema: The object that the reply is asked to be; None for free text. The reply is its JSON
            text.
        attempt: 0, or 1 if the request is sent a second time after an impossible reply.
    """

    parts: tuple[str | Path, ...]
    max_tokens: int
    system: str = ""
    schema: ReplySchema | None = None
    attempt: int = 0


Outcome: TypeAlias = JudgeReply | JudgeError


class Judge(Protocol):
    """Sends requests to a model. Knows a transport, and no benchmark."""

    @property
    def signature(self) -> str:
        """Everything of the judge that can move a score, as ``key:value|key:value``.

        Replies are cached under it; of a judge `OnServer`, with the server's port. It holds no
        key or limit, which move no score, and of an address at most the host.
        """
        ...

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome per request, in any order, with the request's index."""
        ...


@runtime_checkable
class UsesStore(Protocol):
    """A judge that shares its replies with other processes while they arrive."""

    def ask_with_store(
        self, requests: Sequence[JudgeRequest], store: ReplyStore[Outcome]
    ) -> Iterator[tuple[int, Outcome]]:
        """As `Judge.ask`, with a look into the store right before a request is sent.

        A reply is stored as soon as it has arrived, whether or not its outcome is consumed.
        """
        ...


@runtime_checkable
class OnServer(Protocol):
    """A judge on a server with an address, where the tested model may be, too.

    Attributes:
        max_images: The most pictures that a request of the run has; set before its check, which
            sends some.
    """

    max_images: int

    @property
    def access(self) -> Access:
        """The server; `Access.storage_name` is in the key of a cached reply."""
        ...

    @property
    def model(self) -> str:
        """The model, as the server names it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """What a judge is doing at a moment.

    Attributes:
        in_flight: Requests in flight.
        retries: Requests that were sent again since the judge was created.
    """

    in_flight: int
    retries: int


@runtime_checkable
class CountsRequests(Protocol):
    """A judge that knows how its requests are going; for progress displays."""

    def request_counts(self) -> RequestCounts | None:
        """The counts at this moment, from any thread; None if they are not known."""
        ...


@runtime_checkable
class SelfChecking(Protocol):
    """A judge that can be checked before a run."""

    def check(self) -> None:
        """Return if the judge can be used: in seconds, at almost no cost.

        Raises:
            JudgeMisconfigured: It cannot; the message says why and what to do.
        """
        ...


@runtime_checkable
class HasAssets(Protocol):
    """A judge that needs files on the machine it runs on."""

    def assets(self) -> Sequence[Asset]:
        """What ``doctor`` checks and ``prefetch`` downloads; empty if nothing. Does not connect.

        A judge that lists assets is checked by their checks in place of `SelfChecking.check`, which
        may download them.

        Raises:
            JudgeMisconfigured: Its options name no asset that can exist.
        """
        ...


@runtime_checkable
class Stoppable(Protocol):
    """A judge whose calls of `Judge.ask` can be ended from outside, while they wait for a
    server.
    """

    def stop(self) -> None:
        """Have every running call raise KeyboardInterrupt; returns at once and takes no lock.

        Requests in flight are cancelled. A later call is not affected.
        """
        ...


@runtime_checkable
class InProcess(Protocol):
    """A judge whose model runs in this process and takes its memory."""

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Have a function called right before the model is loaded: to free memory for it."""
        ...

    def close(self) -> None:
        """Free the model's memory. A later request loads the model again."""
        ...


@runtime_checkable
class SettlesSignature(Protocol):
    """A judge in this process whose signature may change when it starts.

    Until then it names what the judge will likely be: the tested model still has the memory.
    """

    def settle(self) -> None:
        """Start what the signature depends on, so that it changes no more.

        Raises:
            JudgeMisconfigured: It cannot be started; `Judge.ask` says so for each request.
        """
        ...

    def machine(self) -> str | None:
        """What computed replies, for a run's provenance; None if nothing did.

        It may move single tokens of replies, like versions of libraries, and is not in the
        signature.
        """
        ...
