"""Where a reply names a component, by number, word or ordinal, or the total."""

from __future__ import annotations

import re
from dataclasses import dataclass

TOTAL = 0
"""The number of a label that names the total."""

_WORDS = {
    word: number
    for number, words in enumerate(
        (
            "one first 1st a 一",
            "two second 2nd b 二",
            "three third 3rd c 三",
            "four fourth 4th d 四",
            "five fifth 5th e 五",
            "six sixth 6th f 六",
            "seven seventh 7th g 七",
            "eight eighth 8th h 八",
        ),
        1,
    )
    for word in words.split()
}
_ORDINAL = "first|second|third|fourth|fifth|sixth|seventh|eighth|1st|2nd|3rd|[4-8]th"
_CARDINAL = r"one|two|three|four|five|six|seven|eight|(?-i:[A-H])"
_COMPONENT = (
    r"(?:components?|comp\.?|componentes?|composants?|komponenten?|компонент\w{0,3}|criteri(?:on|a)"
    r"|sub-?instructions?|requirements?|parts?|aspects?|items?|组件|組件|部分|要素|コンポーネント)"
)
_STRONG = re.compile(
    rf"(?<![A-Za-z-])(?:{_COMPONENT}[\s#.:(\[\"'=>-]{{0,4}}"
    r"(?:(?:no|nr|number|num|id|index)[\s.:\"'=>]{0,5})?"
    rf"(?P<number>[0-9]{{1,3}}(?![0-9A-Za-z]|[.,][0-9]|\s{{0,3}}/|\s+out of\s)"
    rf"|(?:{_CARDINAL})(?![A-Za-z])|[一二三四五六七八])[)\]\"']{{0,2}}"
    rf"|(?P<ordinal>{_ORDINAL})\s+{_COMPONENT}(?![A-Za-z])"
    r"|第\s?(?P<cjk>[1-8一二三四五六七八])\s?(?:个|個|项|項)?\s?(?:组件|組件|部分|要素|コンポーネント)?)"
    r"|(?<![A-Za-z])(?<!sub-)(?<!max )(?<!maximum )(?<!possible )"
    r"(?P<total>totale?n?|over-?all|final|sum|aggregate|gesamt\w{0,12}|итог\w{0,6}"
    r"|总分|總分|总得分|总计|合计|合計)(?![A-Za-z])",
    re.IGNORECASE,
)
_WEAK = re.compile(
    r"(?:^|(?<=\n)|(?<=[!:] ))[ \t]*(?:[-\u2022>#|][ \t]*){0,4}[(\[]?(?P<list>[0-9]{1,2})"
    r"[ \t]?[.)\]:|](?![0-9])"
    r"|(?<![A-Za-z0-9])(?-i:C)(?P<letter>[1-9])(?!\w)"
    r"|(?<![A-Za-z])scores?[ #]{1,2}(?P<score>[1-9])"
    r"(?![\w/.]|\s{0,2}(?:/|[(\[]|out|of|points?|marks?))"
    r"|\b(?:id|index|number|no)[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<id>[1-9])(?![\w/.])"
    rf"|(?<![A-Za-z])(?P<ordinal>{_ORDINAL})(?![A-Za-z])",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Label:
    """A name in a folded text.

    Attributes:
        start: Where it begins.
        end: Where it ends.
        number: Of the component, from 1; `TOTAL` for the total; -1 for a number no component has.
        weak: A bare number or ordinal that may mean something else.
        beside: It names only the mark that stands beside it: ``total`` and ``first`` are also
            words of titles.
    """

    start: int
    end: int
    number: int
    weak: bool = False
    beside: bool = False


def find(text: str, *, weak: bool) -> list[Label]:
    """The labels of a folded text, in order.

    Args:
        text: See `folding.fold`.
        weak: Also take bare list numbers, table cells, ids, ``C1`` and ordinals for components.

    >>> [label.number for label in find("component one: 6/6, total: 6/10", weak=False)]
    [1, 0]
    """
    found = [_label(match, weak=False) for match in _STRONG.finditer(text)]
    if not weak:
        return found
    found += [_label(match, weak=True) for match in _WEAK.finditer(text)]
    found.sort(key=lambda label: (label.start, label.weak))
    return found


def _label(match: re.Match[str], *, weak: bool) -> Label:
    kind = str(match.lastgroup)
    if kind == "total":
        return Label(match.start(), match.end(), TOTAL, beside=True)
    word = match[kind].lower()
    number = _WORDS.get(word, 0) or (int(word) if word.isdigit() else 0)
    return Label(match.start(), match.end(), number or -1, weak, weak and kind == "ordinal")
