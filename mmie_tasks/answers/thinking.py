"""Removes a model's thinking from its answer: no benchmark scores it, and no judge may see it.

There is one rule for tags, and a short list of other forms. Sources: the reasoning parsers of vLLM
(``vllm/reasoning``) and SGLang (``srt/parser/reasoning_parser.py``), the tags that Open WebUI reads
(``utils/middleware.py``), and lmms-eval 0.7.3 (``api/reasoning.py``, ``models``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mmie_tasks.record.segment import Segment

# A name with one of these words: `seed:think`, `begin_of_thought`, `ifm|think`.
_SURE = "think(?:ing)?|thoughts?|reasoning|analysis"
_WEAK = "reason|reflections?|scratchpad|cot"  # an answer may have such an element of its own
NAME = (
    rf"(?:[^\W_]{{1,20}}[_:|.-]){{0,4}}(?:{_SURE}|(?P<weak>{_WEAK}))"
    r"(?:[_:|.-][^\W_]{1,20}){0,4}"
)
_CLOSING_PARTS = frozenset({"end", "stop", "close"})
# Gemma 4, MedGemma, Pangu, Apertus, Kimi K3, Inkling, s1
_OPENS = (
    r"<\|channel>\s*thought\b|<unused94>(?:thought\b)?|\[unused16\]|<\|inner_prefix\|>"
    r"|<\|open\|>think<\|sep\|>|<\|content_thinking\|>|<\|im_start\|>think\b"
)
_CLOSES = (
    r"<channel\|>|<unused95>|\[unused17\]|<\|inner_suffix\|>"
    r"|<\|close\|>think<\|sep\|>|<\|open\|>response<\|sep\|>|<\|content_text\|>"
    r"|<\|im_start\|>answer\b"
)
_TAG = re.compile(
    rf"""
    (?P<opens>{_OPENS}) | (?P<closes>{_CLOSES})
    | (?: (?P<angle><) | (?P<square>\[) | ◁ ) (?P<slash>/?[|｜]?/?)
      (?P<name>{NAME}) (?:\s+[\w:-]+=[^<>\n]{{0,100}})? \s? [|｜]?
      (?(angle)> | (?(square)\](?!\() | ▷))
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CODE = re.compile(r"(?<!\w)`(?=[^`\s])[^`\n]{1,200}(?<=\S)`(?!\w)")
_QUOTED = re.compile(r"(?<!\w)[\"'“‘„«]\Z")  # before a tag
_UNQUOTED = re.compile(r"[\"'”’“»](?!\w)")  # after it
# A message of gpt-oss with its channel, or of Muse Glimmer with its recipient, and the text.
_MESSAGE = re.compile(
    r"(?:<\|start\|>\s*assistant)?[ \t]{0,9}(?:\bto=(?P<to>[\w.-]{1,100}))?"
    r"(?:<\|channel\|>(?P<channel>\w{1,40})\b[^<]*)?(?:<\|constrain\|>[^<]*)?<\|message\|>"
    r"(?P<text>.*?)(?:<\|(?:end|return|call|eom|eot)\|>|(?=<\|(?:start|channel)\|>)|\Z)",
    re.DOTALL,
)
# The output of gpt-oss if a server left out the special tokens; and Granite's sentences.
_FINAL = "assistantfinal"
_UNFINISHED = re.compile(r"analysis(?=[A-Z])")
_GRANITE = re.compile(
    r"Here(?:['’]s| is) my thought process:.*?Here(?:['’]s| is) my response:", re.DOTALL
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StrippedText:
    """A text without its thinking; it may have started, or ended, inside thinking."""

    text: str
    removed: bool = False
    starts_inside: bool = False
    ends_inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tag:
    """A tag at ``start`` to ``end`` of a text; ``word`` is set if the tag needs evidence."""

    start: int
    end: int
    is_closing: bool
    word: str = ""
    is_square: bool = False


def strip_thinking(text: str) -> StrippedText:
    """Remove the text between thinking tags, and messages of other channels than ``final``.

    Where thinking was removed, the text has no white space at its ends.

    A tag is a name in ``<...>``, ``<|...|>``, ``[...]`` or ``◁...▷``, in any letter case, with one
    of the words think, thinking, thought, reasoning and analysis: ``<think>``, ``<seed:think>``,
    ``<|begin_of_thought|>``. It closes if it has a slash or the part ``end``, ``stop`` or
    ``close``. A tag in square brackets may be a heading: it opens only if such a tag closes it
    later, or as ``[THINK]`` at the beginning. An answer may have an element of its own named
    reason, reflection, scratchpad or cot: such a tag opens only at the beginning or after thinking.

    Everything before a closing tag without an opening one is thinking, and so is everything after
    an opening tag without a closing one. If tags do not pair up, the last closing tag ends the
    thinking: a model may mention the tag while it thinks. A tag in quotation marks or in `code` is
    a mention.

    The runner strips ``<think>`` and ``<analysis>`` from the raw string (``api/reasoning.py`` of
    lmms-eval 0.7.3), which may cut off the beginning of a JSON answer. Tasks switch that off
    (``reasoning_tags: none``), and every benchmark calls this function instead.

    >>> strip_thinking("<think>Hm.</think>It is red.").text
    'It is red.'
    >>> strip_thinking("Hm.</think> It is red. <think>But").text
    'It is red.'
    >>> strip_thinking("[THINK]Hm.[/THINK]It is red.").text
    'It is red.'
    >>> strip_thinking("Write `<think>` first.").removed
    False
    """
    answer = _without_messages(text)
    if answer != text:
        stripped = strip_thinking(answer)
        return replace(stripped, text=stripped.text.strip(), removed=True)
    tags = _thinking_tags(text)
    if not tags:
        return StrippedText(text=text)
    parts: list[str] = []
    depth, end, closed = 0, 0, True
    for tag in tags:
        if tag.is_closing and not depth:
            parts.clear()
        elif not tag.is_closing and not depth:
            parts.append(text[end : tag.start])
        closed = tag.is_closing or (closed and depth > 0)
        depth = max(depth - 1, 0) if tag.is_closing else depth + 1
        end = tag.end if tag.is_closing else end
    if closed:  # the answer goes on after the last closing tag
        parts.append(text[end : next((tag.start for tag in tags if tag.start >= end), None)])
    return StrippedText(
        text="".join(parts).strip(),
        removed=True,
        starts_inside=tags[0].is_closing,
        ends_inside=not closed,
    )


def _without_messages(text: str) -> str:
    """The text of the messages with the answer; a text without messages is unchanged."""
    start = text.lstrip()
    if _FINAL in text:
        return text.rpartition(_FINAL)[2]
    if _UNFINISHED.match(start):
        return ""
    if prose := _GRANITE.match(start):
        return start[prose.end() :]
    messages = list(_MESSAGE.finditer(text)) if "<|message|>" in text else []
    framed = [message for message in messages if message["channel"] or message["to"]]
    if not framed:
        return text
    answers = [
        message["text"]
        for message in messages
        if (message["channel"] or "final") == "final" and (message["to"] or "user") == "user"
    ]
    return "".join(answers) if answers else _MESSAGE.sub("", text)


def _thinking_tags(text: str) -> list[_Tag]:
    """The tags of thinking, in order, without tags that are only mentioned.

    Inside thinking, a quoted closing tag is a mention only if the next unquoted tag closes, too: a
    real closing tag may have quoted words on both sides.
    """
    tags = list(_evident(text, [_tag_of(match) for match in _TAG.finditer(text)]))
    codes = _CODE.finditer(text) if tags else ()
    in_code = {tag.start() for code in codes for tag in _TAG.finditer(text, *code.span())}
    quoted = {
        tag.start
        for tag in tags
        if _QUOTED.search(text, tag.start - 1, tag.start) and _UNQUOTED.match(text, tag.end)
    }
    mentioned = in_code | quoted
    closes_later: dict[int, bool] = {}
    is_closed_next = False
    for tag in reversed(tags):
        closes_later[tag.start] = is_closed_next
        if tag.start not in mentioned:
            is_closed_next = tag.is_closing
    real: list[_Tag] = []
    for tag in tags:
        is_open = bool(real) and not real[-1].is_closing
        ends_thinking = tag.is_closing and is_open and not closes_later[tag.start]
        if tag.start not in mentioned or ends_thinking:
            real.append(tag)
    return real


def _tag_of(match: re.Match[str]) -> _Tag:
    start, end = match.span()
    if not match["name"]:
        return _Tag(start=start, end=end, is_closing=match["closes"] is not None)
    name = match["name"].lower()
    is_closing = "/" in match["slash"] or not _CLOSING_PARTS.isdisjoint(re.split(r"\W|_", name))
    is_square = match["square"] is not None
    word = name if is_square or match["weak"] else ""
    return _Tag(start=start, end=end, is_closing=is_closing, word=word, is_square=is_square)


def _evident(text: str, tags: Sequence[_Tag]) -> Iterator[_Tag]:
    """The tags, except possible words of the answer."""
    end = 0  # the end of the last tag
    closed_later = Counter(tag.is_square for tag in tags if tag.is_closing)[True]
    own_elements: Counter[str] = Counter()
    for tag in tags:
        is_first = not text[end : tag.start].strip()
        if tag.is_square:
            closed_later -= tag.is_closing
            if not (tag.is_closing or closed_later or (is_first and tag.word == "think")):
                continue
        elif tag.word and not tag.is_closing and not is_first:
            own_elements[tag.word] += 1
            continue
        elif tag.word and tag.is_closing and own_elements[tag.word]:
            own_elements[tag.word] -= 1
            continue
        end = tag.end
        yield tag


def without_thinking(answer: object) -> object:
    """A text or a list of texts, without thinking or white space at the ends; others unchanged.

    >>> without_thinking(["<think>Hm.</think>B", "C "])
    ['B', 'C']
    """
    if isinstance(answer, list):
        return [without_thinking(text) for text in answer]
    return strip_thinking(answer).text.strip() if isinstance(answer, str) else answer


def segments_without_thinking(segments: Sequence[Segment]) -> tuple[tuple[Segment, ...], bool]:
    """The segments without thinking in their texts, and whether there was any.

    If one text ends inside thinking and a later one begins inside it, the texts between them are
    thinking, too; images stay.
    """
    stripped = list(segments)
    opened_at: int | None = None
    removed = False
    for i, segment in enumerate(segments):
        text = strip_thinking(segment.text or "")
        if not text.removed:
            continue
        if text.starts_inside and opened_at is not None:
            for between in range(opened_at + 1, i):
                stripped[between] = replace(stripped[between], text=None)
        stripped[i] = replace(segment, text=text.text or None)
        opened_at = i if text.ends_inside else None
        removed = True
    return tuple(stripped), removed
