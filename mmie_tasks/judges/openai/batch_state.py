"""What is remembered of batches while they run, so that nothing is paid for twice.

One small JSON file for each, written before anything is sent: it holds hashes of requests and the
provider's names for the batch and its files; no request, reply or key.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from loguru import logger

from mmie_tasks.sources.locks import turn

VERSION = 1
KEPT_S = 30 * 24 * 3600.0
"""After so long a provider has deleted the files of a batch, and there is nothing to go back to."""


def digest_of(signature: str, keys: Iterable[str]) -> str:
    """The same for the same requests of the same judge, in any order.

    >>> digest_of("judge:x", ["b", "a"]) == digest_of("judge:x", ["a", "b"])
    True
    """
    text = "\n".join([signature, *sorted(keys)])
    return hashlib.sha256(text.encode()).hexdigest()


def _nonce() -> str:
    return secrets.token_hex(8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A batch that was submitted, or was about to be.

    Attributes:
        digest: Of its requests; other processes and machines know the batch by it.
        keys: The content keys of its requests, in the order of the file.
        nonce: No other submission has it, so that a batch whose name was never heard can be found.
        begun_s: When, in seconds of the system's clock.
        input_file: The provider's name for the uploaded file, once there is one.
        batch: The provider's name for the batch, once there is one.
    """

    digest: str
    keys: tuple[str, ...]
    nonce: str = field(default_factory=_nonce)
    begun_s: float = field(default_factory=time.time)
    input_file: str | None = None
    batch: str | None = None

    def named(self, *, input_file: str | None = None, batch: str | None = None) -> Submission:
        """The same with what the provider calls it."""
        return replace(self, input_file=input_file or self.input_file, batch=batch or self.batch)


class Submissions:
    """The submissions to one server for one judge, in a folder that nobody else may read.

    Args:
        root: The folder of all of them.
        server: Its address, without credentials.
        signature: Of the judge.
    """

    def __init__(self, root: Path, *, server: str, signature: str) -> None:
        self._about = {"version": VERSION, "server": server, "signature": signature}
        name = hashlib.sha256(f"{server}\n{signature}".encode()).hexdigest()[:16]
        self.folder = root / name

    def prepared(self) -> AbstractContextManager[None]:
        """Only one process submits at a time.

        Raises:
            OSError: The folder cannot be made or written.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return turn(self.folder / ".lock", "submitting a batch")

    def known(self) -> list[Submission]:
        """All that are remembered, the oldest first; a file that cannot be read is left alone."""
        found = list(self._read())
        return sorted(found, key=lambda submission: submission.begun_s)

    def remember(self, submission: Submission) -> None:
        """Write it down, whole or not at all.

        Raises:
            OSError: The disk is full, or not ours.
        """
        path = self._path(submission)
        part = path.with_suffix(".part")
        text = json.dumps(self._about | asdict(submission))
        part.touch(mode=0o600)
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)

    def forget(self, submission: Submission) -> None:
        """It is over and its replies were handed on; or it never came to be."""
        self._path(submission).unlink(missing_ok=True)

    def settle(self, submission: Submission, keys: Collection[str]) -> None:
        """These of its requests were handed on; without others it is forgotten.

        Others are there where an earlier run asked for more: their replies are paid for.
        """
        try:
            known = parsed(self._path(submission).read_text(encoding="utf-8"))
            if left := tuple(key for key in known.keys if key not in keys):
                self.remember(replace(known, keys=left))
            else:
                self.forget(submission)
        except FileNotFoundError:
            return  # another process was faster
        except (OSError, ValueError) as error:
            # The replies are there. At worst they are fetched once more, for nothing.
            logger.warning(f"mmie-tasks: `{self._path(submission)}` cannot be updated: {error}")

    def new_file(self) -> Path:
        """A path for a file to upload. What a killed process left there is removed.

        Only for the one whose turn it is.
        """
        for left in self.folder.glob("*.jsonl"):
            left.unlink(missing_ok=True)
        path = self.folder / f"{_nonce()}.jsonl"
        path.touch(mode=0o600)
        return path

    def _path(self, submission: Submission) -> Path:
        return self.folder / f"{submission.digest[:16]}-{submission.nonce}.json"

    def _read(self) -> Iterator[Submission]:
        for path in self.folder.glob("*.json"):
            try:
                submission = parsed(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                continue  # another process has just finished with it
            except (OSError, ValueError) as error:
                logger.warning(f"mmie-tasks: `{path}` is no record of a batch, ignored: {error}")
                continue
            if time.time() - submission.begun_s < KEPT_S:
                yield submission
            else:
                path.unlink(missing_ok=True)


def parsed(text: str) -> Submission:
    """Read one file.

    Raises:
        ValueError: It is not what `Submissions.remember` writes.
    """
    match json.loads(text):
        case {
            "version": 1,
            "digest": str(digest),
            "keys": [*keys],
            "nonce": str(nonce),
            "begun_s": int() | float() as begun_s,
            "input_file": str() | None as input_file,
            "batch": str() | None as batch,
        } if all(isinstance(key, str) for key in keys):
            return Submission(
                digest=digest,
                keys=tuple(keys),
                nonce=nonce,
                begun_s=begun_s,
                input_file=input_file,
                batch=batch,
            )
        case _:
            raise ValueError("fields are missing or of another type")
