"""Finds what no benchmark reads in a text of an answer: a tag in front, special tokens, or only a
few words that may be a server's.

The text stays unchanged; the last lines of a run show the counts.
"""

from __future__ import annotations

import re

from mmie_tasks.answers.thinking import NAME, strip_thinking
from mmie_tasks.record.text_facts import TextFacts

_MAX_SHORT_CHARACTERS = 100
_MAX_TOKENS = 5  # per answer

_CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
_IMAGE = re.compile(r"(?:image|img|picture|photo|figure)s?[ _-]?\d*", re.IGNORECASE)
# `<|im_end|>`, `<turn|>`, `<end_of_turn>`, `<unused7>`, `<0x0A>`; `[INST]`, `<<SYS>>`; and only at
# the end `</s>`, which is also HTML.
_SPECIAL_TOKEN = re.compile(
    r"""
    <[|｜](?P<name>[^\s<>|｜]{1,60})[|｜]> | <[|｜]\w{1,40}> | <\w{1,40}[|｜]>
    | </?(?:start|begin|end)_of_\w{1,40}> | <(?:unused|extra_id_|reserved_)\w{1,20}>
    | <0x[0-9A-F]{2}> | </?(?:bos|eos|eot|eod|eop|pad|unk|sep|cls|mask)> | <</?SYS>>
    | \[/?(?:INST|BOS|EOS|EOT|PAD|UNK|SEP|CLS|MASK|unused\d{1,4})\] | \A<s> | </s>(?=\s*\Z)
    """,
    re.VERBOSE,
)
_FIRST_TAG = re.compile(
    rf"<(?P<angle>/?\s?[A-Za-z][\w:.|-]{{0,39}})(?:\s[\w:-]+=[^<>\n]{{0,200}})?\s?>"
    r"|◁(?P<triangle>/?\w{1,40})▷"
    rf"|\[(?P<square>[A-Z][A-Z0-9_ :-]{{2,39}}|/?(?i:{NAME})"
    r"|(?P<paired>\w{2,40})(?=\].*\[/(?P=paired)\]))\](?![(\[:])",
    re.DOTALL,
)
# Elements of HTML (https://html.spec.whatwg.org), SVG and MathML that an answer may begin with
_ELEMENTS = frozenset(
    (
        *("a", "abbr", "address", "area", "article", "aside", "audio", "b", "base", "blockquote"),
        *("body", "br", "button", "canvas", "center", "cite", "circle", "code", "col"),
        *("colgroup", "data", "datalist", "dd", "del", "details", "dfn", "dialog", "div", "dl"),
        *("dt", "em", "embed", "fieldset", "figcaption", "figure", "font", "footer", "form", "g"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "hr", "html", "i"),
        *("iframe", "img", "input", "ins", "kbd", "label", "legend", "li", "line", "link", "main"),
        *("map", "mark", "math", "menu", "meta", "meter", "nav", "noscript", "object", "ol"),
        *("optgroup", "option", "output", "p", "path", "picture", "polygon", "pre", "progress"),
        *("q", "rect", "rp", "rt", "ruby", "s", "samp", "script", "search", "section", "select"),
        *("slot", "small", "source", "span", "strike", "strong", "style", "sub"),
        *("sup", "svg", "table", "tbody", "td", "template", "text", "textarea", "tfoot", "th"),
        *("thead", "time", "title", "tr", "track", "tt", "u", "ul", "var", "video", "wbr"),
    )
)


def text_facts(text: str, *, is_expected: bool = False) -> TextFacts:
    """What is unusual about a text of an answer. Never raises.

    A tag in front is a name in ``<...>`` or ``◁...▷``; in ``[...]`` it is in capital letters, a
    word for thinking, or closed later. HTML elements, placeholders of images and links do not
    count. A short text is noted unless `is_expected`: several samples may well have the same option
    as their answer.

    >>> text_facts("[FOO] It is red.<|im_end|>").tag
    '[FOO]'
    >>> text_facts("<div>It is red.</div>").tag
    ''
    >>> text_facts("It is red.<|im_end|>").special_tokens
    {'<|im_end|>': 1}
    """
    stripped = strip_thinking(text)
    text = stripped.text.strip()
    plain = _CODE.sub("", text)
    tokens = [match[0] for match in _SPECIAL_TOKEN.finditer(plain) if not _is_image(match["name"])]
    tag = _first_tag(text)
    short_text = None if is_expected or tag else _short(_SPECIAL_TOKEN.sub(" ", text))
    return TextFacts(
        thinking=stripped.removed,
        tag=tag,
        special_tokens=dict.fromkeys(list(dict.fromkeys(tokens))[:_MAX_TOKENS], 1),
        short_text=short_text,
    )


def _short(text: str) -> str | None:
    """A short text as one line of printable characters; None for a long text."""
    if len(text) > 2 * _MAX_SHORT_CHARACTERS:
        return None
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= _MAX_SHORT_CHARACTERS else None


def _is_image(name: str | None) -> bool:
    return name is not None and _IMAGE.fullmatch(name) is not None


def _first_tag(text: str) -> str:
    start = text.lstrip()[:10_000]
    match = _FIRST_TAG.match(start)
    if match is None or _SPECIAL_TOKEN.match(start):
        return ""
    name = (match["angle"] or match["triangle"] or match["square"]).strip("/ ")
    if _is_image(name) or (match["angle"] and name.lower() in _ELEMENTS):
        return ""
    return " ".join(match[0].split())
