"""Many ways of writing the same words, made one: before anything is looked for in a reply."""

from __future__ import annotations

import re
import unicodedata

_CHARACTERS = {
    **dict.fromkeys("\u2044\u2215\u29f8\u00f7", "/"),  # slashes of fractions, the division sign
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2014\u2015", " - "),  # a dash that is no minus
    **dict.fromkeys("\u2028\u2029\u0085\r\v\f", "\n"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u300c\u300d\u300e\u300f", '"'),
    **dict.fromkeys("\u2018\u2019\u201a\u201b", "'"),
    **dict.fromkeys("\u2192\u21d2\u27a1\u2794", "\u2192"),
    "\u00d7": "*",
    "\u3002": ".",
    "\u3001": ",",
    "\u060c": ",",  # the Arabic comma,
    "\u066b": ".",  # and decimal mark
    "\u20e3": "",  # the frame of a keycap
    "\ufe0f": "",
}
_HALVES = {"\u00bc": "25", "\u00bd": "5", "\u00be": "75"}
_VULGAR = re.compile("(\\d?) ?([\u00bc-\u00be])(?=\\s?(/|out of)?)")
_STRUCK = re.compile(r"~~[^~\n]*~~")  # what is struck out is not said
_JSON_START = re.compile(r"\s*(?:```\w*\s*)?[\[{]")
_TAG = re.compile(r"</?(?:b|i|u|em|strong|span|p|div|li|ul|ol|code|sub|sup|mark|font)\b[^<>]*>")
_LINE = re.compile(r"<(?:br|tr|/tr|/li|/p)\b[^<>]*>")
_CELL = re.compile(r"</?t[dh]\b[^<>]*>")
_LATEX_FRACTION = re.compile(
    r"\\[dt]?frac\s{0,3}\{\s{0,3}(-?[\d.]{1,9})\s{0,3}\}\s{0,3}\{\s{0,3}(-?[\d.]{1,9})\s{0,3}\}"
)
_LATEX = re.compile(r"\\(?:text\w*|math\w+|boxed|left|right|quad|[()\[\],;!])|\$")
_ESCAPE = re.compile(r"\\([^\w\s])")
_EMPHASIS = re.compile(r"\*+|(?<!\d)_+|_+(?!\d)")
_CODE_NUMBER = re.compile(r"`(\s?-?[\d.,]{1,9}(?:\s?/\s?-?[\d.]{1,9})?\s?)`")


def fold(text: str) -> str:
    r"""A reply in plain characters, without emphasis, LaTeX and struck passages.

    Line breaks, quotation marks, block quotes and code marks stay: they say who is speaking. The
    work grows with the length of the text and no faster.

    >>> fold("**Component 1：** ６⁄６, \\(\\frac{2}{4}\\)")
    'Component 1: 6/6,  2/4 '
    """
    if not text.isascii():
        text = _plain(text)
    if "\\" in text and _JSON_START.match(text):
        text = text.replace("\\n", "\n")
    text = text.replace('\\"', "'").replace("\r", "\n").replace("\t", " ")
    text = _CELL.sub(" | ", _LINE.sub("\n", _TAG.sub(" ", _STRUCK.sub("", text))))
    text = _ESCAPE.sub(r"\1", _LATEX.sub(" ", _LATEX_FRACTION.sub(r"\1/\2", text)))
    return _CODE_NUMBER.sub(r"\1", _spaced(text))


def _spaced(text: str) -> str:
    """Without the marks of emphasis; ``component_1`` is two words, and ``1_0`` is no number."""
    return _EMPHASIS.sub(lambda mark: " " if mark[0][0] == "_" else "", text)


def _plain(text: str) -> str:
    text = unicodedata.normalize("NFKC", _VULGAR.sub(_written_out, text))
    return "".join(_folded(character) for character in text)


def _written_out(half: re.Match[str]) -> str:
    """``1½`` is 1.5, ``½/1`` is 0.5/1, and ``½`` alone is one of two."""
    if half[1] or half[3]:
        return f"{half[1] or 0}.{_HALVES[half[2]]}"
    return f" {unicodedata.normalize('NFKC', half[2])}"


def _folded(character: str) -> str:
    if character < "\x80":
        return character if character not in "\v\f" else "\n"
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if unicodedata.category(character) == "Cf":  # zero-width marks, soft hyphens, BOMs
        return ""
    digit = unicodedata.decimal(character, None)
    return character if digit is None else str(digit)
