"""Whether a saved answer answers a sample, told by what both know of the question."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from mmie_tasks.answers.saved import SavedAnswer

_IMAGE_PLACE = re.compile(r"<image[ _]?\d*>|\[image[ _]?\d*\]", re.IGNORECASE)

ContentKey = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedSample:
    """A sample whose answer is wanted."""

    task: str
    doc_id: int  # the runner's number of it
    ids: tuple[str, ...] = ()  # candidates, the best first
    input: str | None = None  # the text the tested model is sent
    target: str | None = None  # the gold answer, as text


@dataclass(frozen=True, slots=True)
class Agreement:
    """Whether gold answer and input are the same; None where one side does not know."""

    target: bool | None
    input: bool | None

    @property
    def content(self) -> bool:
        """The input is the same, and nothing is known against the gold answer."""
        return self.input is True and self.target is not False

    @property
    def contradicts(self) -> bool:
        """Anything known to differ."""
        return self.input is False or self.target is False


def agreement(saved: SavedAnswer, sample: RequestedSample) -> Agreement:
    """Compare what is known of both."""
    return Agreement(target=_same(saved.target, sample.target), input=_same_input(saved, sample))


def normalised(text: str) -> str:
    r"""The text without placeholders of images and surplus white space: these differ by model.

    >>> normalised("<image 1> What is [image 2]\n this?")
    'What is this?'
    """
    return " ".join(_IMAGE_PLACE.sub(" ", text).split())


def key_of_saved(saved: SavedAnswer) -> ContentKey | None:
    """What the question is found by; None where the file does not tell."""
    if saved.input is not None and saved.target is not None:
        return _text_key(saved.input, saved.target)
    return None if saved.input_hash is None else ("hash", saved.input_hash)


def keys_of_requested(sample: RequestedSample) -> tuple[ContentKey, ...]:
    """The keys under which a saved answer to the sample may stand."""
    if sample.input is None:
        return ()
    by_hash: ContentKey = ("hash", runner_hash(sample.input))
    if sample.target is None:
        return (by_hash,)
    return (_text_key(sample.input, sample.target), by_hash)


def runner_hash(text: str) -> str:
    """As the runner hashes a request's text (``caching/response_cache.py``)."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text_key(text: str, target: str) -> ContentKey:
    digest = hashlib.sha256(normalised(text).encode("utf-8", "surrogatepass")).hexdigest()
    return ("text", digest, target)


def _same(one: str | None, other: str | None) -> bool | None:
    return None if one is None or other is None else one == other


def _same_input(saved: SavedAnswer, sample: RequestedSample) -> bool | None:
    if sample.input is None:
        return None
    if saved.input is not None:
        return saved.input == sample.input or normalised(saved.input) == normalised(sample.input)
    return None if saved.input_hash is None else saved.input_hash == runner_hash(sample.input)
