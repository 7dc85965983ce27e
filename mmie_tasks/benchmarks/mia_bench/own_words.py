"""Rule 1 of the robust reader: which words of a reply are the judge's own.

Not read: thinking, quotation marks, code, fences, block quotes, struck text, and passages between
tags or named rules (``=== ANSWER ===``). If one has only one end: `unparsed`. A fence around the
whole reply is taken off; a JSON object is read as its text.
"""

from __future__ import annotations

import re
import unicodedata

from mmie_tasks.benchmarks.reply_text import QUOTATION, without_fence, without_invisible

BLANK = "\0"
"""In the place of a passage that is not the judge's own."""

_SPELLINGS = {"/": "⁄∕", "-": "‐‒−", " - ": "–—", "->": "→", "'": "’‚", ". ": "。", ".5": "½"}
_CHARACTERS = str.maketrans({char: plain for plain, chars in _SPELLINGS.items() for char in chars})

_SCORE_AND_MAXIMUM = r"score ?: ?([\d.]{1,9}), (?:max[\w ]{0,9}|out of) ?: ?([\d.]{1,9})"
_OBJECT = (  # what to replace in a JSON object without its double quotation marks
    (re.compile(r"[{}\[\]\n]|(?<=[{, ])'|'(?=\s*[:,}])"), " "),
    (re.compile(r" {2,}"), " "),
    (
        re.compile(rf"(?:id|component|number) ?: ?(\w{{1,9}}), {_SCORE_AND_MAXIMUM}"),
        r"component \1: \2/\3",
    ),
    (re.compile(_SCORE_AND_MAXIMUM), r"\1/\2"),
    (re.compile(r"\A ?(?:components?|scores?) ?: (?=component)"), ""),  # the key of all of them
)
_QUOTED_NUMBER = r"`([-\d./ ]{1,12})`|(?<!\w)['\"]([-\d./ ]{1,12})['\"](?!\w)"
_STRUCK = r"~~[^~\n]*~~"
_EMPHASIS = r"\*+|(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])"
_MARKUP = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?i)\A\s*<think(?:ing)?>(?s:.*?)</think(?:ing)?>", ""),
        (r"(?i)</?(?:br|p)\b[^<>]{0,80}>", "\n"),
        (r"(?i)</?(?:[biu]|em|strong)\b[^<>]{0,80}>", ""),
        (r"\\[dt]?frac\s?\{\s?([\d.]{1,9})\s?\}\s?\{\s?([\d.]{1,9})\s?\}", r"\1/\2"),
        (r"\\[()\[\]]", ""),  # a formula's ends
        (r"组件(\d)得分", r"component \1"),
        (r"总分", "total"),
        (r"(?m)^ ?\| ?([1-9]) ?(?=\|)", r"| component \1 "),  # a row of a table
        (r"(?<=: )(\d|10)0%", r"\1/10"),
        (rf"{_STRUCK}|{_EMPHASIS}", ""),
        (r"(?<=[A-Za-z])_(?=[A-Za-z\d])", " "),  # component_1
        (_QUOTED_NUMBER, r"\1\2"),
        (r"(?i)\b([ie])\.([eg])\.", r"\1\2"),  # i.e. and e.g. end no sentence
        (r"(?<=[\d.]/10)(?: \(ie| \(| ?=|,) ?\d{1,3} ?%\)?", ""),  # a share of the total in percent
    )
)

# Passages that are not the judge's own. A group ``open`` says that one is never closed.
_FENCE = (
    r"^[ >]{0,8}(?P<fence>`{3,}|~{3,})"
    r"(?s:.*?)"
    r"(?:^[ >]{0,8}(?P=fence)[^\n`~]*$|(?P<open>\Z))"
)
_TAG = r"<[a-z]\w{0,20}\b[^<>\n]{0,80}>"
_TAGGED = r"<(?P<tag>[a-z]\w{0,20})\b[^<>\n]{0,80}>(?s:.*?)(?:</(?P=tag)>|(?P<open>\Z))"
_NAMED_RULE = r"^[^\w\n]{0,9}[=*_-]{3,} *[a-z][^\n]{0,60}[=*_-]{3,} *$"
_RULED = (
    r"^[^\w\n]{0,9}(?P<rule>[=*_-])(?P=rule){2,} *[a-z][^\n]{0,60}(?P=rule){3,} *$"
    r"(?s:.*?)"
    r"(?:^[^\n]{0,40}(?P=rule){3,}[^\n]*$|(?P<open>\Z))"
)
_BLOCK_QUOTE = r"^ {0,3}>[^\n]*(?:\n(?! *\n)[^\n]+)*"  # with the lines that continue it
_CODE_OR_QUOTATION = r"``[^`]*``|`[^`]*`|\"[^\"]*\""
_SINGLE_QUOTATION = r"(?<!\w)'(?=\S)(?:[^'\n]|(?<=\w)'(?=\w))*'(?!\w)"  # "don't" does not end it
_FOREIGN = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        *(_FENCE, _TAGGED, _RULED, _BLOCK_QUOTE),
        *(rf"{QUOTATION}|‘[^‘'\n]*'(?!\w)", _CODE_OR_QUOTATION, _SINGLE_QUOTATION),
    )
)
_HALF = re.compile(
    rf"[\"“”„«»‹›「」『』]|```|~~~|{_TAG}|</|<think|^<<<|{_NAMED_RULE}",
    re.IGNORECASE | re.MULTILINE,
)


def plain_text(reply: str) -> str:
    """A reply in plain characters, without thinking, markup, or a fence around all of it.

    In this order: characters, the fence, a JSON object as text, then the patterns of `_MARKUP`.
    """
    text = _in_plain_characters("\n".join(reply.splitlines()).replace("\t", " "))
    text = without_fence(text)
    if _is_object(text.strip()):
        text = _text_of_object(text)
    for pattern, replacement in _MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _in_plain_characters(text: str) -> str:
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text.translate(_CHARACTERS)).translate(_CHARACTERS)
    return without_invisible(text.replace("  -  ", " - "))


def _is_object(text: str) -> bool:
    """Whether a text is a JSON object, or a list that begins with one."""
    return text.removeprefix("[").lstrip().startswith("{") and text.endswith(("}", "]"))


def _text_of_object(text: str) -> str:
    """``{"component_1": "6/6"}`` as ``component 1: 6/6``; quotation marks in a text of it stay."""
    text = text.replace(r"\"", "\1").replace('"', "").replace("\1", '"').replace("_", " ")
    for pattern, replacement in _OBJECT:
        text = pattern.sub(replacement, text)
    return text


def own_words(text: str) -> str | None:
    """A plain text with a `BLANK` for each passage of somebody else's; None if one has only one
    end.

    Passages are blanked in the order of `_FOREIGN`: fences, tags, named rules, block quotes, then
    quotation marks. What is inside one is not looked at again.
    """
    for pattern in _FOREIGN:
        text = pattern.sub(_blank, text)
    return None if _HALF.search(text) else text


def _blank(passage: re.Match[str]) -> str:
    is_open = passage.groupdict().get("open") is not None
    return '"' if is_open else BLANK  # a quotation mark is a half
