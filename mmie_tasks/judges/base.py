"""The class `Judge`: requests in, replies or errors out.

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

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from loguru import logger

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.core.log import traceback_text
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import signature_text

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """What a judge is doing at a moment.

    Attributes:
        in_flight: Requests in flight.
        retries: Requests that were sent again since the judge was created.
    """

    in_flight: int
    retries: int


class JudgeOptions(ChoiceOptions):
    """The options of a judge; a subclass adds its own.

    Attributes:
        cache: ``on``, ``off``, or another cache file.
    """

    cache: str = "on"


class Judge(ABC):
    """Sends requests to a model. Knows a transport, and no benchmark.

    A subclass has `signature` and `ask`, and overrides of the rest what it can do.

    Attributes:
        Options: Declares the options, as ``class Options(JudgeOptions)`` in the class.
        is_cached: Whether replies are worth a cache; not those of a recording.
        can_compare: Whether the judge follows any instruction, such as to compare two answers; a
            model that was trained to give points only does not.
        model_variables: Environment variables that name the model, in order of precedence. They
            replace the model of a benchmark's default, never one that the user chose.
        name: As the user chose the judge, set by `registry.create`.
        model: As its server names it; empty for a judge that is not on a server.
        in_process: Whether the model runs in this process and takes its memory.
        panel: How the verdicts of several `members` are combined; None for a single judge.
    """

    Options: ClassVar[type[JudgeOptions]] = JudgeOptions
    is_cached: ClassVar[bool] = True
    can_compare: ClassVar[bool] = True
    model_variables: ClassVar[tuple[str, ...]] = ()

    name: str = ""
    model: str = ""
    in_process: bool = False
    panel: Panel | None = None

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
    def signature(self) -> str:
        """Everything of the judge that can move a score, as ``key:value|key:value``.

        It holds no key or limit, which move no score, and of an address at most the host.
        """

    @abstractmethod
    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome for each request, in any order, with the request's index.

        A panel yields one for each request and judge: that of judge ``j`` on request ``i`` has the
        index ``j * len(requests) + i``.
        """

    def ask_with_store(
        self,
        requests: Sequence[JudgeRequest],
        store: ReplyStore[Outcome],  # noqa: ARG002
    ) -> Iterator[tuple[int, Outcome]]:
        """Like `ask`, by a judge that shares its replies with other processes while they arrive.

        It looks into the store right before it sends a request, and stores each reply as soon as
        it has arrived, whether or not its outcome is consumed.
        """
        return self.ask(requests)

    @property
    def members(self) -> tuple[Judge, ...]:
        """The judges of a panel; a single judge is its only one."""
        return (self,)

    def title(self, position: int) -> str:  # noqa: ARG002 - a single judge is the only member
        """A short name of one of the `members`, for log lines."""
        return f"the judge `{self.name}`" if self.name else "the judge"

    @property
    def access(self) -> Access | None:
        """The server, where the tested model may be, too; None for a judge that is not on one."""
        return None

    @property
    def storage_signature(self) -> str:
        """The signature under which replies are cached: with the server if that has a port, since
        another one may have other weights under the same name.
        """
        server = None if self.access is None else self.access.storage_name
        return signature_text(self.signature, servers=server)

    @property
    def cache_file(self) -> Path | None:
        """The file in which replies are cached; None without a cache."""
        return None

    def check(self, max_images: int = 0) -> None:
        """Return if the judge can be used: in seconds, at almost no cost.

        Args:
            max_images: The most pictures that a request of the run has.

        Raises:
            JudgeMisconfigured: It cannot; the message says why and what to do.
        """

    def assets(self) -> Sequence[Asset]:
        """The files that the judge needs on its machine: ``doctor`` checks and ``prefetch``
        downloads them. Does not connect.

        A judge that lists assets is checked by their checks in place of `check`, which may download
        them.

        Raises:
            JudgeMisconfigured: Its options name no asset that can exist.
        """
        return ()

    def counts(self) -> RequestCounts | None:
        """How requests are going at this moment, from any thread, for the progress bar; None if
        that is not known.
        """
        return None

    def stop(self) -> None:
        """Have every running call of `ask` raise KeyboardInterrupt; returns at once and takes no
        lock. A later call is not affected.
        """

    def before_loading(self, callback: Callable[[], object]) -> None:
        """Have a function called right before a model is loaded into this process: to free memory
        for it.
        """

    def settle(self) -> None:
        """Start what the signature depends on, so that it changes no more.

        Until then it names what the judge will likely be: the tested model still has the memory.

        Raises:
            JudgeMisconfigured: It cannot be started; `ask` says so for each request.
        """

    def machine(self) -> str | None:
        """The machine that computed replies, for a run's provenance; None if nothing did.

        It may move single tokens of replies, like versions of libraries, and is not in the
        signature.
        """
        return None

    def close(self) -> None:
        """Free the memory of a model in this process. A later request loads the model again."""


def outcomes_of(
    judge: Judge, requests: Sequence[JudgeRequest], name: str = ""
) -> Iterator[tuple[int, Outcome]]:
    """The outcomes of `Judge.ask`, with exactly one for each index.

    A judge of another package may raise, or leave out requests: these are unavailable.

    Args:
        judge: The judge.
        requests: Any number.
        name: For the log; by default the title of the judge.
    """
    missing = dict.fromkeys(range(len(requests) * len(judge.members)))
    reason = "the judge returned neither a reply nor an error"
    try:
        for index, outcome in judge.ask(requests) if requests else ():
            if index in missing:
                del missing[index]
                yield index, outcome
    except Exception as error:  # noqa: BLE001 - a plugin: its replies are lost, not the run
        reason = f"the judge ended early: {type(error).__name__}: {error}"
        name = name or judge.title(0)
        logger.error(
            "{} ended early; {} samples left without its verdict.\n{}",
            name[0].upper() + name[1:],
            len(missing),
            traceback_text(error),
        )
    for index in missing:
        yield index, JudgeUnavailable(reason)


def close_judge(judge: Judge) -> None:
    """Free a judge's memory; it can be used again. A failure is logged: no result may be lost."""
    try:
        judge.close()
    except Exception as error:  # noqa: BLE001 - a plugin, or a device that is out of order
        logger.warning(f"The judge's memory could not be freed: {type(error).__name__}: {error}")
