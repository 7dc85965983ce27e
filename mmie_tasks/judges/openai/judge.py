"""The `openai` judge: many requests at once to one or several OpenAI-compatible servers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from threading import Event

from mmie_tasks.http.budget import Budget
from mmie_tasks.http.errors import redact
from mmie_tasks.http.rate_limit import Pace, Traffic
from mmie_tasks.http.retries import Endpoint, ReplyStore, SendPolicy, Undelivered, send_all
from mmie_tasks.judges.base import (
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
from mmie_tasks.judges.openai.settings import Adaptations, Settings
from mmie_tasks.record.reply import JudgeReply

_ERRORS: Mapping[str, type[JudgeError]] = {
    "unavailable": JudgeUnavailable,
    "over_budget": OutOfBudget,
    "rejected": JudgeRefused,
    "invalid": RequestBroken,
}

# The OpenAI SDK takes a second to import, so `client`, `wire` and `check` are imported when used.


class OpenAIJudge:
    """Requests chat completions. The cost limit counts over the object's lifetime.

    Args:
        settings: The model, its servers and parameters.
        pace: Waiting times between attempts.
    """

    def __init__(self, settings: Settings, *, pace: Pace | None = None) -> None:
        self.settings = settings
        self._pace = pace or Pace()
        self._budget = Budget(max_cost_usd=settings.max_cost_usd)
        self._adaptations = Adaptations()
        self._traffic = Traffic()
        self._stop = Event()  # of the calls that run

    def __repr__(self) -> str:
        return f"OpenAIJudge({self.settings!r})"

    @property
    def signature(self) -> str:
        """The model and its parameters: see `Settings.signature`."""
        return self.settings.signature

    @property
    def spent_usd(self) -> float:
        """US dollars spent by this object; 0 if the price is unknown."""
        return self._budget.spent_usd

    def request_counts(self) -> RequestCounts:
        """Requests in flight, and those sent again by this object."""
        return RequestCounts(in_flight=self._traffic.in_flight, retries=self._traffic.retries)

    def check(self) -> None:
        """Return if the key, the server and the model can be used: see `check.check`.

        Raises:
            JudgeMisconfigured: They cannot.
        """
        from mmie_tasks.judges.openai.check import check

        check(self.settings, pace=self._pace, adaptations=self._adaptations)

    def stop(self) -> None:
        """Have every running `ask` raise KeyboardInterrupt; requests in flight are cancelled."""
        stopped, self._stop = self._stop, Event()
        stopped.set()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield one outcome per request, with its index, as they arrive.

        Nothing is sent before the first `next`; closing the iterator cancels the requests in
        flight.
        """
        return self.ask_with_store(requests)

    def ask_with_store(
        self, requests: Sequence[JudgeRequest], store: ReplyStore[Outcome] | None = None
    ) -> Iterator[tuple[int, Outcome]]:
        """As `ask`; replies are looked up right before sending, and stored on arrival."""
        if (missing_key := self.settings.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        if not requests:
            return
        from mmie_tasks.judges.openai.wire import cost_of

        if self.settings.max_cost_usd is not None:
            self._budget.expect(
                max(cost_of(request, None, self.settings) or 0.0 for request in requests)
            )
        policy = SendPolicy(
            service=self.settings.access.service,
            budget=self._budget,
            pace=self._pace,
            patience_s=self.settings.patience_s,
            redact=lambda text: redact(text, self.settings.access.secrets),
            traffic=self._traffic,
        )
        errors: dict[Undelivered, JudgeError] = {}
        for index, result in send_all(requests, self._connect, policy, store, self._stop):
            if isinstance(result, Undelivered):
                yield index, errors.setdefault(result, judge_error_of(result, self.settings))
            else:
                yield index, result

    def _connect(
        self,
    ) -> AbstractAsyncContextManager[Sequence[Endpoint[JudgeRequest, JudgeReply | JudgeError]]]:
        from mmie_tasks.http.client import open_endpoints
        from mmie_tasks.judges.openai.wire import ChatServer

        settings = self.settings
        return open_endpoints(
            settings.access,
            lambda client, address: (
                ChatServer(settings, client, address, self._adaptations).attempt
            ),
            pace=self._pace,
            max_concurrency=settings.max_concurrency,
        )


def judge_error_of(undelivered: Undelivered, settings: Settings) -> JudgeError:
    """The judge error for a request without a reply."""
    if undelivered.cause == "denied":
        return JudgeMisconfigured(
            f"the judge `{settings.model}` denies access: {undelivered.reason}",
            hint="correct that, then run again: the replies so far are in the cache",
        )
    return _ERRORS[undelivered.cause](undelivered.reason)
