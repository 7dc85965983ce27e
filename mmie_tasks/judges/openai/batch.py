"""The `openai` judge with ``batch=true``: the provider's Batch API, at half the price.

Slower and cheaper than asking online: all requests go to the provider in files, and the replies are
there within 24 hours, most often sooner. The judge is the same, so the signature is, and a reply
that the cache has of one serves the other. A run that is interrupted in any way goes on where it
stopped when the same command is given again: see `batch_state`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from loguru import logger

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.http.complaints import Complaint
from mmie_tasks.judges.base import (
    Judge,
    JudgeError,
    JudgeMisconfigured,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
    content_key,
)
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.batch_store import (
    AGAIN,
    Batch,
    BatchPace,
    Body,
    Limits,
    Provider,
    Reading,
    Rejected,
    Submission,
    Submissions,
    digest_of,
    error_of,
    error_of_setup,
    too_much_at_once,
    write_part,
)
from mmie_tasks.judges.openai.check import check, missing_key
from mmie_tasks.judges.openai.settings import Settings, shown
from mmie_tasks.judges.openai.wire import Dialect, next_dialect

# Where the requests of one `ask` are: waiting, in a batch that runs, or settled.


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


# Putting waiting requests into batches, so that none is ever in two.


def submit(work: Work, means: Means) -> None:
    """Put what waits into batches: those that exist already, then new ones.

    One process at a time does this, so that two do not submit the same.

    Raises:
        JudgeUnavailable: The server gave no usable answer.
        Rejected: It will not have the batch.
        OSError: Our folder cannot be written.
    """
    with means.submissions.prepared():
        _join(work, means)
        elsewhere = means.provider.running() if work.may_submit else {}
        while work.may_submit:
            _submit_part(work, means, elsewhere)


def _join(work: Work, means: Means) -> None:
    """Wait for batches that were submitted before, by a process that died or one that lives.

    It is our turn, so a submission without a batch is of a process that died over it.
    """
    for submission in means.submissions.known():
        if work.waiting.keys().isdisjoint(submission.keys):
            continue
        if submission.batch is None:
            found = means.provider.find(submission)
            if found is None:
                means.submissions.forget(submission)
                continue
            submission = submission.named(batch=found.name)
            means.submissions.remember(submission)
        work.start(submission)
        logger.info(f"mmie-tasks: waiting for the batch `{submission.batch}` of an earlier run.")


def _submit_part(work: Work, means: Means, elsewhere: Mapping[str, Batch]) -> None:
    """Submit one file full of requests."""
    path = means.submissions.new_file()
    try:
        submission = _prepared(path, work, means, elsewhere)
    finally:
        path.unlink(missing_ok=True)
    if submission is not None and submission.batch is None:
        submission = _created(submission, work, means)
    if submission is not None:
        work.start(submission)


def _prepared(
    path: Path, work: Work, means: Means, elsewhere: Mapping[str, Batch]
) -> Submission | None:
    """Fill a file and upload it, unless another machine has a batch of just these requests.

    Returns:
        What was written down of it; None where no request could be sent.
    """
    part = write_part(
        path, work.waiting, lambda request: means.body_of(request, work.dialect), work.limits
    )
    work.settle(part.broken)
    if not part.keys:
        return None
    submission = Submission(digest=digest_of(means.signature, part.keys), keys=part.keys)
    if found := elsewhere.get(submission.digest):
        submission = submission.named(batch=found.name)
    means.submissions.remember(submission)  # before the batch can exist
    if submission.batch is None:
        try:
            submission = submission.named(input_file=means.provider.upload(path))
        except (JudgeUnavailable, Rejected):
            means.submissions.forget(submission)
            raise
        means.submissions.remember(submission)
    return submission


def _created(submission: Submission, work: Work, means: Means) -> Submission | None:
    """Make the batch.

    Returns:
        What is remembered of it; None where the provider does not take so much at once.
    """
    try:
        batch = means.provider.create(submission)
    except Rejected as rejected:
        means.submissions.forget(submission)
        if not too_much_at_once(rejected.complaint):
            raise
        give_less(work, len(submission.keys), rejected.complaint)
        return None
    submission = submission.named(batch=batch.name)
    means.submissions.remember(submission)
    logger.info(
        f"mmie-tasks: the batch `{batch.name}` has {len(submission.keys)} requests and may take "
        "24 hours. A run that is stopped meanwhile goes on when the same command is given again."
    )
    return submission


def give_less(work: Work, requests: int, said: Complaint) -> None:
    """Go on after a batch with so many requests was more than the provider takes at once."""
    if work.narrow(requests):
        logger.info(f"mmie-tasks: the provider takes no more batches for now ({said.message}).")
    else:
        work.fail([*work.waiting], JudgeUnavailable(f"no batch is taken: {said.message}; {AGAIN}"))


# One `ask` by way of batches: submit, wait, hand on what came of it.
#
# Nothing is paid for twice. A batch is written down before it exists (`batch_state`), so that whoever
# asks for the same later, after a crash or in another process, waits for it instead of submitting.

_TROUBLE = (JudgeUnavailable, Rejected, OSError)


class Run:
    """One `ask`.

    Args:
        work: What is asked.
        means: What it is done with.
    """

    def __init__(self, work: Work, means: Means) -> None:
        self.work = work
        self._means = means
        self._look_s = means.pace.first_look_s
        self._end = time.monotonic() + means.pace.longest_wait_s
        self._seen: dict[str, Batch] = {}
        self._said = ""

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """One outcome for each request, by content key, as batches end. Raises nothing."""
        work = self.work
        try:
            yield from self._resumed()
            while work.waiting or work.running:
                self._submit()
                yield from self._handed_on()
                yield from self._looked_at()
        except _TROUBLE as error:
            work.fail_all(self._failure(error))
        yield from self._handed_on()

    def _handed_on(self) -> Iterator[tuple[str, Outcome]]:
        settled, self.work.settled = self.work.settled, {}
        yield from settled.items()

    def _resumed(self) -> Iterator[tuple[str, Outcome]]:
        """Take up batches of earlier runs; what one that is over did not answer waits again."""
        for submission in self._means.submissions.known():
            if submission.batch is None or self.work.waiting.keys().isdisjoint(submission.keys):
                continue
            logger.info(f"mmie-tasks: the batch `{submission.batch}` of an earlier run is used.")
            entry = self.work.start(submission)
            yield from self._looked(entry, again=True)

    def _submit(self) -> None:
        """Submit what may be submitted; trouble concerns what is in no batch yet."""
        work = self.work
        if not work.may_submit:
            return
        try:
            submit(work, self._means)
        except _TROUBLE as error:
            work.fail([*work.waiting], self._failure(error))
        self._look_s = self._means.pace.first_look_s
        self._end = time.monotonic() + self._means.pace.longest_wait_s

    def _looked_at(self) -> Iterator[tuple[str, Outcome]]:
        """Wait, then look at every batch once."""
        pace, running = self._means.pace, list(self.work.running)
        if not running:
            return
        if time.monotonic() > self._end:
            hours = pace.longest_wait_s / 3600
            raise JudgeUnavailable(f"the batch is not over after {hours:.0f} h; {AGAIN}")
        time.sleep(self._look_s)
        self._look_s = min(self._look_s * 1.5, pace.longest_look_s)
        for entry in running:
            yield from self._looked(entry)
        self._tell()

    def _looked(self, entry: Running, *, again: bool = False) -> Iterator[tuple[str, Outcome]]:
        """Look at a batch once, and hand on what came of it where it is over.

        Args:
            entry: The batch.
            again: It is of an earlier run: what it did not answer is not given up, but submitted.
        """
        provider = self._means.provider
        try:
            batch = provider.look(entry.batch)
            files = (batch.output_file, batch.error_file) if batch.over else ()
            contents = [provider.content(file) for file in files if file]
        except Rejected as rejected:
            if rejected.complaint.status != 404:
                raise
            self._gone(entry, rejected, again)
            return
        self._seen[entry.batch] = batch
        if batch.over:
            self.work.running.remove(entry)
            yield from self._over(entry, batch, contents, again)

    def _gone(self, entry: Running, rejected: Rejected, again: bool) -> None:
        """A batch or its files are not there: deleted, or of another account."""
        self.work.running.remove(entry)
        self._means.submissions.forget(entry.submission)
        if again:
            self.work.put_back(entry.requests)
        else:
            gone = f"the batch `{entry.batch}` is not there any more ({rejected}); {AGAIN}"
            self.work.fail(entry.requests, JudgeUnavailable(gone))

    def _over(
        self, entry: Running, batch: Batch, contents: Sequence[bytes], again: bool
    ) -> Iterator[tuple[str, Outcome]]:
        work = self.work
        left, back = dict(entry.requests), {}
        keys = frozenset(entry.submission.keys)
        for key, found in self._means.reading.outcomes(contents, keys):
            if key not in left:
                continue  # asked for in an earlier run, not in this one
            request, outcome = left.pop(key), self._outcome(entry, found)
            if outcome is None or (again and isinstance(outcome, JudgeUnavailable)):
                back[key] = request
            else:
                yield key, outcome
        if again or _too_much(batch):
            back |= left
        else:
            work.fail(left, _unanswered(batch))
        work.put_back(back)
        if _too_much(batch) and not again:
            give_less(work, len(keys), batch.complaint)
        yield from self._handed_on()
        self._means.submissions.settle(entry.submission, entry.requests.keys())

    def _outcome(self, entry: Running, found: Outcome | Complaint) -> Outcome | None:
        """The outcome of a request; None where it is to be asked once more in another way."""
        if not isinstance(found, Complaint):
            return found
        work, dialect = self.work, next_dialect(entry.dialect, found)
        if dialect is not None and (dialect == work.dialect or dialect not in work.tried):
            work.dialect = dialect
            return None
        return error_of(found)

    def _tell(self) -> None:
        """Say in the log how far the batches are, whenever that has changed."""
        batches = [self._seen[entry.batch] for entry in self.work.running]
        total = sum(len(entry.submission.keys) for entry in self.work.running)
        completed = sum(batch.completed for batch in batches)
        failed = sum(batch.failed for batch in batches)
        said = f"{completed} of {total} requests done, {failed} failed"
        if batches and said != self._said:
            logger.info(f"mmie-tasks: batches that are running: {len(batches)}; {said}.")
            self._said = said

    def _failure(self, error: JudgeUnavailable | Rejected | OSError) -> JudgeError:
        """What trouble means for every request it concerns."""
        match error:
            case JudgeUnavailable():
                return error
            case Rejected():
                return error_of_setup(error.complaint, self._means.provider.address)
            case OSError():
                folder = self._means.submissions.folder
                return JudgeMisconfigured(
                    f"The folder `{folder}` for batches cannot be used: {error.strerror}.",
                    hint="make room on the disk, or name another with `MMIE_TASKS_CACHE`",
                )


def _too_much(batch: Batch) -> bool:
    return batch.status == "failed" and too_much_at_once(batch.complaint)


def _unanswered(batch: Batch) -> JudgeUnavailable:
    if batch.status == "failed":
        said = batch.complaint
        return JudgeUnavailable(f"the batch failed: {said.message} ({said.code}); {AGAIN}")
    return JudgeUnavailable(f"the batch is {batch.status} and has no line for it; {AGAIN}")


DISCOUNT = 0.5
"""What a batch costs, as a fraction of the price of the same requests made one by one."""


def open_batch_judge(
    settings: Settings,
    *,
    limits: Limits | None = None,
    pace: BatchPace | None = None,
) -> Judge:
    """A judge that asks by way of batches. Nothing is asked yet.

    Args:
        settings: As of the online judge.
        limits: What goes into one file.
        pace: How long is waited.

    Raises:
        SettingWrong: There is a setting that batches cannot obey.
    """
    _refuse(settings)
    return BatchJudge(settings, limits or Limits(), pace or BatchPace())


def _refuse(settings: Settings) -> None:
    if settings.api_type == "azure":
        raise SettingWrong(
            "`batch=true` is not supported at Azure, where batches are another service.",
            hint="leave `batch=true` out",
        )
    if len(settings.base_urls) > 1:
        raise SettingWrong(
            f"`batch=true` was given with {len(settings.base_urls)} base URLs.",
            hint="give one: a batch is done by one server",
        )
    if settings.max_cost_usd is not None:
        raise SettingWrong(
            "`max_cost` cannot be kept with `batch=true`: a batch is paid for as a whole, and what "
            "it cost is known when it is over.",
            hint="leave one of them out; `--limit` makes a run smaller",
        )


class BatchJudge:
    """Asks by way of batches; see `open_batch_judge`."""

    def __init__(self, settings: Settings, limits: Limits, pace: BatchPace) -> None:
        self._settings = settings
        self._limits = limits
        self._pace = pace

    @property
    def signature(self) -> str:
        """That of the online judge: the replies are the same model's."""
        return self._settings.signature

    def check(self) -> None:
        """Return if key, server and model are right: see `check.check`. No batch is made.

        Raises:
            JudgeMisconfigured: They are not.
        """
        check(self._settings, pace=self._pace.tries)

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give one outcome for each request, as batches end, with the request's index.

        The same request twice is asked once.
        """
        if (error := missing_key(self._settings)) is not None:
            yield from ((index, error) for index in range(len(requests)))
            return
        places: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            key = _key(request)
            if isinstance(key, RequestBroken):
                yield index, key
            else:
                places.setdefault(key, []).append(index)
        if not places:
            return
        with closing(self._asked({key: requests[at[0]] for key, at in places.items()})) as asked:
            for key, outcome in asked:
                yield from ((index, outcome) for index in places[key])

    def _asked(
        self, waiting: dict[str, JudgeRequest]
    ) -> Generator[tuple[str, Outcome], None, None]:
        provider = Provider(self._settings, self._pace)
        dialect = wire.dialect_of(self._settings.model)
        work = Work(waiting=waiting, dialect=dialect, limits=self._limits)
        try:
            yield from Run(work, self._means(provider)).outcomes()
        except (KeyboardInterrupt, GeneratorExit):
            if names := ", ".join(f"`{entry.batch}`" for entry in work.running):
                logger.warning(
                    f"mmie-tasks: the batches {names} go on at {provider.address}. Give the same "
                    "command again to wait for them; nothing is paid for twice."
                )
            raise
        finally:
            provider.close()

    def _means(self, provider: Provider) -> Means:
        settings = self._settings
        price = settings.price.times(DISCOUNT) if settings.price else None
        return Means(
            signature=self.signature,
            provider=provider,
            submissions=Submissions(
                settings.cache_dir / "judge" / "batches",
                server=shown(settings.base_urls[0]),
                signature=self.signature,
            ),
            reading=Reading(model=settings.model, price=price, secrets=settings.secrets),
            body_of=settings.body,
            pace=self._pace,
        )


def _key(request: JudgeRequest) -> str | RequestBroken:
    try:
        return content_key(request)
    except RequestBroken as error:
        return error
