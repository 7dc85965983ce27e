"""The calls of the Batch API. Every one may raise what `batch_retry` names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from mmie_tasks.judges.openai import clients
from mmie_tasks.judges.openai.batch_files import ENDPOINT
from mmie_tasks.judges.openai.batch_retry import BatchPace, Rejected, Trying
from mmie_tasks.judges.openai.batch_state import Submission
from mmie_tasks.judges.openai.batch_view import (
    DIGEST,
    NONCE,
    Batch,
    batch_of,
    mapping,
    name_of,
    sequence,
)
from mmie_tasks.judges.openai.settings import Settings, shown
from mmie_tasks.judges.openai.wire import parse

_PAGES = 10


class Provider:
    """The Batch API of one server."""

    def __init__(self, settings: Settings, pace: BatchPace) -> None:
        self._settings = settings
        self._pace = pace
        self.address = shown(settings.base_urls[0])
        self._trying = Trying(address=self.address, secrets=settings.secrets, pace=pace.tries)
        self._client = clients.client(settings, settings.base_urls[0], settings.timeout_s)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def upload(self, path: Path) -> str:
        """Upload a file, read from the disk as it is sent, and give the provider's name for it."""

        def call() -> str:
            with path.open("rb") as file:
                files = self._client.files.with_raw_response
                answer = files.create(file=("requests.jsonl", file), purpose="batch")
                return name_of(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s)

    def create(self, submission: Submission) -> Batch:
        """Make a batch of an uploaded file; never a second one where the first answer got lost."""
        marks = {DIGEST: submission.digest, NONCE: submission.nonce}

        def call() -> Batch:
            answer = self._client.batches.with_raw_response.create(
                completion_window="24h",
                endpoint=ENDPOINT,
                input_file_id=submission.input_file or "",
                metadata=marks,
            )
            return self._read(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s, lambda: self.find(submission))

    def look(self, name: str) -> Batch:
        """A batch as it is now."""

        def call() -> Batch:
            answer = self._client.batches.with_raw_response.retrieve(name)
            return self._read(parse(answer.content))

        return self._trying.tried(call, self._pace.patience_s)

    def content(self, file: str) -> bytes:
        """An output or error file: text only, so it is read in one piece."""

        def call() -> bytes:
            return bytes(self._client.files.with_raw_response.content(file).content)

        return self._trying.tried(call, self._pace.patience_s)

    def find(self, submission: Submission) -> Batch | None:
        """The batch of a submission whose answer was never heard, where there is one."""
        marked = (batch for batch in self._all() if batch.marks.get(NONCE) == submission.nonce)
        return next(marked, None)

    def running(self) -> dict[str, Batch]:
        """Every batch of ours that is not over, also of other machines, by its digest."""
        marked = ((batch.marks.get(DIGEST), batch) for batch in self._all() if not batch.over)
        return {digest: batch for digest, batch in marked if isinstance(digest, str)}

    def _all(self) -> Iterator[Batch]:
        """The newest thousand batches of the account; none at a server that cannot list them."""
        after: str | None = None
        for _ in range(_PAGES):
            try:
                page = self._page(after)
            except Rejected as rejected:
                if rejected.complaint.status in (404, 405, 501):
                    return
                raise
            batches = [self._read(found) for found in sequence(page.get("data"))]
            yield from batches
            if not batches or page.get("has_more") is not True:
                return
            after = batches[-1].name

    def _page(self, after: str | None) -> Mapping[str, object]:
        def call() -> Mapping[str, object]:
            batches = self._client.batches.with_raw_response
            answer = batches.list(limit=100, extra_query={"after": after} if after else None)
            return mapping(parse(answer.content))

        return self._trying.tried(call, self._settings.patience_s)

    def _read(self, said: object) -> Batch:
        return batch_of(said, self._settings.secrets)
