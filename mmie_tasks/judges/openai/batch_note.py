"""The note of a judge's batches, so that a run finds the batches of an interrupted one.

There is one JSON file per judge and server. It holds hashes of requests and the provider's names of
batches; no request, reply or API key.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.files import atomic_write, file_lock

_RETENTION_S = 30 * 24 * 3600.0  # after that, providers have deleted a batch and its files


@dataclass(slots=True, kw_only=True)
class Submission:
    """A batch that was created, or was about to be.

    Attributes:
        keys: The content keys of the requests whose replies were not taken yet.
        nonce: Metadata of the batch, which finds it even if its name never arrived.
        begun_s: Time of the submission, in seconds since 1970.
        batch: The provider's name of the batch, if known.
    """

    keys: tuple[str, ...]
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    begun_s: float = field(default_factory=time.time)
    batch: str | None = None


_ENTRIES = TypeAdapter(list[Submission])


class BatchNote:
    """The note of one judge on one server, in a folder that only its owner may read."""

    def __init__(self, folder: Path, *, server: str, signature: str) -> None:
        digest = hashlib.sha256(f"{server}\n{signature}".encode()).hexdigest()[:16]
        self.path = folder / f"{digest}.json"

    def lock(self) -> AbstractContextManager[None]:
        """Let one process at a time submit batches and change the note.

        Raises:
            OSError: The folder cannot be created or written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        return file_lock(self.path.with_suffix(".lock"), "submitting a batch")

    def load(self) -> list[Submission]:
        """The entries that have not expired, oldest first; call it under `lock`.

        Raises:
            DataBroken: The file was not written by `put`.
        """
        if not self.path.exists():
            return []
        try:
            entries = _ENTRIES.validate_json(self.path.read_bytes(), strict=True)
        except ValueError as error:
            raise DataBroken(
                f"`{self.path}`, the note of batches that may be running, cannot be read.",
                hint="delete it; batches that are running are then not waited for",
            ) from error
        return [entry for entry in entries if time.time() - entry.begun_s < _RETENTION_S]

    def put(self, submission: Submission) -> None:
        """Write an entry over one with the same nonce; call it under `lock`.

        An entry without keys is removed, because all its replies were taken.
        """
        others = [entry for entry in self.load() if entry.nonce != submission.nonce]
        if not (entries := [entry for entry in (*others, submission) if entry.keys]):
            self.path.unlink(missing_ok=True)
            return
        with atomic_write(self.path) as part:
            part.write_bytes(_ENTRIES.dump_json(entries))

    def remove(self, submission: Submission, keys: Collection[str]) -> None:
        """Remove requests from an entry; call it under `lock`.

        Requests of an earlier run stay, because their replies are paid for.
        """
        for entry in self.load():
            if entry.nonce == submission.nonce:
                self.put(replace(entry, keys=tuple(key for key in entry.keys if key not in keys)))
