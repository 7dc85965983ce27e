"""Everything that the page shows of one sample when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import TypeAlias

from mmie_tasks.judges.base import JudgeReply
from mmie_tasks.report.joined import Row
from mmie_tasks.report.plain import Json, counted, cut, finite, plain
from mmie_tasks.report.thumbnails import Thumbnail, name_of
from mmie_tasks.review import READINGS, Reviewed, Segment
from mmie_tasks.verdict import Scored, Verdict

LookUp: TypeAlias = Callable[[str], Thumbnail]
"""From the file of an image to its thumbnail."""

MOST_IMAGES = 6
"""Of a question, a gold or an answer that are shown one by one."""

MOST_TEXT = 20_000
"""Characters of one segment."""

MOST_REPLY = 100_000
"""Characters of a judge's reply."""

SIGNATURE = 2_000
"""Characters of a signature."""

_MOST_SEGMENTS = 500
_MOST_TEXT_IN_ALL = 200_000  # characters of a question, a gold or an answer
_MOST_REPLIES = 10
_MOST_FACTS = 50
_WORDS = 500  # characters of a fact, a reading, a name or a problem


def detail(row: Row, signatures: Mapping[str, int], look_up: LookUp) -> Json:
    """A sample in every run.

    Args:
        row: The sample.
        signatures: Each signature of the task to its place in the payload.
        look_up: Gives the thumbnails.
    """
    question, gold = asked(row)
    return {
        "question": _shown(question, "the question", look_up),
        "gold": _shown(gold, "the gold answer", look_up),
        "runs": [None if each is None else _in_run(each, signatures, look_up) for each in row],
    }


def images_of(row: Row) -> list[str]:
    """The files of a sample that are shown, as often as they are shown."""
    answers = [sample.answer for sample in row if sample is not None]
    return [image for segments in (*asked(row), *answers) for image in _shown_images(segments)]


def asked(row: Row) -> tuple[Sequence[Segment], Sequence[Segment]]:
    """Question and gold, from the run whose log holds most of them; runs are asked the same."""
    samples = [sample for sample in row if sample is not None]
    return (
        max((sample.question for sample in samples), key=_wealth),
        max((sample.gold for sample in samples), key=_wealth),
    )


def _wealth(segments: Sequence[Segment]) -> tuple[int, bool]:
    return sum(_is_file(segment) for segment in segments), bool(segments)


def _is_file(segment: Segment) -> bool:
    return bool(segment.image) and not segment.problem


def _has_image(segment: Segment) -> bool:
    return bool(segment.image or segment.problem)


def _shown_images(segments: Sequence[Segment]) -> list[str]:
    """The files among the first `MOST_IMAGES` images."""
    first = islice(filter(_has_image, segments[:_MOST_SEGMENTS]), MOST_IMAGES)
    return [segment.image for segment in first if segment.image and not segment.problem]


def _shown(segments: Sequence[Segment], of: str, look_up: LookUp) -> list[Json]:
    """Texts and images in their order; where there are too many, words say how many."""
    pieces: list[Json] = []
    images = hidden = 0
    room = _MOST_TEXT_IN_ALL
    for segment in segments[:_MOST_SEGMENTS]:
        if segment.text:
            pieces += [
                *_more(hidden, "more image"),
                {"text": cut(segment.text, min(room, MOST_TEXT))},
            ]
            room -= min(len(segment.text), room)
            hidden = 0
        if _has_image(segment):
            images += 1
            if images <= MOST_IMAGES:
                pieces.append(_image(segment, f"image {images} of {of}", look_up))
            else:
                hidden += 1
    return [
        *pieces,
        *_more(hidden, "more image"),
        *_more(len(segments) - _MOST_SEGMENTS, "more part"),
    ]


def _more(count: int, what: str) -> list[Json]:
    note = f"and {counted(count, what)}"
    return [{"image": None, "alt": "", "note": note}] if count > 0 else []


def _image(segment: Segment, what: str, look_up: LookUp) -> Json:
    if segment.problem:
        written = f": {segment.image[:_WORDS]}" if segment.image else ""
        return {"image": None, "alt": what, "note": cut(f"{segment.problem}{written}", _WORDS)}
    file = segment.image or ""
    found = look_up(file)
    return {"image": found.address, "alt": f"{what}: {name_of(file)}", "note": found.note}


def _in_run(sample: Reviewed, signatures: Mapping[str, int], look_up: LookUp) -> Json:
    return {
        "answer": _shown(sample.answer, "the answer", look_up),
        "official": _verdict(sample.official),
        "robust": _verdict(sample.robust),
        "replies": [_reply(reply) for reply in sample.replies[-_MOST_REPLIES:]],
        "signature": signatures[sample.signature],
        "facts": _facts(sample.facts),
        "parts": {reading: _parts(sample.parts.get(reading, {})) for reading in READINGS},
    }


def _verdict(verdict: Verdict) -> Json:
    match verdict:
        case Scored(points=points, reading=reading):
            return {"points": finite(points), "reading": cut(reading, _WORDS)}
        case _:
            return {"unscored": plain(verdict.reason), "detail": cut(verdict.detail, _WORDS)}


def _reply(reply: JudgeReply) -> Json:
    return {
        "text": cut(reply.text, MOST_REPLY),
        "model": cut(reply.model, _WORDS),
        "finish": reply.finish,
        "cached": reply.cached,
        "input_tokens": reply.usage.input_tokens,
        "output_tokens": reply.usage.output_tokens,
        "cost_usd": finite(reply.usage.cost_usd),
    }


def _facts(facts: Mapping[str, str | float | bool]) -> Json:
    first = islice(facts.items(), _MOST_FACTS)
    return {cut(name, _WORDS): _fact(value) for name, value in first}


def _fact(value: str | float | bool) -> str | float | bool:
    if isinstance(value, bool):
        return value
    known = cut(value, _WORDS) if isinstance(value, str) else finite(value)
    return "n/a" if known is None else known


def _parts(parts: Mapping[str, float]) -> Json:
    known = ((name, finite(value)) for name, value in islice(parts.items(), _MOST_FACTS))
    return {cut(name, _WORDS): value for name, value in known if value is not None}
