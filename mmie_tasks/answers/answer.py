"""Reads what the tested model returned as ordered segments of text and images.

A text is taken unchanged unless it has one of the forms that ``README.md`` lists. The runner has
unwrapped it before (``unwrap_generation_output`` in ``lmms_eval/api/instance.py``, version 0.7.3).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from mmie_tasks.answers.drawn import DrawingFacts, json_text, read_drawn_answer
from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.placeholders import ImageSpan, interleave, split_at_images
from mmie_tasks.answers.thinking import strip_thinking, without_thinking
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.record.segment import Segment, Segments

AnswerShape: TypeAlias = Literal["text", "markdown", "parts", "text+images", "rounds", "no answer"]

_NAME_CHARACTERS = 40  # of a key or type in counts
_REFERENCE_CHARACTERS = 200  # of an image in another form
_IMAGE_KEYS = ("images", "image")
_THINKING_PARTS = ("thinking", "redacted_thinking", "reasoning")
_SUFFIX = r"\.(?:png|jpe?g|webp|gif|bmp|tiff?|avif)"
_DATA_URI = r"data:image/[\w.+-]{1,20};base64,[A-Za-z0-9+/]{20,}={0,2}"
# Outside code: `![a fox](out/1.png)`, `![](<a fox.png> "title")`, and a bare data URI.
_MARKDOWN = re.compile(
    rf"""```.*?``` | `[^`\n]*`
    | !\[[^\]\n]{{0,300}}\]\(\s*
      (?: <(?P<quoted>[^<>\n]{{1,1024}}{_SUFFIX})>
        | (?P<bare>[^\s()]{{1,1024}}{_SUFFIX}|{_DATA_URI}) )
      (?:\s+"[^"\n]{{0,300}}")?\s*\)
    | (?P<uri>{_DATA_URI})""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
# A text that begins as JSON or as what Python prints of an object, that ends with the path of an
# image, or that has an image of HTML or markdown or the data of one.
_LOOKS_UNREAD = re.compile(
    rf"\s*(?:```\w{{0,20}}\s+)?[\[{{(]\s*[\[{{]?\s*[\"'] | (?:.*\s)?\S{{1,1024}}{_SUFFIX}\s*\Z"
    r" | .*?(?:<img\s | !\[[^\]\n]{0,300}\]\( | data:image/)",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An answer as segments, or the reason why there is none.

    Attributes:
        segments: In order; empty without an answer, and for an answer without content.
        shape: The form in which it was written.
        failure: Why there is no answer, in words; empty if there is one.
        thinking: Whether thinking was removed.
        unfilled: Number of placeholders without an image, which stay in the text: all of them in
            an answer without images.
        unplaced: Number of images at the end, for which the text has no place.
        unread: Type or key to the number of texts and images under it that were not read.
        drawing: How an answer with drawn images was put together; None for others.
    """

    segments: Segments = ()
    shape: AnswerShape
    failure: str = ""
    thinking: bool = False
    unfilled: int = 0
    unplaced: int = 0
    unread: Mapping[str, int] = field(default_factory=dict)
    drawing: DrawingFacts | None = None

    @property
    def text(self) -> str:
        """All texts, one per line."""
        return "\n".join(segment.text for segment in self.segments if segment.text)

    @property
    def images(self) -> tuple[str, ...]:
        """The references of all images, in order."""
        return tuple(segment.image for segment in self.segments if segment.image)

    @property
    def looks_unread(self) -> bool:
        """Whether a text looks like JSON or like the reference of an image, and was not read so."""
        return any(_LOOKS_UNREAD.match(segment.text or "") for segment in self.segments)


def read_answer(results: Sequence[object]) -> Answer:
    """Read the results that lmms-eval passes to ``process_results``: one text, or one per round.

    Never raises. Of several rounds, those that failed are counted as unread.

    >>> answer = read_answer(['{"text": "Cut. <image> Fold.", "images": ["a.png"]}'])
    >>> [segment.text or segment.image for segment in answer.segments]
    ['Cut.', 'a.png', 'Fold.']
    """
    rounds = list(results)
    if len(rounds) == 1 and isinstance(rounds[0], list):
        rounds = rounds[0]
    answers = [_with_placeholders(_read_round(result)) for result in rounds]
    answered = [answer for answer in answers if not answer.failure]
    if len(answers) == 1 or not answered:
        return answers[0] if answers else Answer(shape="no answer", failure="no result")
    failed = Counter(f"round: {answer.failure}" for answer in answers if answer.failure)
    return Answer(
        segments=tuple(segment for answer in answered for segment in answer.segments),
        shape="rounds",
        thinking=any(answer.thinking for answer in answered),
        unfilled=sum(answer.unfilled for answer in answered),
        unplaced=sum(answer.unplaced for answer in answered),
        unread=sum((Counter(answer.unread) for answer in answered), failed),
    )


def _with_placeholders(answer: Answer) -> Answer:
    """The answer; without images, all placeholders in its texts are unfilled."""
    if answer.images:
        return answer
    texts = (segment.text or "" for segment in answer.segments)
    return replace(answer, unfilled=sum(interleave(text, ()).unfilled for text in texts))


def _read_round(result: object) -> Answer:
    if not isinstance(result, str):
        return Answer(shape="no answer", failure="null" if result is None else "not text")
    text = replace_surrogates(result)
    if drawn := read_drawn_answer(text):
        if isinstance(drawn.answer, str):  # the writer's own answer
            return replace(_read_round(drawn.answer), drawing=drawn.facts)
        segments = without_thinking(drawn.answer)
        thinking = segments != drawn.answer
        return Answer(segments=segments, shape="parts", thinking=thinking, drawing=drawn.facts)
    if failure := failure_of(text):
        return Answer(shape="no answer", failure=failure)
    # First as it is: thinking in a text of the JSON must not cut the JSON.
    if answer := _read_json(text):
        return answer
    stripped = strip_thinking(text)
    answer = _read_json(stripped) or _read_markdown(stripped)
    return replace(answer, thinking=True) if stripped != text else answer


def _read_json(text: str) -> Answer | None:
    """The answer in the JSON of an object or of a list of parts; None for other texts."""
    value: object = None
    answer: Answer | None
    if text.lstrip().startswith(("{", "[")):
        with suppress(ValueError, RecursionError):
            value = json.loads(text)
    match value:
        case {"text": str() | None as content, "images": [*images], **others} if _are_texts(images):
            answer = _read_text_and_images(content or "", images, others)
        case {"text": str(content), "images": None, **others}:
            answer = _read_text_and_images(content, [], others)
        case {"role": "assistant", "content": str(content)}:
            answer = _read_round(content)
        case {"content": [*parts], **others}:
            answer = _read_parts(parts, others)
        case [*parts]:
            answer = _read_parts(parts, {})
        case {"images": [*images], **others} if not others and _are_texts(images):
            answer = _read_text_and_images("", images, {})
        case {"text": str(content), "image": str() | None as image, **others}:
            answer = replace(_read_text_and_images(content, [image or ""], others), unplaced=0)
        case _:
            return None
    if answer and answer.segments and (failure := failure_of(answer.segments[0].text or "")):
        return Answer(shape=answer.shape, failure=failure)
    return answer


def _read_text_and_images(
    text: str, images: Sequence[str], others: Mapping[object, object]
) -> Answer:
    """The answer ``{"text", "images"}``: the images are put at the placeholders of the text."""
    text = replace_surrogates(text)
    stripped = strip_thinking(text)
    read = interleave(stripped, [replace_surrogates(image) for image in images])
    return Answer(
        segments=(*read.segments, *_images_elsewhere(others)),
        shape="text+images",
        thinking=stripped != text,
        unfilled=read.unfilled,
        unplaced=read.unplaced,
        unread=_unread(others),
    )


def _read_parts(parts: Sequence[object], beside: Mapping[object, object]) -> Answer | None:
    """The answer in a list of parts; None unless all are parts of a form in ``README.md``.

    The official ``dataset.py`` (Lillianwei-h/MMIE at eb0fd6e) reads ``text`` and ``image`` of a
    part and ignores further keys: they are counted. An image of another form is a reference to
    nothing, so that it is missing.
    """
    segments: list[Segment] = []
    unread: Counter[str] = Counter()
    for part in parts:
        segment = _segment(part)
        if segment is None or not isinstance(part, Mapping):
            return None
        kind = part["type"] if isinstance(part.get("type"), str) else ""
        if kind and segment == Segment():
            unread[_name(kind)] += 1
            continue
        keys = {"type", "text", "path", "image_url"} if kind else {"text", "image"}
        if kind and segment.image:
            keys |= {"image", "url"}
        further = {key: value for key, value in part.items() if key not in keys}
        segments += [segment, *([] if kind and segment.image else _images_elsewhere(further))]
        unread += _unread(further)
    segments += _images_elsewhere(beside)
    if parts and not segments:
        return None
    shown = without_thinking(segments)
    thinking = shown != tuple(segments) or any(unread.pop(kind, 0) for kind in _THINKING_PARTS)
    return Answer(segments=shown, shape="parts", thinking=thinking, unread=dict(unread))


def _segment(part: object) -> Segment | None:
    """The text and image of a part; both None if its type is not read, None for another form."""
    match part:
        case {"type": "text" | "output_text", "text": str(text)}:
            return Segment(replace_surrogates(text))
        case (
            {"type": "image", "path": str(image)}
            | {"type": "image", "image": str(image)}
            | {"type": "image", "url": str(image)}
            | {"type": "image_url", "image_url": {"url": str(image)}}
        ):
            return Segment(image=replace_surrogates(image))
        case {"type": str(kind), **further}:
            return _to_nothing({"type": kind, **further}) if "image" in kind else Segment()
        case {"text": str() | None as text, "image": str() | None as image}:
            return Segment(
                None if text is None else replace_surrogates(text),
                replace_surrogates(image) if image else None,
            )
        case {"text": str(text), **others} if not others:
            return Segment(replace_surrogates(text))
        case {"image": str(image), **others} if not others:
            return Segment(image=replace_surrogates(image))
    return None


def _unread(fields: Mapping[object, object]) -> Counter[str]:
    """The texts under further keys, which may be words of the answer."""
    texts = (key for key, value in fields.items() if isinstance(value, str) and value.strip())
    return Counter(_name(str(key)) for key in texts if key not in _IMAGE_KEYS)


def _images_elsewhere(fields: Mapping[object, object]) -> list[Segment]:
    """References to nothing for images under further keys."""
    return [_to_nothing({key: fields[key]}) for key in _IMAGE_KEYS if fields.get(key)]


def _to_nothing(fields: Mapping[object, object]) -> Segment:
    shown = {str(key): v if isinstance(v, str) else "..." for key, v in fields.items()}
    return Segment(image=json_text(shown)[:_REFERENCE_CHARACTERS])


def _are_texts(values: Sequence[object]) -> bool:
    return all(isinstance(value, str) for value in values)


def _name(key: str) -> str:
    return replace_surrogates(key)[:_NAME_CHARACTERS]


def _read_markdown(text: str) -> Answer:
    """A text, split at its markdown images and data URIs; most are unchanged."""
    spans = [
        ImageSpan(start=match.start(), end=match.end(), reference=reference)
        for match in _MARKDOWN.finditer(text)
        if (reference := match["quoted"] or match["bare"] or match["uri"])
    ]
    if not spans:
        return Answer(segments=(Segment(text),), shape="text")
    return Answer(segments=split_at_images(text, spans), shape="markdown")
