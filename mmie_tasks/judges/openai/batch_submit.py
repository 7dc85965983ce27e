"""Putting waiting requests into batches, so that none is ever in two."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loguru import logger

from mmie_tasks.judges.base import JudgeUnavailable
from mmie_tasks.judges.openai.batch_files import write_part
from mmie_tasks.judges.openai.batch_outcomes import AGAIN
from mmie_tasks.judges.openai.batch_retry import Rejected, too_much_at_once
from mmie_tasks.judges.openai.batch_state import Submission, digest_of
from mmie_tasks.judges.openai.batch_view import Batch
from mmie_tasks.judges.openai.batch_work import Means, Work
from mmie_tasks.judges.openai.complaints import Complaint


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
