"""Protocols: how a writer is told to ask for pictures, and how its text is read.

MMIE's paper never released the words of its own pipeline, so these are a reconstruction. A change
of the words, or of what is read, needs a new `Protocol.version`, which stands in the signature of
every answer.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

MARKER = "[picture]"
"""What a writer puts where a picture belongs, under the protocol ``step``."""

NO_FORM = "answers that are not in the requested form"
OVER_LIMIT = "pictures over the limit"
NO_WORDS = "pictures without words to draw"
AROUND = "texts around the JSON"

# As writers vary the marker. `![picture](a.png)` and `[picture](a.png)` are links.
_MARKERS = re.compile(
    r"<(?:picture|image|img)[ _-]?\d{0,3}>|(?<!!)\[(?:picture|image|img)[ _-]?\d{0,3}\](?!\()",
    re.IGNORECASE,
)
_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)
_NAME_CHARACTERS = 40  # of a key in counts
_PICTURE_KEYS = (
    "picture",
    "description",
    "image_description",
    "image_prompt",
    "prompt",
)  # as writers vary it

_STEP = """\
Answer with text and pictures. Write short steps. After a step that a picture should show, put \
the marker {marker} on a line of its own; you can use it {times}. The picture is drawn by a \
text-to-image model that reads the text of that step, from the marker before it to this one, and \
nothing else: name the people, the things and the place in it."""

_DESCRIBE = """\
Answer with text and pictures, as one JSON object and nothing else:
{{"steps": [{{"text": "...", "picture": "..."}}]}}
"text" is a step of the answer as the reader sees it. "picture" describes the picture that \
follows it, in one or two sentences, for a text-to-image model that reads nothing else: name the \
people, the things, the place and the style. \
Leave "picture" out where a step needs none; {times_passive}."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The words that a picture at this place of an answer is to be drawn to."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenAnswer:
    """A writer's answer as the protocol reads it: texts and prompts in order, and counts of what it
    could not use.
    """

    parts: tuple[str | Prompt, ...]
    unused: Mapping[str, int] = field(default_factory=dict)

    @property
    def prompts(self) -> tuple[Prompt, ...]:
        """The prompts, in order."""
        return tuple(part for part in self.parts if isinstance(part, Prompt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Protocol:
    """How a writer asks for pictures.

    Attributes:
        version: Grows with every change that can change an answer.
        instruction: The words behind the question, for a limit on pictures.
        read: The answer in a text without its thinking, for a limit on pictures. Never raises.
    """

    name: str
    version: int
    instruction: Callable[[int], str]
    read: Callable[[str, int], WrittenAnswer]

    @property
    def signature(self) -> str:
        """``step-1``."""
        return f"{self.name}-{self.version}"


def read_steps(text: str, limit: int) -> WrittenAnswer:
    r"""Read an answer with markers: the text before a marker, from the last one on, is the
    picture's prompt.

    Markers above the limit are removed and counted.

    >>> read_steps("A red door.\n[picture]\nIt opens.", 1).parts
    ('A red door.', Prompt(text='A red door.'), 'It opens.')
    """
    parts: list[str | Prompt] = []
    unused: Counter[str] = Counter()
    *steps, rest = (step.strip() for step in _MARKERS.split(text))
    drawn = 0
    for step in steps:
        parts += [step] if step else []
        if not step:
            unused[NO_WORDS] += 1
        elif drawn == limit:
            unused[OVER_LIMIT] += 1
        else:
            parts.append(Prompt(text=step))
            drawn += 1
    parts += [rest] if rest or not parts else []
    return WrittenAnswer(parts=tuple(parts), unused=dict(unused))


def read_descriptions(text: str, limit: int) -> WrittenAnswer:
    """Read an answer in JSON: steps of a text and the description of a picture.

    An answer in another form is one text without pictures, and is counted; so are descriptions
    above the limit.

    >>> read_descriptions('{"steps": [{"text": "It opens.", "picture": "A red door."}]}', 1).parts
    ('It opens.', Prompt(text='A red door.'))
    """
    for candidate in _json_candidates(text):
        if (steps := _steps_of(candidate)) is None:
            continue
        unused = Counter({AROUND: 1} if _has_prose(text, candidate) else {})
        parts: list[str | Prompt] = []
        for part in [part for step in steps for part in _step_parts(step, unused)]:
            if (
                isinstance(part, Prompt)
                and sum(isinstance(other, Prompt) for other in parts) == limit
            ):
                unused[OVER_LIMIT] += 1
            else:
                parts.append(part)
        return WrittenAnswer(parts=tuple(parts), unused=dict(unused))
    return WrittenAnswer(parts=(text.strip(),), unused={NO_FORM: 1})


def _json_candidates(text: str) -> Iterator[str]:
    """Parts of a text that may be the requested JSON: all of it, code fences, from the first brace
    to the last.
    """
    yield text
    yield from (fence[1] for fence in _FENCE.finditer(text))
    begin, end = text.find("{"), text.rfind("}")
    if begin >= 0:
        yield text[begin : end + 1]


def _has_prose(text: str, candidate: str) -> bool:
    """Whether a text has more than the JSON and the code fence around it."""
    rest = text.replace(candidate, "", 1).strip()
    return re.fullmatch(r"(?:```\s*\w*\s*```)?", rest) is None


def _steps_of(text: str) -> list[object] | None:
    with suppress(ValueError, RecursionError):
        match json.loads(text, strict=False):  # models write line breaks into strings
            case {"steps": list() as steps} | [*steps] if any(
                isinstance(step, dict) for step in steps
            ):
                return steps
    return None


def _step_parts(step: object, unused: Counter[str]) -> Iterator[str | Prompt]:
    fields: Mapping[object, object] = step if isinstance(step, dict) else {"text": step}
    picture_key = next((key for key in _PICTURE_KEYS if key in fields), None)
    for key, value in fields.items():
        words = value.strip() if isinstance(value, str) else ""
        if key == "text" and words:
            yield words
        elif key == picture_key and words:
            yield Prompt(text=words)
        elif key == picture_key and value == "":
            unused[NO_WORDS] += 1
        elif words or not (value is None or isinstance(value, str) or value in ([], {})):
            unused[f"`{str(key)[:_NAME_CHARACTERS]}` of a step"] += 1


def _step_instruction(limit: int) -> str:
    return _STEP.format(marker=MARKER, times="once" if limit == 1 else f"at most {limit} times")


def _describe_instruction(limit: int) -> str:
    return _DESCRIBE.format(
        times_passive=f"there can be at most {limit} {'picture' if limit == 1 else 'pictures'}"
    )


PROTOCOLS: Mapping[str, Protocol] = {
    "step": Protocol(name="step", version=1, instruction=_step_instruction, read=read_steps),
    "describe": Protocol(
        name="describe", version=1, instruction=_describe_instruction, read=read_descriptions
    ),
}
"""The protocols by name."""
