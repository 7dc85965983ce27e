"""Where the requests of one `ask` are: waiting, in a batch that runs, or settled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mmie_tasks.judges.base import JudgeError, JudgeRequest, Outcome
from mmie_tasks.judges.openai.batch_calls import Provider
from mmie_tasks.judges.openai.batch_files import Body, Limits
from mmie_tasks.judges.openai.batch_outcomes import Reading
from mmie_tasks.judges.openai.batch_retry import BatchPace
from mmie_tasks.judges.openai.batch_state import Submission, Submissions
from mmie_tasks.judges.openai.wire import Dialect


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What the work is done with.

    Attributes:
        signature: The judge's.
        provider: The server.
        submissions: What is remembered of batches.
        reading: How replies are read.
        body_of: Makes the body of a request.
        pace: How long is waited.
    """

    signature: str
    provider: Provider
    submissions: Submissions
    reading: Reading
    body_of: Callable[[JudgeRequest, Dialect], Body]
    pace: BatchPace


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A batch that is waited for.

    Attributes:
        submission: It has a name.
        requests: Those of its requests that were asked for now, by content key.
        dialect: How they were put.
    """

    submission: Submission
    requests: Mapping[str, JudgeRequest]
    dialect: Dialect

    @property
    def batch(self) -> str:
        """The provider's name for it."""
        return self.submission.batch or ""


@dataclass(slots=True, kw_only=True)
class Work:
    """The requests of one `ask`, each in one place.

    Attributes:
        waiting: In no batch, by content key.
        dialect: How the model wants to be asked, as far as is known by now.
        limits: What goes into one file.
        running: In a batch.
        settled: Outcomes that have not been handed on.
        one_by_one: The provider does not take all batches at once.
        tried: The ways of asking that were tried.
    """

    waiting: dict[str, JudgeRequest]
    dialect: Dialect
    limits: Limits
    running: list[Running] = field(default_factory=list)
    settled: dict[str, Outcome] = field(default_factory=dict)
    one_by_one: bool = False
    tried: set[Dialect] = field(default_factory=set)

    @property
    def may_submit(self) -> bool:
        """There is something to submit, and the provider may take it."""
        return bool(self.waiting) and not (self.one_by_one and self.running)

    def start(self, submission: Submission) -> Running:
        """Wait for a batch: what it has of the waiting requests is in it."""
        keys = [key for key in submission.keys if key in self.waiting]
        requests = {key: self.waiting.pop(key) for key in keys}
        entry = Running(submission=submission, requests=requests, dialect=self.dialect)
        self.running.append(entry)
        self.tried.add(self.dialect)
        return entry

    def put_back(self, requests: Mapping[str, JudgeRequest]) -> None:
        """They wait again, before all others."""
        self.waiting = {**requests, **self.waiting}

    def settle(self, outcomes: Mapping[str, Outcome]) -> None:
        """They wait no longer."""
        for key in outcomes:
            self.waiting.pop(key, None)
        self.settled.update(outcomes)

    def fail(self, keys: Iterable[str], error: JudgeError) -> None:
        """None of them gets a reply, for the same reason."""
        self.settle(dict.fromkeys(keys, error))

    def fail_all(self, error: JudgeError) -> None:
        """Nothing that is left gets a reply."""
        left = [*self.waiting, *(key for entry in self.running for key in entry.requests)]
        self.running.clear()
        self.fail(left, error)

    def narrow(self, requests: int) -> bool:
        """Ask for less at a time: a batch with so many requests was too much for the provider.

        First one batch after the other; if one was too much on its own, half as many requests.

        Returns:
            Whether there is a point in trying: not where a single request was too much.
        """
        if not self.running:
            if requests == 1:
                return False
            self.limits = replace(self.limits, requests=requests // 2)
        self.one_by_one = True
        return True
