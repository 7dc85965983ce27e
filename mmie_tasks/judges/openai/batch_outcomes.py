"""What the lines of a finished batch say about its requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loguru import logger

from mmie_tasks.judges.base import (
    JudgeError,
    JudgeMisconfigured,
    JudgeRefused,
    JudgeUnavailable,
    Outcome,
)
from mmie_tasks.judges.openai import wire
from mmie_tasks.judges.openai.batch_files import Line, read_lines
from mmie_tasks.judges.openai.complaints import Complaint, complaint
from mmie_tasks.judges.openai.models import Price

AGAIN = "run the same command again to ask once more"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How lines are read.

    Attributes:
        model: Who was asked.
        price: Of a batch, per million tokens.
        secrets: What must not stand in a message.
    """

    model: str
    price: Price | None
    secrets: Sequence[str]

    def outcomes(
        self, contents: Sequence[bytes], asked: frozenset[str]
    ) -> Iterator[tuple[str, Outcome | Complaint]]:
        """One outcome for each request at most; its first line counts.

        Lines that cannot be read, that belong to no request or to one that had a line already,
        are counted in the log and mean nothing.

        Args:
            contents: The output file, then the error file.
            asked: The keys of the requests in the batch.
        """
        seen: set[str] = set()
        ignored = 0
        for line in (line for content in contents for line in read_lines(content)):
            if line is None or line.key in seen or line.key not in asked:
                ignored += 1
                continue
            seen.add(line.key)
            yield line.key, self._outcome(line)
        if ignored:
            logger.warning(
                f"mmie-tasks: {ignored} lines of a batch's files were ignored: broken, twice there "
                "or of no request in it"
            )

    def _outcome(self, line: Line) -> Outcome | Complaint:
        if line.status != 200:
            return complaint(line.status or 0, line.body, self.secrets)
        try:
            return wire.outcome(line.body, model=self.model, price=self.price)
        except wire.UnusableBody as error:
            return JudgeUnavailable(f"{error}; {AGAIN}")


def error_of(said: Complaint) -> JudgeError:
    """What the failure of one request means; status 0 is a request that was never run."""
    if said.status in (400, 413, 422):
        kind = "a content filter" if said.of_content else "the server"
        return JudgeRefused(f"{kind} would not take the request: {said}")
    if said.status in (401, 403, 404) or said.of_quota:
        return JudgeMisconfigured(f"The batch ran into {said}.", hint="check key and model")
    where = f"the batch ended without it ({said.code})" if said.status == 0 else str(said)
    return JudgeUnavailable(f"{where}; {AGAIN}")


def error_of_setup(said: Complaint, address: str) -> JudgeMisconfigured:
    """What it means that the server will not have a batch at all."""
    message = f"The judge's server {address} will have no batch: {said}."
    match said.status:
        case 401 | 403:
            hint = "look at the key, and at what it may do"
        case 404 | 405 | 501:
            hint = "ask without `batch=true`: not every server has a Batch API"
        case _:
            hint = "look at the account's page, or ask without `batch=true`"
    return JudgeMisconfigured(message, hint=hint)
