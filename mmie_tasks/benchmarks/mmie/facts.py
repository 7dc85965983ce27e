"""What is counted about a request: images, tiles, and how long it is for the judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mmie_tasks.benchmarks.mmie.prompts import Assembled
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.benchmarks.mmie.scoring.metrics import Facts
from mmie_tasks.interleaved.checks import Checked
from mmie_tasks.interleaved.resolving import Piece
from mmie_tasks.judges.base import JudgeReply
from mmie_tasks.tiles import TOKENS_PER_TILE, tiles

_CHARACTERS_A_TOKEN = 4  # of English prose, about; only where nobody has counted
_MARKS_AN_IMAGE = 2  # tokens around the tiles of an image


def facts_of(
    sample: Sample,
    assembled: Assembled,
    shape: str,
    pieces: Sequence[Piece],
    looks: Mapping[str, Checked],
) -> Facts:
    """What is known of a request before anybody is asked.

    Args:
        sample: Of its question it is known which images are there.
        assembled: The request.
        shape: The answer's form.
        pieces: The answer, its images looked for.
        looks: What was seen of the files, as the request names them.
    """
    found = [piece.found for piece in pieces if piece.found]
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
