"""The `openai` judge: chat requests to an OpenAI-compatible server, many at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mmie_tasks.http.access import Access
from mmie_tasks.http.sender import Pace, Undelivered
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    OutOfBudget,
    RequestCounts,
)
from mmie_tasks.judges.openai.chat import cost_of, open_chat
from mmie_tasks.judges.openai.settings import MODEL_VARIABLES, OpenAIOptions

_ERRORS: Mapping[str, type[JudgeError]] = {
    "unavailable": JudgeUnavailable,
    "over_budget": OutOfBudget,
    "rejected": JudgeRefused,
}


class OpenAIJudge(Judge):
    """Requests chat completions. The cost limit is for the object's lifetime."""

    Options = OpenAIOptions
    model_variables = MODEL_VARIABLES

    def __init__(
        self, options: OpenAIOptions, environment: Mapping[str, str], *, pace: Pace | None = None
    ) -> None:
        super().__init__(options, environment)
        self.chat = open_chat(options, environment, pace or Pace())
        self.model = self.chat.options.model or ""
        self._sender = self.chat.sender

    @classmethod
    def open(cls, options: OpenAIOptions, environment: Mapping[str, str]) -> Judge:
        """Create this judge, or `BatchJudge` with ``batch=true``."""
        if not options.batch:
            return cls(options, environment)
        from mmie_tasks.judges.openai.batch import BatchJudge

        return BatchJudge(options, environment)

    @property
    def signature(self) -> Mapping[str, object]:
        """The model, its parameters and a foreign server's host: all that can move a score."""
        return self.chat.signature

    @property
    def access(self) -> Access:
        """The judge's server."""
        return self.chat.sender.access

    def counts(self) -> RequestCounts:
        """Requests in flight, and requests sent again by this object."""
        return RequestCounts(in_flight=self._sender.in_flight, retries=self._sender.retries)

    def check(self, max_images: int = 0) -> None:
        """Check key, server and model; see `check.check`."""
        from mmie_tasks.judges.openai.check import check

        check(self.chat, self.signature, max_images)

    def stop(self) -> None:
        """Make every running `ask` raise KeyboardInterrupt; requests in flight are cancelled."""
        self._sender.stop()

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the outcomes as they arrive.

        Sends nothing before the first `next`; closing the iterator cancels requests in flight.
        """
        if (missing_key := self.access.missing_key(JudgeMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        estimates = [cost_of(request, None, self.chat.options) or 0.0 for request in requests]
        budget = self._sender.budget
        budget.request_usd = max(budget.request_usd, *estimates, 0.0)
        for index, result in self._sender.send_all(requests, self.chat.send):
            if isinstance(result, Undelivered):
                yield index, self._error_of(result)
            else:
                yield index, result

    def _error_of(self, undelivered: Undelivered) -> JudgeError:
        if undelivered.cause == "denied":
            return JudgeMisconfigured(
                f"the judge `{self.model}` denies access: {undelivered.reason}",
                hint="correct that, then run again: the replies so far are in the cache",
            )
        return _ERRORS[undelivered.cause](undelivered.reason)
