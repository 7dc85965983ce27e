"""A judge's reply in plain lines, before anything is looked for in it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

_CHARACTERS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),  # a dash that is no minus
    **dict.fromkeys("\u2044\u2215", "/"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2018\u2019\u201a", "'"),
    "\u00a0": " ",
    "\u3000": " ",
    "\u20e3": "",  # the frame of a keycap
    "\ufe0f": "",
}
_TOKEN = re.compile(r"<\|[^|<>\n]{1,30}\|>")
_OPENS = re.compile(r"<(?:final[ _]?)?(?:score|rating)>", re.IGNORECASE)
_CLOSES = re.compile(r"</(?:final[ _]?)?(?:score|rating)>", re.IGNORECASE)
_STRUCK = re.compile(r"~~[^~\n]*~~")  # what is struck out is not said
_BOXED = re.compile(r"\$?\\boxed\{([^{}\n]{1,30})\}\$?")
_EMPHASIS = re.compile(r"(?<!\d)\*+|\*+(?!\d)|(?<!\w)_+|_+(?!\w)")
_CODE = re.compile(r"`([^`\n]{1,30})`")
_ON_ONE_LINE = re.compile(r"(?<=[.!?)])[ \t]{1,8}(?=#{2,6}[ \t]{0,3}\w)")
_FENCE = re.compile(r"[ \t]{0,8}(?:```|~~~)")
_VALUE_ONLY = re.compile(r"[-\d./ \t]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a reply, without emphasis.

    Attributes:
        text: Stripped.
        quoted: It is a block quote, and so somebody else's words.
        fenced: It stands in a code block: somebody else's words, or the verdict.
    """

    text: str
    quoted: bool = False
    fenced: bool = False

    @property
    def own(self) -> bool:
        """Whether it is the judge's own, as far as its marks say."""
        return not (self.quoted or self.fenced)


def fold(reply: str) -> list[Line]:
    """The lines of a reply that hold something.

    Without a reasoning model's thoughts, emphasis, struck passages and the marks of code blocks;
    digits of any script are ASCII. A heading after the end of a sentence gets its own line. The
    work grows with the length of the reply and no faster.

    >>> [line.text for line in fold("Clear. **### Score:** ４")]
    ['Clear.', '### Score: 4']
    """
    text = spoken(reply)
    if not text.isascii():
        text = "".join(_folded(character) for character in text)
    text = _CLOSES.sub("\n", _OPENS.sub("\nScore: ", _TOKEN.sub("\n", text)))
    text = _EMPHASIS.sub("", _BOXED.sub(r"\1", _STRUCK.sub("", text)))
    text = _CODE.sub(_without_marks, _ON_ONE_LINE.sub("\n", text))
    return _lines(text.splitlines())


def spoken(reply: str) -> str:
    """A reply without what a reasoning model thinks before it speaks."""
    _, closed, after = reply.rpartition("</think>")
    said = after if closed else reply
    return "" if said.lstrip().startswith("<think>") else said


def _lines(texts: list[str]) -> list[Line]:
    fences = [position for position, text in enumerate(texts) if _FENCE.match(text)]
    paired = len(fences) % 2 == 0  # a block that is not closed says nothing
    lines, fenced = [], False
    for text in texts:
        if _FENCE.match(text):
            fenced = not fenced and paired
        elif text.strip():
            quoted = text.lstrip().startswith(">")
            lines.append(Line(text.strip(), quoted=quoted, fenced=fenced))
    return lines


def _without_marks(code: re.Match[str]) -> str:
    return code[1] if _VALUE_ONLY.fullmatch(code[1]) else code[0]


def _folded(character: str) -> str:
    if character < "\x80":
        return character
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if "\uff01" <= character <= "\uff5e":  # the full-width forms of ASCII
        return chr(ord(character) - 0xFEE0)
    if unicodedata.category(character) == "Cf":  # zero-width marks, soft hyphens
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)
