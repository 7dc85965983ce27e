"""The `openai` judge, which sends many requests at once to an OpenAI-compatible server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Event

from mmie_tasks.http.access import Access
from mmie_tasks.http.budget import Budget
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.send_all import send_all
from mmie_tasks.http.sender import ReplyStore, Sender, Undelivered
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestBroken,
    RequestCounts,
)
from mmie_tasks.judges.openai.dialect import Adaptations
from mmie_tasks.judges.openai.settings import (
    MODEL_VARIABLES,
    OpenAIOptions,
    Settings,
    read_settings,
)

_ERRORS: Mapping[str, type[JudgeError]] = {
    "unavailable": JudgeUnavailable,
    "over_budget": OutOfBudget,
    "rejected": JudgeRefused,
    "invalid": RequestBroken,
}

# The OpenAI SDK takes a second to import, so `check` and `chat_server` are imported when used.


class OpenAIJudge(Judge):
    """Requests chat completions. The cost limit is for the object's lifetime."""

    Options = OpenAIOptions
    model_variables = MODEL_VARIABLES

    def __init__(self, settings: Settings, *, pace: Pace | None = None) -> None:
        self.settings = settings
        self.model = settings.model
        self._sender = Sender(
            access=settings.access,
            budget=Budget(max_cost_usd=settings.max_cost_usd),
            max_concurrency=settings.max_concurrency,
            patience_s=settings.patience_s,
            pace=pace or Pace(),
        )
        self._adaptations = Adaptations(dialect=settings.dialect)
        self._stop = Event()  # stops the running calls

    @classmethod
    def open(cls, options: OpenAIOptions, environment: Mapping[str, str]) -> Judge:
        """Create this judge, or `BatchJudge` with ``batch=true``."""
        settings = read_settings(options, environment)
        if not options.batch:
            return cls(settings)
        from mmie_tasks.judges.openai.batch import BatchJudge

        return BatchJudge(settings)

    @property
    def signature(self) -> Mapping[str, object]:
        """See `Settings.signature`."""
        return self.settings.signature

    @property
    def access(self) -> Access:
        """The judge's server."""
        return self.settings.access

    def counts(self) -> RequestCounts:
        """Requests in flight, and requests sent again by this object."""
        return RequestCounts(in_flight=self._sender.in_flight, retries=self._sender.retries)

    def check(self, max_images: int = 0) -> None:
        """Check key, server and model; see `check.check`."""
        from mmie_tasks.judges.openai.check import check

        check(
            self.settings,
            max_images=max_images,
            pace=self._sender.pace,
            adaptations=self._adaptations,
        )

    def stop(self) -> None:
        """Make every running `ask` raise KeyboardInterrupt; requests in flight are cancelled."""
        stopped, self._stop = self._stop, Event()
        stopped.set()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as they arrive.

        Sends nothing before the first `next`; closing the iterator cancels requests in flight.
        """
        return self.ask_with_store(requests, None)

    def ask_with_store(
        self, requests: Sequence[JudgeRequest], store: ReplyStore[Outcome] | None
    ) -> Iterator[tuple[int, Outcome]]:
        """See `Judge.ask_with_store`; the same as `ask` without a store."""
        if (missing_key := self.settings.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        if not requests:
            return
        from mmie_tasks.judges.openai.chat_request import cost_of
        from mmie_tasks.judges.openai.chat_server import ChatServer

        settings = self.settings
        if settings.max_cost_usd is not None:
            self._sender.budget.expect(
                max(cost_of(request, None, settings) or 0.0 for request in requests)
            )

        results = send_all(
            requests,
            lambda client: ChatServer(settings, client, self._adaptations).attempt,
            self._sender,
            store,
            self._stop,
        )
        for index, result in results:
            if isinstance(result, Undelivered):
                yield index, judge_error_of(result, settings)
            else:
                yield index, result


def judge_error_of(undelivered: Undelivered, settings: Settings) -> JudgeError:
    """The judge error of an undelivered request."""
    if undelivered.cause == "denied":
        return JudgeMisconfigured(
            f"the judge `{settings.model}` denies access: {undelivered.reason}",
            hint="correct that, then run again: the replies so far are in the cache",
        )
    return _ERRORS[undelivered.cause](undelivered.reason)
