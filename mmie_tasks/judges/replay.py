"""A judge that says again what another one said, and asks nobody.

For tests and examples, for audits, and to read an old run with a better reader. Its recording is a
cache file, or a JSONL that ``mmie-tasks cache export`` wrote.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.judges.base import (
    JudgeReply,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
    content_key,
)
from mmie_tasks.judges.cache_store import (
    HEADER,
    READ_HINT,
    CacheFile,
    Recorded,
    default_path,
    explained,
    read_records,
)


def open_judge(
    *,
    environment: Mapping[str, str],
    path: str | None = None,
    signature: str | None = None,
    model: str | None = None,
) -> ReplayJudge:
    """A judge that answers from a recording only.

    Args:
        environment: Where the usual cache is.
        path: The recording: a cache file or a JSONL, or several joined by ``;``; without it, the
            usual cache.
        signature: Of the judge to replay, or a part of it that no other has.
        model: The model to replay, as it named itself or as it was asked for.

    Raises:
        SettingWrong: There is no such file.
    """
    named = [Path(each.strip()).expanduser() for each in (path or "").split(";") if each.strip()]
    recordings = named or [default_path(environment)]
    for recording in recordings:
        if not recording.is_file():
            raise SettingWrong(
                f"There is no recording `{recording}` to replay.",
                hint="name a cache file or a JSONL: `replay:path=FILE`, or `replay:path=ONE;OTHER`",
            )
    return ReplayJudge(*recordings, signature=signature, model=model)


class ReplayJudge:
    """Says what the recordings hold. They are read whole, once, when they are first needed."""

    def __init__(
        self, *recordings: Path, signature: str | None = None, model: str | None = None
    ) -> None:
        self._recordings = recordings
        self._wanted = _Wanted(signature=signature, model=model)

    @property
    def signature(self) -> str:
        """The recorded judge's, and after ``replayed`` which replies these are.

        Twelve hexadecimal digits of a SHA-256 of every reply that can be given, and to what.

        Raises:
            SettingWrong: As `check`.
            DataBroken: As `check`.
        """
        return f"{self._loaded.signature}|replayed:{self._loaded.digest()}"

    def check(self) -> None:
        """Read the recording.

        Raises:
            SettingWrong: It cannot be read, or not exactly one judge in it is the wanted one.
            DataBroken: It is not a recording, or holds two replies to the same request.
        """
        _ = self._loaded

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Give the recorded replies; a request that is not in the recording is unavailable."""
        replies = self._loaded.replies
        for index, request in enumerate(requests):
            try:
                reply = replies.get(content_key(request))
            except RequestBroken as error:
                yield index, error
                continue
            if reply is None:
                name = ", ".join(recording.name for recording in self._recordings)
                yield index, JudgeUnavailable(f"the request is not in the recording `{name}`")
            else:
                yield index, reply

    @cached_property
    def _loaded(self) -> _Replayed:
        path = "; ".join(map(str, self._recordings))
        voices = Counter((each.signature, each.reply.model) for each in self._recorded())
        signature = self._wanted.chosen(voices, path)
        replies: dict[str, JudgeReply] = {}
        for each in self._recorded(signature):
            if not self._wanted.suits(signature, each.reply.model):
                continue
            reply = replace(each.reply, cached=True)
            if replies.setdefault(each.request, reply).text != reply.text:
                message = f"`{path}` holds two different replies to the request {each.request}."
                raise DataBroken(message, hint="take one of them out")
        return _Replayed(signature=signature, replies=replies)

    def _recorded(self, signature: str | None = None) -> Iterator[Recorded]:
        for recording in self._recordings:
            yield from recorded(recording, signature)


def recorded(path: Path, signature: str | None = None) -> Iterator[Recorded]:
    """Every reply in a recording, or every reply of one judge.

    Whether it is a cache file or a JSONL is seen from how it begins, not from its name.

    Raises:
        DataBroken: It is neither, or damaged.
        SettingWrong: It cannot be read.
    """
    with explained(path, READ_HINT):
        with path.open("rb") as file:
            is_cache = file.read(len(HEADER)) == HEADER
        if is_cache:
            with CacheFile(path).opened_to_read() as replies:
                yield from replies.each(signature)
        else:
            records = read_records(path)
            yield from (each for each in records if signature in (None, each.signature))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Replayed:
    """What is replayed: the recorded judge's signature, and its replies by request."""

    signature: str
    replies: Mapping[str, JudgeReply]

    def digest(self) -> str:
        """Twelve hexadecimal digits for what can move a score: each request, text and ending."""
        digest = hashlib.sha256()
        for request, reply in sorted(self.replies.items()):
            digest.update(json.dumps([request, reply.text, reply.finish]).encode() + b"\n")
        return digest.hexdigest()[:12]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Which of the judges in a recording is meant."""

    signature: str | None
    model: str | None

    def suits(self, signature: str, model: str) -> bool:
        """Whether replies of this model, asked under this signature, are of the model meant."""
        named = (model, *(part.removeprefix("model:") for part in _models(signature)))
        return self.model is None or self.model in named

    def chosen(self, voices: Mapping[tuple[str, str], int], path: str) -> str:
        """The one signature that is meant, of the signatures and models there are.

        Raises:
            SettingWrong: It is none, or more than one; lists them.
        """
        found = {signature for signature, model in voices if self.suits(signature, model)}
        if (part := self.signature) is not None:
            found = found & {part} or {signature for signature in found if part in signature}
        if len(found) == 1:
            return found.pop()
        listed = "\n".join(
            f"  {signature} ({model}: {count:,})"
            for (signature, model), count in sorted(voices.items())
            if not found or signature in found
        )
        what = "replies of several judges" if found else "no replies of the judge that is meant"
        raise SettingWrong(
            f"The recording `{path}` has {what}. There are:\n{listed or '  none'}",
            hint="choose one with `signature=...` (a part of it is enough) or `model=...`",
        )


def _models(signature: str) -> list[str]:
    return [part for part in signature.split("|") if part.startswith("model:")]
