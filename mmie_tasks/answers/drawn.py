"""Answers of ``--model interleaved``: a writer's text with pictures drawn to it, and what could not
be used.

Such an answer is the JSON of an object with a key ``drawing``. Beside it stand the parts under
``content``; or, if no picture belongs to the answer (multi-step reasoning, a failure of the
writer's API, an answer with pictures of the writer's own), the writer's answer as it was, under
``answer``.

Until all pictures are drawn, the writer's texts are in a file (`WrittenTexts`), so that a run that
is killed does not write them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout
from loguru import logger

from mmie_tasks.core.messages import replace_surrogates

_MAX_CHARACTERS = 500  # of a signature
_NAME_CHARACTERS = 80  # of a reason and of what is unused
_MAX_COUNT = 10**6


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawingFacts:
    """How an answer was put together.

    Attributes:
        signature: Protocol and drawer: ``step-1,images,model=flux,size=512x512``. Without ``|``.
        drawn: Pictures in the answer.
        failed: Pictures that are not in the answer because they could not be drawn, by reason.
        unused: What the writer wrote and the protocol could not use, by name.
    """

    signature: str
    drawn: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)
    unused: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPicture:
    """A picture in an answer.

    Attributes:
        path: The image file.
        prompt: The words it was drawn to.
    """

    path: Path
    prompt: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnAnswer:
    """An answer of ``--model interleaved``.

    Attributes:
        answer: Texts and pictures in order, or the writer's answer as it was.
        facts: How it was put together.
    """

    answer: str | tuple[str | DrawnPicture, ...]
    facts: DrawingFacts


def write_drawn_answer(parts: Iterable[str | DrawnPicture], facts: DrawingFacts) -> str:
    r"""Write texts and pictures, in order, as an answer.

    >>> picture = DrawnPicture(path=Path("1.png"), prompt="scissors")
    >>> write_drawn_answer(["Cut.", picture], DrawingFacts(signature="s"))
    ... # doctest: +ELLIPSIS
    '{"content": [{"type": "text", "text": "Cut."}, {"type": "image", "path": "1.png", ...
    """
    content = [
        {"type": "image", "path": str(part.path), "prompt": part.prompt}
        if isinstance(part, DrawnPicture)
        else {"type": "text", "text": part}
        for part in parts
    ]
    return _written({"content": content, "drawing": asdict(facts)})


def write_undrawn_answer(answer: str, facts: DrawingFacts) -> str:
    """Write a writer's answer that no picture belongs to; `read_drawn_answer` returns it
    unchanged.
    """
    return _written({"answer": answer, "drawing": asdict(facts)})


def read_drawn_answer(text: str) -> DrawnAnswer | None:
    """Read an answer of ``--model interleaved``; None for any other text.

    The pictures are counted again.

    >>> read_drawn_answer(write_undrawn_answer("42", DrawingFacts(signature="step-1"))).answer
    '42'
    >>> read_drawn_answer('{"answer": "42"}') is None
    True
    """
    if not (text.startswith("{") and '"drawing"' in text):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    match value:
        case {"content": list() as content, "drawing": {"signature": str(signature), **rest}} if (
            len(value) == 2
        ):
            parts = tuple(map(_part, content))
            answer: str | tuple[str | DrawnPicture, ...] = tuple(
                part for part in parts if part is not None
            )
            if len(answer) < len(parts):
                return None
        case {"answer": str(answer), "drawing": {"signature": str(signature), **rest}} if (
            len(value) == 2
        ):
            pass
        case _:
            return None
    one_line = " ".join(replace_surrogates(signature).replace("|", " ").split())
    facts = DrawingFacts(
        signature=one_line[:_MAX_CHARACTERS],
        drawn=0
        if isinstance(answer, str)
        else sum(isinstance(part, DrawnPicture) for part in answer),
        failed=_counts(rest.get("failed")),
        unused=_counts(rest.get("unused")),
    )
    return DrawnAnswer(answer=answer, facts=facts)


def _part(value: object) -> str | DrawnPicture | None:
    """A part as `write_drawn_answer` writes it; None for any other value."""
    match value:
        case {"type": "text", "text": str(text), **rest} if not rest:
            return text
        case {"type": "image", "path": str(path), "prompt": str(prompt), **rest} if (
            not rest and path.strip()
        ):
            return DrawnPicture(path=Path(path), prompt=prompt)
    return None


def _written(answer: Mapping[str, object]) -> str:
    return replace_surrogates(json.dumps(answer, ensure_ascii=False))


def _counts(value: object) -> dict[str, int]:
    """Counts by name, of a file that may have been edited: cut to lengths and numbers that a log
    can take.
    """
    counts = value if isinstance(value, dict) else {}
    names = {
        replace_surrogates(str(name))[:_NAME_CHARACTERS]: count for name, count in counts.items()
    }
    return {
        name: min(count, _MAX_COUNT)
        for name, count in names.items()
        if type(count) is int and count > 0
    }


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
