"""A judge that replays recorded replies and sends no requests.

It serves tests, examples and audits, and scores an old run's replies with a newer reader. A
recording is a cache file, or a JSONL file from ``mmie-tasks cache export``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from mmie_tasks.core.errors import DataBroken, SettingWrong
from mmie_tasks.core.log import warn
from mmie_tasks.judges.base import (
    Judge,
    JudgeOptions,
    JudgeRequest,
    JudgeUnavailable,
    Outcome,
    RequestBroken,
)
from mmie_tasks.judges.cache_file import default_path, read_recording
from mmie_tasks.judges.content import content_key
from mmie_tasks.record.reply import JudgeReply


class ReplayOptions(JudgeOptions):
    """The options of the judge `replay`.

    Attributes:
        path: The recording; by default the default cache.
        signature: Signature of the judge to replay, or a part of it.
    """

    path: str | None = None
    signature: str = ""


@dataclass(kw_only=True)
class _RecordedJudge:
    """A recorded judge: the text of its signature, and its replies by the request's key."""

    signature: str
    replies: dict[str, JudgeReply] = field(default_factory=dict)
    newest_s: int = 0  # when its newest reply arrived

    @cached_property
    def fields(self) -> Mapping[str, object]:
        """The pairs of the key in the cache, and a digest of all that can move a score.

        The digest is the first 12 hex digits of the SHA-256 of the request key, text and finish of
        every reply. A server's port is in the key of a cache, not in the signature of its judge.
        """
        digest = hashlib.sha256()
        for request_key, reply in sorted(self.replies.items()):
            digest.update(json.dumps([request_key, reply.text, reply.finish]).encode() + b"\n")
        pairs = (pair.partition(":") for pair in filter(None, self.signature.split("|")))
        judge = {key: value for key, _, value in pairs if key != "servers"}
        return {**judge, "replayed": digest.hexdigest()[:12]}


class ReplayJudge(Judge):
    """Replays recorded replies. The recording is read once, when it is first needed.

    Of several recorded judges, the newest one that has a reply to every request of the first `ask`
    is replayed; if none has, the one with most. It stays the judge of later calls, so each
    benchmark needs an object of its own. Until then the signature is that of the newest.
    """

    Options = ReplayOptions
    is_cached = False

    def __init__(self, recording: Path, *, signature: str = "") -> None:
        self._path = recording
        self._part = signature
        self._chosen: _RecordedJudge | None = None

    @classmethod
    def open(cls, options: ReplayOptions, environment: Mapping[str, str]) -> ReplayJudge:
        """Create the judge; reads no recording yet.

        Raises:
            SettingWrong: The recording does not exist.
        """
        recording = Path(options.path).expanduser() if options.path else default_path(environment)
        if not recording.is_file():
            raise SettingWrong(
                f"There is no recording `{recording}` to replay.",
                hint="name a cache file, or a JSONL of `mmie-tasks cache export`: "
                "`replay:path=FILE`",
            )
        return cls(recording, signature=options.signature)

    @property
    def signature(self) -> Mapping[str, object]:
        """The recorded judge's signature, and a digest of its replies as ``replayed``.

        Raises the same errors as `check`.
        """
        return (self._chosen or self._judges[0]).fields

    def check(self, max_images: int = 0) -> None:  # noqa: ARG002 - as `Judge.check`
        """Read the recording; a warning lists its judges if there are several.

        Raises:
            SettingWrong: The recording cannot be read, or no judge has the signature.
            DataBroken: The file is not a recording, or has two different replies to one request.
        """
        if len(self._judges) > 1:
            warn(
                f"The recording `{self._path}` has replies of {len(self._judges)} judges. The "
                "first of these that has all requests is replayed, the newest first:\n"
                f"{_listed(self._judges)}\n",
                hint="`signature=...`, with a part of one of them, replays that judge",
            )

    def ask(self, requests: Sequence[JudgeRequest]) -> Iterator[tuple[int, Outcome]]:
        """Yield the recorded replies, and `JudgeUnavailable` for requests without one."""
        keys: dict[int, str] = {}
        for index, request in enumerate(requests):
            try:
                keys[index] = content_key(request)
            except RequestBroken as error:  # noqa: PERF203 - concerns one request
                yield index, error
        if self._chosen is None:
            requested = set(keys.values())
            counts = [len(requested & judge.replies.keys()) for judge in self._judges]
            self._chosen = self._judges[counts.index(max(counts))]
        for index, key in keys.items():
            reason = f"the request is not in the recording `{self._path.name}`"
            yield index, self._chosen.replies.get(key) or JudgeUnavailable(reason)

    @cached_property
    def _judges(self) -> Sequence[_RecordedJudge]:
        """The recorded judges that match, the newest first; at least one."""
        judges: dict[str, _RecordedJudge] = {}
        for cached in read_recording(self._path):
            judge = judges.setdefault(cached.signature, _RecordedJudge(signature=cached.signature))
            judge.newest_s = max(judge.newest_s, cached.time_s)
            reply = replace(cached.reply, cached=True)
            if judge.replies.setdefault(cached.request_key, reply).text != reply.text:
                raise DataBroken(
                    f"`{self._path}` holds two different replies to the request "
                    f"{cached.request_key}.",
                    hint="remove one of them",
                )
        whole = [judges[self._part]] if self._part in judges else judges.values()
        matching = [judge for judge in whole if self._part in judge.signature]
        if not matching:
            raise SettingWrong(
                f"The recording `{self._path}` has no replies of the selected judge. Its judges "
                f"are:\n{_listed(judges.values()) or '  none'}",
                hint="select one with `signature=...`; a part of it is enough",
            )
        return sorted(matching, key=lambda judge: judge.newest_s, reverse=True)


def _listed(judges: Iterable[_RecordedJudge]) -> str:
    return "\n".join(f"  {judge.signature} ({len(judge.replies):,} replies)" for judge in judges)
