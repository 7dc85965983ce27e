"""The file of a writer's texts: a run that is killed before all pictures are drawn does not write
them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from loguru import logger


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenText:
    """The writer's output for one request.

    Attributes:
        text: The whole output.
        tokens: Numbers of tokens by name, as the runner counts them; None if the writer does not
            report them.
    """

    text: str
    tokens: Mapping[str, int] | None = None


class WrittenTexts:
    """The texts of one call of the writer, in a file of JSON lines named by a digest of writer,
    protocol and requests.

    Problems with the file are logged, and end no run.

    Args:
        folder: Created if missing.
        request_keys: One text for the writer and the protocol, then one for each request, in order.
    """

    def __init__(self, folder: Path, request_keys: Iterable[str]) -> None:
        digest = hashlib.sha256()
        for key in request_keys:
            content = key.encode(errors="surrogatepass")
            digest.update(b"%d\n" % len(content) + content)
        self._path = folder / f"{digest.hexdigest()[:32]}.jsonl"
        self._lock = FileLock(self._path.with_suffix(".lock"))
        self._is_usable = True

    def __enter__(self) -> WrittenTexts:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(timeout=0)
        except Timeout:
            self._give_up("another process is running the same evaluation")
        except OSError as error:
            self._give_up(f"{error.strerror or error}")
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def read(self) -> dict[int, WrittenText]:
        """The texts of an unfinished run, by the position of their request; empty if there is
        none.
        """
        texts: dict[int, WrittenText] = {}
        if not self._is_usable or not self._path.exists():
            return texts
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError as error:
            self._give_up(f"{error.strerror or error}")
            return texts
        for line in lines:
            try:
                entry = json.loads(line)
            except ValueError:  # the last line of a killed run
                continue
            match entry:
                case {
                    "position": int(position),
                    "text": str(text),
                    "tokens": dict() | None as tokens,
                }:
                    texts[position] = WrittenText(text=text, tokens=tokens)
        if texts:
            logger.warning(
                f"interleaved: {len(texts):,} answers were written by an earlier run that was not "
                "finished, and are used. To have them written again, delete "
                f"`{self._path}`."
            )
        return texts

    def add(self, texts: Mapping[int, WrittenText]) -> None:
        """Write texts to the file, by the position of their request."""
        if not self._is_usable or not texts:
            return
        lines = (
            json.dumps({"position": position, "text": written.text, "tokens": written.tokens})
            for position, written in texts.items()
        )
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(
                    "".join(f"\n{line}" for line in lines)
                )  # behind a broken line of a killed run
        except OSError as error:
            self._give_up(f"{error.strerror or error}")

    def delete(self) -> None:
        """Delete the file: the run is finished."""
        if self._is_usable:
            self._path.unlink(missing_ok=True)
            Path(self._lock.lock_file).unlink(missing_ok=True)

    def _give_up(self, reason: str) -> None:
        self._is_usable = False
        logger.warning(
            f"interleaved: what the writer writes cannot be saved in `{self._path.parent}` "
            f"({reason}): if this run is killed, it is written "
            "again."
        )
