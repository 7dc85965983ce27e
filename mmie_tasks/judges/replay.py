"""A judge that replays recorded replies and sends no requests.

It serves tests, examples and audits, and scores an old run's replies with a newer reader. A
recording is a cache file, or a JSONL file from ``mmie-tasks cache export``.
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
    Judge,
    JudgeOptions,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.cache_export import read_recording
from mmie_tasks.judges.cache_path import default_path
from mmie_tasks.judges.cache_store import CachedReply
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply
from mmie_tasks.record.signature import Signature, signature_text


class ReplayOptions(JudgeOptions):
    """The options of the judge `replay`.

    Attributes:
        path: The recording, or several joined by ``;``; by default, the default cache.
        signature: Signature of the judge to replay, or a part of it that no other judge has.
        model: Model to replay, as named in the replies or in the signature.
    """

    path: str | None = None
    signature: str | None = None
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recording:
    """The recorded judge's signature, and its replies by the request's key."""

    signature: str
    replies: Mapping[str, JudgeReply]


class ReplayJudge(Judge):
    """Replays recorded replies. Recordings are read once, when they are first needed."""

    Options = ReplayOptions
    is_cached = False

    def __init__(
        self, *recordings: Path, signature: str | None = None, model: str | None = None
    ) -> None:
        self._recordings = recordings
        self._signature = signature
        self._model = model

    @classmethod
    def open(cls, options: ReplayOptions, environment: Mapping[str, str]) -> ReplayJudge:
        """Create the judge; reads no recording yet.

        Raises:
            SettingWrong: A recording does not exist.
        """
        names = (name.strip() for name in (options.path or "").split(";"))
        paths = [Path(name).expanduser() for name in names if name]
        recordings = paths or [default_path(environment)]
        for recording in recordings:
            if not recording.is_file():
                raise SettingWrong(
                    f"There is no recording `{recording}` to replay.",
                    hint="name a cache file or a JSONL: `replay:path=FILE`, or "
                    "`replay:path=ONE;OTHER`",
                )
        return cls(*recordings, signature=options.signature, model=options.model)

    @property
    def signature(self) -> str:
        """The recorded judge's signature, and a digest of the recording as ``replayed``.

        The digest is the first 12 hex digits of the SHA-256 of all that can move a score: the
        request key, text and finish of every reply. Raises the same errors as `check`.
        """
        recording = self._recording
        digest = hashlib.sha256()
        for request_key, reply in sorted(recording.replies.items()):
            digest.update(json.dumps([request_key, reply.text, reply.finish]).encode() + b"\n")
        recorded = str(Signature.of_judges([recording.signature]).without("servers"))
        return signature_text(recorded, replayed=digest.hexdigest()[:12])

    def check(self, max_images: int = 0) -> None:  # noqa: ARG002 - as `Judge.check`
        """Read the recording.

        Raises:
            SettingWrong: The recording cannot be read, or not exactly one judge matches.
            DataBroken: The file is not a recording, or has two different replies to one request.
        """
        _ = self._recording

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the recorded replies, and `JudgeUnavailable` for requests without one."""
        replies = self._recording.replies
        for index, request in enumerate(requests):
            try:
                reply = replies.get(content_key(request))
            except RequestBroken as error:
                yield index, error
                continue
            if reply is None:
                names = ", ".join(recording.name for recording in self._recordings)
                yield index, JudgeUnavailable(f"the request is not in the recording `{names}`")
            else:
                yield index, reply

    @cached_property
    def _recording(self) -> _Recording:
        path = "; ".join(map(str, self._recordings))
        signature = self._select(
            Counter((cached.signature, cached.reply.model) for cached in self._read()), path
        )
        replies: dict[str, JudgeReply] = {}
        for cached in self._read(signature):
            if not self._matches(signature, cached.reply.model):
                continue
            reply = replace(cached.reply, cached=True)
            if replies.setdefault(cached.request_key, reply).text != reply.text:
                raise DataBroken(
                    f"`{path}` holds two different replies to the request {cached.request_key}.",
                    hint="remove one of them",
                )
        return _Recording(signature=signature, replies=replies)

    def _read(self, signature: str | None = None) -> Iterator[CachedReply]:
        for path in self._recordings:
            yield from read_recording(path, signature)

    def _matches(self, signature: str, model: str) -> bool:
        return (
            self._model in (None, model)
            or Signature.of_judges([signature]).fields.get("model") == self._model
        )

    def _select(self, counts: Mapping[tuple[str, str], int], path: str) -> str:
        """The only matching signature among the counts of replies by signature and model."""
        signatures = {signature for signature, model in counts if self._matches(signature, model)}
        if (part := self._signature) is not None:
            signatures = (signatures & {part}) or {
                signature for signature in signatures if part in signature
            }
        if len(signatures) == 1:
            return signatures.pop()
        listed = "\n".join(
            f"  {signature} ({model}: {count:,})"
            for (signature, model), count in sorted(counts.items())
            if not signatures or signature in signatures
        )
        content = "replies of several judges" if signatures else "no replies of the selected judge"
        raise SettingWrong(
            f"The recording `{path}` has {content}. Its judges are:\n{listed or '  none'}",
            hint="select one with `signature=...` (a part of it is enough) or `model=...`",
        )
