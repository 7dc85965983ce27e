"""The class `Judge`, its requests and its errors.

* JudgeError
  + JudgeUnavailable    no reply after retries: no connection, timeout, 429, 5xx, unusable bodies
  + JudgeRefused        a reply without a judgement: content filter, refusal
  + ReplyEmpty          a reply without text
  + RequestBroken       the request cannot be sent: an image file cannot be read
  + RequestUnfit        this judge cannot take the request: too long, or with its control strings
  + OutOfBudget         the request was not sent: the spending limit is reached
  + JudgeMisconfigured  the judge cannot be used: no key, 401, unknown model, wrong option

The first six concern one sample. `JudgeMisconfigured` stops a run before it generates anything;
when it happens later (a revoked key), samples are left unscored as with the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from loguru import logger

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import Signature

if TYPE_CHECKING:
    from mmie_tasks.http.access import Access
    from mmie_tasks.hub.asset import Asset
    from mmie_tasks.judges.cache_file import CacheFile


class JudgeError(Exception):
    """A judge gave no reply."""


class JudgeUnavailable(JudgeError):
    """The judge did not reply within its retries."""


class JudgeRefused(JudgeError):
    """The judge replied, but refused to judge."""


class ReplyEmpty(JudgeError):
    """The judge's reply has no text, also when it was requested again."""


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
    """The schema of a JSON reply, as a function that the judge is told to call.

    Attributes:
        name: Name of the function: letters, digits, ``_`` and ``-``.
        description: Description of the function; may be empty.
        parameters: JSON schema, as text to keep the order of the keys.
    """

    name: str
    description: str = ""
    parameters: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """A request to a judge.

    Attributes:
        parts: Texts and paths of image files, in reading order. Files are opened when the request
            is sent, and sent byte for byte.
        max_tokens: The longest reply, in the judge's tokens.
        system: The system message; may be empty.
        schema: Schema of the reply, which is then JSON text; None for free text.
        attempt: 0, or 1 if the request is sent a second time after an impossible reply.
    """

    parts: tuple[str | Path, ...]
    max_tokens: int
    system: str = ""
    schema: ReplySchema | None = None
    attempt: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.parts, str):
            raise TypeError("`parts` is a tuple of texts and image files, not a text")


Outcome: TypeAlias = JudgeReply | JudgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """The requests in flight, and those sent again since the judge was created."""

    in_flight: int
    retries: int


class JudgeOptions(ChoiceOptions):
    """The options of a judge; a subclass adds its own.

    Attributes:
        cache: ``on``, ``off``, or the path of another cache file.
    """

    cache: str = "on"


class Judge(ABC):
    """Sends requests to a model. Knows a transport, but no benchmark.

    A subclass defines `signature` and `ask`; the other methods are optional.

    Attributes:
        Options: The options, as ``class Options(JudgeOptions)`` in the class.
        is_cached: Whether replies are cached; a recording's are not.
        model_variables: Environment variables that name the model, in order of precedence. They
            replace the model of a benchmark's default judge, never one that the user chose.
        name: The name the user chose the judge by, set by `registry.create`.
        model: The server's name for the model; empty without a server.
        in_process: Whether the model runs in this process and takes its memory.
        cache: The file that `cache.outcomes_of` stores the replies in; None for none.
    """

    Options: ClassVar[type[JudgeOptions]] = JudgeOptions
    is_cached: ClassVar[bool] = True
    model_variables: ClassVar[tuple[str, ...]] = ()

    name: str = ""
    model: str = ""
    in_process: bool = False
    cache: CacheFile | None = None

    def __init__(self, options: Any, environment: Mapping[str, str]) -> None:  # noqa: ANN401
        self.options = options
        self.environment = environment

    @classmethod
    def open(cls, options: Any, environment: Mapping[str, str]) -> Judge:  # noqa: ANN401
        """Create the judge from its `Options`; sends no request.

        Raises:
            SettingWrong: An option or variable has an invalid value, or one is missing.
        """
        return cls(options, environment)

    @property
    @abstractmethod
    def signature(self) -> Mapping[str, object]:
        """Everything about the judge that can move a score, by key; ``judge``, its kind, is first.

        A value of None is left out. API keys and limits move no score and are not in it; an address
        is reduced to its host. A panel has the values of all members, joined.
        """

    @abstractmethod
    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the index and outcome of each request, in any order.

        A panel yields one outcome per request and judge: judge ``j`` on request ``i`` has the index
        ``j * len(requests) + i``.
        """

    @property
    def members(self) -> tuple[Judge, ...]:
        """The judges of a panel; for a single judge, itself."""
        return (self,)

    def title(self, position: int) -> str:  # noqa: ARG002 - a single judge is the only member
        """A short name of one of the `members`, for log lines."""
        return f"the judge `{self.name}`" if self.name else "the judge"

    @property
    def access(self) -> Access | None:
        """The server, which may also host the tested model; None without a server."""
        return None

    @property
    def storage_signature(self) -> str:
        """The signature under which replies are cached.

        Includes a server with a port: another server may have other weights under the same name.
        """
        server = None if self.access is None else self.access.storage_name
        return str(Signature.of_judges([{**self.signature, "servers": server}]))

    def check(self, max_images: int = 0) -> None:
        """Check in seconds, at almost no cost, that the judge can be used.

        Args:
            max_images: The most images in one request of the run.

        Raises:
            JudgeMisconfigured: The judge cannot be used; the message says why and what to do.
        """

    def assets(self) -> Sequence[Asset]:
        """The files that the judge needs on this machine; makes no connection.

        ``prefetch`` downloads the assets. ``doctor`` checks them and does not call `check`, which
        may download them.

        Raises:
            JudgeMisconfigured: The options name an asset that cannot exist.
        """
        return ()

    def counts(self) -> RequestCounts | None:
        """Counts for the progress bar, safe to call from any thread; None if unknown."""
        return None

    def stop(self) -> None:
        """Make every running `ask` raise KeyboardInterrupt; later calls are not affected.

        Returns at once and takes no lock.
        """

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Register a function that is called before a model is loaded here, to free memory."""

    def machine(self) -> str | None:
        """The machine that computed replies, for a run's provenance; None if there is none.

        Like library versions, it may move single tokens of replies; it is not in the signature.
        """
        return None

    def close(self) -> None:
        """Free the memory of a model in this process; a later request loads it again."""


def close_judge(judge: Judge) -> None:
    """Free a judge's memory; a failure is only logged, so that no result is lost."""
    try:
        judge.close()
    except Exception as error:  # noqa: BLE001 - a plugin, or a device that is out of order
        logger.warning(f"The judge's memory could not be freed: {type(error).__name__}: {error}")
