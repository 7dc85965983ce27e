"""From a sample and what a tested model said of it to what the judge is asked.

This is the part of the room that looks at files; the rules are in `prompts`.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mmie_tasks.answers.images import (
    ImageFile,
    ImageResolver,
    ResolvedSegment,
    check_image,
    resolve_images,
)
from mmie_tasks.answers.parsing import ParsedAnswer, parse_answer
from mmie_tasks.answers.saved import NOT_TEXT
from mmie_tasks.benchmarks.mmie import prompts
from mmie_tasks.benchmarks.mmie.judge_prompts import Templates, templates
from mmie_tasks.benchmarks.mmie.metrics import Facts
from mmie_tasks.benchmarks.mmie.prompts import Assembled
from mmie_tasks.benchmarks.mmie.sample import Sample, Segment
from mmie_tasks.core.errors import MmieTasksError, SettingWrong
from mmie_tasks.core.paths import cache_dir
from mmie_tasks.core.verdict import UnscoredReason
from mmie_tasks.judges.base import JudgeReply, JudgeRequest
from mmie_tasks.judges.mmie_score.images import TOKENS_PER_TILE, tiles

# What is counted about a request: images, tiles, and how long it is for the judge.

_CHARACTERS_A_TOKEN = 4  # of English prose, about; only where nobody has counted
_MARKS_AN_IMAGE = 2  # tokens around the tiles of an image


def facts_of(
    sample: Sample,
    assembled: Assembled,
    shape: str,
    pieces: Sequence[ResolvedSegment],
    looks: Mapping[str, ImageFile],
) -> Facts:
    """What is known of a request before anybody is asked.

    Args:
        sample: Of its question it is known which images are there.
        assembled: The request.
        shape: The answer's form.
        pieces: The answer, its images looked for.
        looks: What was seen of the files, as the request names them.
    """
    found = [piece.file for piece in pieces if piece.file]
    unusable = sum(each.problem in ("unreadable", "too_large") for each in found)
    absent = sum(segment.missing for segment in sample.question)
    shown = [image for image in assembled.images if not looks[image].problem]
    tiled = sum(tiles(*looks[image].size_px) for image in shown)
    text = sum(len(part) for part in assembled.parts if isinstance(part, str))
    tokens = tiled * TOKENS_PER_TILE + len(shown) * _MARKS_AN_IMAGE
    return Facts(
        dropped=assembled.left_out,
        missing_images=absent + sum(not each.path for each in found) - unusable,
        bad_images=sum(bool(look.problem) for look in looks.values()),
        truncated=bool(assembled.cut_images or assembled.cut_texts),
        typed=assembled.typed,
        judge_tokens=tokens + -(-text // _CHARACTERS_A_TOKEN),
        tiles=tiled,
        shown_images=len(shown),
        answer_images=len(found),
        shape=shape,
    )


def counted(facts: Facts, reply: JudgeReply | None, judge: str) -> Facts:
    """The facts with the tokens that the paper's judge has counted, if it was asked.

    Args:
        facts: With an estimate.
        reply: The judge's.
        judge: Its signature.
    """
    if reply is None or not judge.startswith("judge:mmie_score|") or not reply.usage.input_tokens:
        return facts
    return replace(facts, judge_tokens=reply.usage.input_tokens, judge_tokens_exact=True)


# What a user may set about MMIE's requests, and the words that the judge is told.

ASSEMBLY = "MMIE_ASSEMBLY"

_READ = ("MMIE_PROMPTS", "MMIE_OTHER_PROMPTS", "MMIE_PROMPTS_URL", "MMIE_TASKS_CACHE")


def check() -> None:
    """See that the official words can be had and the settings be obeyed, before a run.

    Raises:
        MmieTasksError: They cannot.
    """
    full_assembly(os.environ)
    judge_words()


def signature() -> str:
    """What the judge is shown: whose words, and how they are put together.

    Raises:
        MmieTasksError: As `check`.
    """
    assembly = "full" if full_assembly(os.environ) else "official"
    return f"prompt:{judge_words().name},max_tokens={prompts.MAX_TOKENS}|assembly:{assembly}"


def full_assembly(environment: Mapping[str, str]) -> bool:
    """Whether ``MMIE_ASSEMBLY`` asks for the text that the official assembly cuts.

    Raises:
        SettingWrong: It is neither ``official`` nor ``full``.
    """
    asked = environment.get(ASSEMBLY) or "official"
    if asked not in ("official", "full"):
        hint = f"`export {ASSEMBLY}=full` keeps the text that the official assembly cuts"
        raise SettingWrong(f"`{ASSEMBLY}` is {asked!r}, and can be official or full.", hint=hint)
    return asked == "full"


def judge_words() -> Templates:
    """The templates of this process's environment, read once.

    Raises:
        MmieTasksError: They cannot be had.
    """
    read_of = {name: os.environ[name] for name in _READ if name in os.environ}
    return _templates(str(cache_dir(os.environ)), tuple(sorted(read_of.items())))


@functools.lru_cache(maxsize=4)
def _templates(_cache: str, _read_of: tuple[tuple[str, str], ...]) -> Templates:
    return templates(os.environ)


OUTPUT_ROOT = "MMIE_OUTPUT_ROOT"

_NO_IMAGE = ("unreadable", "too_large")  # of files that are there
_LOGGED = 200  # characters of a reference that leads nowhere

_written_to: dict[Path, None] = {}  # folders that runs of this process write to


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the judge is asked about one answer, or why it is not asked.

    Attributes:
        request: None where the judge is not asked.
        reason: Why not.
        detail: Why not, in words.
        facts: What is known of the request and the answer.
        logged: The answer's segments as the log keeps them.
    """

    request: JudgeRequest | None = None
    reason: UnscoredReason = "no_answer"
    detail: str = ""
    facts: Facts
    logged: Sequence[Mapping[str, object]] = ()


def look_in(folder: Path) -> None:
    """Look for the images of answers also below a folder."""
    _written_to[folder.absolute()] = None


def question(sample: Sample) -> list[str | Path]:
    """What the tested model is asked: the question's text and images, in order.

    A line ends between a text and what follows or precedes it. An image that is not there is left
    out, as the judge's request has it.
    """
    pieces: list[str | Path] = []
    for segment in map(_looked_for, sample.question):
        image = None if segment.missing or segment.image is None else Path(segment.image)
        for piece in (segment.text or None, image):
            if piece is None:
                continue
            if pieces and (isinstance(piece, str) or isinstance(pieces[-1], str)):
                pieces.append("\n")
            pieces.append(piece)
    return pieces


def ask(sample: Sample, results: Sequence[object], task: str) -> Asked:
    """What the judge is asked about an answer. Never raises: a run's answers would be lost.

    Args:
        sample: What was asked.
        results: What the runner has of the tested model: one text, or one a round.
        task: Name of the task.
    """
    reading = _reading(results)
    if reading.failure:
        reason: UnscoredReason = "not_text" if reading.shape == "not text" else "no_answer"
        return Asked(reason=reason, detail=reading.failure, facts=Facts(shape=reading.shape))
    pieces = resolve_images(reading, _finder(), task, sample.index)
    try:
        return _asked(sample, reading, pieces)
    except MmieTasksError as error:  # the words are not there, and no check came before
        facts = Facts(shape=reading.shape)
        return Asked(reason="unavailable", detail=_first_line(error), facts=facts)


def _reading(results: Sequence[object]) -> ParsedAnswer:
    """The answer; of a saved one that is no text, its JSON."""
    match list(results):
        case [str(text)] if text.startswith(NOT_TEXT):
            said = text.removeprefix(NOT_TEXT).strip()
            if said == "[]":  # an answer without segments is judged, as official
                return ParsedAnswer(segments=(), shape="json:parts")
            found = parse_answer([said])
            if found.shape == "text":
                return ParsedAnswer(segments=(), shape="not text", failure=said[:80])
            return found
    return parse_answer(results, _finder().is_folder)


def _finder() -> ImageResolver:
    named = os.environ.get(OUTPUT_ROOT, "").split(os.pathsep)
    roots = [Path(), *(Path(each).expanduser() for each in named if each), *_written_to]
    return _finder_in(tuple(root.absolute() for root in roots), cache_dir(os.environ) / "answers")


@functools.lru_cache(maxsize=4)
def _finder_in(roots: tuple[Path, ...], keep: Path) -> ImageResolver:
    return ImageResolver(roots, keep)


def _asked(sample: Sample, reading: ParsedAnswer, pieces: Sequence[ResolvedSegment]) -> Asked:
    full = full_assembly(os.environ)
    template = judge_words().texts[sample.category]
    asked_of = replace(sample, question=tuple(map(_looked_for, sample.question)))
    answer = tuple(_segment(piece, full=full) for piece in pieces)
    assembled = prompts.assemble(asked_of, answer, template, full=full)
    looks = _looks(asked_of.question, pieces)
    reason, detail = _not_judged(assembled, looks)
    asked = Asked(
        request=JudgeRequest(parts=assembled.parts, max_tokens=prompts.MAX_TOKENS),
        facts=facts_of(asked_of, assembled, reading.shape, pieces, looks),
        logged=tuple(map(_as_logged, pieces)),
    )
    return not_to_judge(asked, reason, detail) if reason else asked


def not_to_judge(asked: Asked, reason: UnscoredReason, detail: str) -> Asked:
    """The same, but nothing is shown to the judge."""
    facts = replace(asked.facts, tiles=0, shown_images=0, judge_tokens=None)
    return replace(asked, request=None, reason=reason, detail=detail, facts=facts)


def _looked_for(segment: Segment) -> Segment:
    if segment.image is None:
        return segment
    return replace(segment, missing=not os.path.isfile(segment.image))  # noqa: PTH113 - 4x quicker


def _segment(piece: ResolvedSegment, *, full: bool) -> Segment:
    """As the assembly takes it. A file that is no image is there, for the official script.

    It ends when it opens that file; with ``full`` the file counts as one that is not there.
    """
    if piece.file is None:
        return Segment(piece.text)
    there = piece.file.path is not None or (not full and _named(piece) is not None)
    return Segment(piece.text, _named(piece) or piece.image, missing=not there)


def _named(piece: ResolvedSegment) -> str | None:
    """What the assembly calls the file of a piece; None where there is none, usable or not."""
    if piece.file is None or piece.image is None:
        return None
    if piece.file.path is not None:
        return str(piece.file.path)
    is_file = piece.file.problem in _NO_IMAGE and not piece.image.startswith("data:")
    return piece.image if is_file else None


def _looks(question: Iterable[Segment], pieces: Iterable[ResolvedSegment]) -> dict[str, ImageFile]:
    """What is seen of every file that is there, under the name that the assembly has for it.

    Those of the answer were looked at when they were found.
    """
    there = (segment.image for segment in question if segment.image and not segment.missing)
    looks = {image: check_image(Path(image)) for image in there}
    for piece in pieces:
        found, named = piece.file, _named(piece)
        if found is not None and named is not None:
            looks[named] = ImageFile(
                problem=found.problem, detail=found.detail, size_px=found.size_px
            )
    return looks


def _not_judged(
    assembled: Assembled, looks: Mapping[str, ImageFile]
) -> tuple[UnscoredReason | None, str]:
    """Why the judge is not asked; None where it is."""
    if assembled.left_out:
        return "left_out", f"{len(assembled.images)} images: the official script takes up to 4"
    if assembled.bad_gold:
        return "bad_gold", assembled.bad_gold
    broken = [looks[image].detail for image in assembled.images if looks[image].problem]
    return ("bad_image", broken[0]) if broken else (None, "")


def _as_logged(piece: ResolvedSegment) -> dict[str, object]:
    logged: dict[str, object] = {"text": piece.text, "image": None}
    if piece.file is not None and piece.image is not None:
        path = piece.file.path
        logged["image"] = str(path) if path else piece.image[:_LOGGED]
        if piece.file.problem:
            logged["problem"] = piece.file.problem
    return logged


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
