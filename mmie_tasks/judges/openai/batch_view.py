"""What a provider says of a batch, put up with whatever is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mmie_tasks.judges.openai.complaints import Complaint, complaint
from mmie_tasks.judges.openai.wire import UnusableBody

DIGEST, NONCE = "mmie_tasks", "mmie_tasks_submission"
"""Under which names `Submission.digest` and `Submission.nonce` are written on a batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch as the provider describes it.

    Attributes:
        name: What the provider calls it.
        status: In its words; `over` says whether it will change again.
        output_file: The file with the replies, where there is one.
        error_file: The file with the failures, where there is one.
        completed: Requests that have a reply.
        failed: Requests that failed.
        complaint: Why the batch as a whole failed.
        marks: What we wrote on it.
    """

    name: str
    status: str
    output_file: str | None = None
    error_file: str | None = None
    completed: int = 0
    failed: int = 0
    complaint: Complaint
    marks: Mapping[str, object]

    @property
    def over(self) -> bool:
        """It will not change again."""
        return self.status in ("completed", "failed", "expired", "cancelled")


def batch_of(said: object, secrets: Sequence[str]) -> Batch:
    """Read a batch.

    Raises:
        UnusableBody: It has no name or no status.
    """
    fields = mapping(said)
    counts = mapping(fields.get("request_counts"))
    failures = sequence(mapping(fields.get("errors")).get("data"))
    status = _text(fields.get("status"))
    if status is None:
        raise UnusableBody("the server sent a batch without a status")
    return Batch(
        name=name_of(fields),
        status=status.lower(),
        output_file=_text(fields.get("output_file_id")),
        error_file=_text(fields.get("error_file_id")),
        completed=_number(counts.get("completed")),
        failed=_number(counts.get("failed")),
        complaint=complaint(0, next(iter(failures), {}), secrets),
        marks=mapping(fields.get("metadata")),
    )


def name_of(said: object) -> str:
    """The provider's name for a file or batch.

    Raises:
        UnusableBody: There is none.
    """
    name = _text(mapping(said).get("id"))
    if name is None:
        raise UnusableBody("the server sent JSON without an `id`")
    return name


def mapping(value: object) -> Mapping[str, object]:
    """A JSON object; an empty one where it is something else."""
    return value if isinstance(value, dict) else {}


def sequence(value: object) -> list[object]:
    """A JSON array; an empty one where it is something else."""
    return value if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
