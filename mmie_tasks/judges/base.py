"""What every judge is: requests in, the judge's own words out.

* JudgeError
  + JudgeUnavailable    gave up after retries: no connection, timeout, 429, 5xx, unusable bodies
  + JudgeRefused        answered, and would not judge: content filter, refusal, no text
  + RequestBroken       the request itself cannot be sent: an image file that cannot be read
  + RequestUnfit        this judge cannot be shown it: too long, or with marks of the judge's own
  + OutOfBudget         was not asked: the spending limit was reached
  + JudgeMisconfigured  cannot answer as it is set up: no key, 401, unknown model, wrong option

The first five are about one sample. The last stops a run before it generates anything; when it
happens later (a key that is withdrawn), it leaves samples unscored like the others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from mmie_tasks.core.errors import MmieTasksError

MAX_IMAGE_BYTES = 64 * 1024 * 1024


class JudgeError(Exception):
    """A judge gave no reply."""


class JudgeUnavailable(JudgeError):
    """The judge did not answer within its retries."""


class JudgeRefused(JudgeError):
    """The judge answered, and would not judge."""


class RequestBroken(JudgeError):
    """The request cannot be sent: one of its files cannot be read."""


class RequestUnfit(JudgeError):
    """This judge cannot be shown the request: it is too long, or its text upsets the judge."""


class OutOfBudget(JudgeError):
    """The judge was not asked: what may be spent is spent."""


class JudgeMisconfigured(JudgeError, MmieTasksError):
    """The judge cannot answer as it is set up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRequest:
    """One thing to judge.

    Attributes:
        parts: Text, and paths of image files, in the order the judge reads them. Files are opened
            when the request is sent, not before, and go as the bytes they are.
        max_tokens: How long the reply may be, in tokens of the judge.
        attempt: 0, or 1 where the same thing is asked once more because the reply was impossible.
    """

    parts: tuple[str | Path, ...]
    max_tokens: int
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of one or more replies, and what they cost in US dollars; None where unknown."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0  # those of the output tokens that nobody sees
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeReply:
    """The judge's words.

    Attributes:
        text: All of them.
        model: Who said them, as the server named it: ``gpt-4o-2024-11-20``.
        usage: Tokens and money; of a cached reply, what it was when it was new.
        finish: ``length`` where the reply ran into ``max_tokens`` and is not whole.
        cached: It was not asked for now.
    """

    text: str
    model: str
    usage: Usage = field(default_factory=Usage)
    finish: Literal["stop", "length"] = "stop"
    cached: bool = False


Outcome: TypeAlias = JudgeReply | JudgeError


class Judge(Protocol):
    """Carries requests to a model. Knows a transport; knows no benchmark."""

    @property
    def signature(self) -> str:
        """Everything of the judge that can move a score, as ``key:value|key:value``.

        No address, key or limit: they move none, and replies are remembered under this.
        """
        ...

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give one outcome for each request, as they come, with the request's index."""
        ...


@runtime_checkable
class SelfChecking(Protocol):
    """A judge that can say beforehand whether it will work."""

    def check(self) -> None:
        """Return if the judge can be used: in seconds, for next to nothing.

        Raises:
            JudgeMisconfigured: It cannot; says why and what to do.
        """
        ...


@runtime_checkable
class InProcess(Protocol):
    """A judge whose model is computed in this process, and takes its memory."""

    def before_loading(self, call: Callable[[], object]) -> None:
        """Have something called right before the model is loaded: to make room for it."""
        ...

    def close(self) -> None:
        """Give the memory back. Who asks later has the model loaded again."""
        ...


def image_bytes(path: Path) -> bytes:
    """The bytes of an image file, as they are.

    Raises:
        RequestBroken: It cannot be read, is empty, or is larger than `MAX_IMAGE_BYTES`.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(size) if size <= MAX_IMAGE_BYTES else b""
    except OSError as error:
        raise RequestBroken(f"the image `{path}` cannot be read: {error.strerror}") from error
    if not data:
        limit = MAX_IMAGE_BYTES // 2**20
        raise RequestBroken(f"the image `{path}` is empty or larger than {limit} MiB")
    return data


def content_key(request: JudgeRequest) -> str:
    """The SHA-256, in hex, of what a request says: its parts' content, limit and attempt.

    An image counts with its bytes, not its path; so the key is the same on every machine.

    Raises:
        RequestBroken: An image cannot be read.
    """
    digest = hashlib.sha256(b"mmie-tasks request 1\n")
    for kind, content in _content(request.parts):
        digest.update(b"%s %d\n" % (kind, len(content)))  # so that "ab", "c" is not "a", "bc"
        digest.update(content)
    digest.update(b"max_tokens %d attempt %d" % (request.max_tokens, request.attempt))
    return digest.hexdigest()


def _content(parts: Iterable[str | Path]) -> Iterator[tuple[bytes, bytes]]:
    for part in parts:
        if isinstance(part, Path):
            yield b"image", image_bytes(part)
        else:
            yield b"text", part.encode(errors="surrogatepass")
