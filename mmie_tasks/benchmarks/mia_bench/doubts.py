"""Rules 3 to 5 of the robust reader: sentences and remarks that may give a verdict to somebody
else, change it or take it back.

**A remark** after a mark (3) is one of these:

* An explanation: one of ``: ; . ! -``, because, since, perhaps after a closing bracket, and next
  neither a digit (nor, after "-", a blank and a digit) nor "that". It is read as a sentence (5).
* Punctuation alone, or a comma or brackets, without numbers, only, "half of", minus, "at most", "at
  best", sic, wrong, according, per, put, puts, reports (4) and denials (5b).

**Before a verdict** (4) sentences are finished, and without other points (5a), score words (5b),
"I" as in 5d, and reports: say, says, said, claim (in any form), end, ends, closes, wrote, written
by, copied, quote, quoted, this, these, following, follow, thus, own, from, placeholder, example,
belong; and next, last, line, come, comes, follows, "part of", "text of", fake, itself, footer
(``says "..."`` and ``claims "..."`` may). The same holds between two verdicts. A line between two
marks must not end in a colon or comma, nor have give, get, earn or deserve and no full stop at its
end.

**Doubt** (5) in a sentence after the first mark (but "I hope this helps!" and "Let me know if you
have any questions." may follow):

a. A fraction ("1/4" or "1 out of 4", but not "1 of 4") of a weight or total that is not that of the
   verdict, or another number in a sentence with a score word, "I", point or component, or at the
   end of at most six words. Points that the verdict lacks ("I deducted one point") and what is in
   brackets may be.
b. A score word (score, scoring, mark, grade, verdict, total, numbers, figures), and a report or one
   of no, not, n't, never, cannot, none, would, could, should, might, may, if, unless; both in front
   of ``says "..."`` or ``claims "..."``, if that is in the sentence.
c. "This", "that", "these", "those" or "please" as the first word, perhaps after "all of" or "none
   of", unless note, poem or image is the next one; "above" anywhere.
d. "Me", "my", "mine"; "I", unless see, find, say, think, note, gave, like or deduct is next,
   perhaps after would, have, can or cannot.
e. At first, or among at most five words, one that takes back: disregard, ignore, scratch, strike,
   wait, joking, kidding, void, invalid, fake, withdrawn, retract, take, correction, "on second",
   "do not", "don't", "never mind", "not final", "not" at the end, assuming. Among at most five
   words also a report or a score word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from mmie_tasks.benchmarks.mia_bench.marks import (
    LABEL,
    MARK,
    NUMBER,
    Mark,
    component_number,
    pattern,
    read_mark,
    read_value,
    total_maxima,
)
from mmie_tasks.benchmarks.mia_bench.own_words import BLANK
from mmie_tasks.benchmarks.reply_text import NUMBER_WORD

_REPORT = (
    r"\b(?:says?|said|claim\w*|ends?|closes|wrote|written by|copied|quoted?|this|these|following"
    r"|thus|follow|own|from|placeholders?|example|belongs?)\b"
)
_DENIAL = r"\b(?:not?|never|cannot|none|(?:w|c|sh)ould|might|may|if|unless)\b|n't\b"
_POINTS_AHEAD = r"\b(?:next|last|line|comes?|part of|text of|fake|itself|footer|follows)\b"
_SCORE_WORD = r"\b(?:scores?|scoring|marks?|grades?|verdict|totals?|numbers|figures)\b"
_I = (
    r"\bI\b(?! (?:(?:would|have|can|cannot) )*"
    r"(?:see|find|say|think|note|gave|liked?|deduct(?:ed)?)\b)"
)
_TAKES_BACK = (
    r"(?:disregard|ignore|scratch|strike|wait|joking|kidding|void|invalid|fake|withdrawn|retract|take"
    r"|correction|on second|do not|don't|never mind|not(?: final|\W*$)|assuming)(?!\w)"
)
_REPORT_OR_DENIAL = pattern(rf"{_REPORT}|{_DENIAL}")
_QUOTES = pattern(rf"\b(?:says|claims) {BLANK}")

# 3. Remarks.
_EXPLAINS = re.compile(r"[)\] ]*(?:[:;.!]|-(?! ?\d)|because\b|since\b)(?!\d)\W*")
_MAY_FOLLOW = re.compile(r"[\s,;.!|)\]]*$|[,(]|\s[(\[]")
_CHANGES = pattern(
    rf"\d|\b(?:{NUMBER_WORD}|only|half of|minus|at most|at best|sic|wrong|according|per|puts?)\b"
)

# 4. Before a verdict.
_OF_SOMEBODY = pattern(rf"{_REPORT}|{_POINTS_AHEAD}|{_I}|{_SCORE_WORD}")
_LEADS_ON = pattern(r"[:,]$|\b(?:giv|get|earn|deserv)\w*\b.*(?<![.!?])$")

# 5. Doubt.
_LABEL_OR_BRACKETS = pattern(rf"^\W*(?:{LABEL}) ?: ?(?!{NUMBER})|(?<=\w) ?\([^()]*\)")
_FRACTION = pattern(rf"(?<![\w/.])(?:{MARK})")
_ENDS_IN_NUMBER = pattern(rf"(?<![\w:.])(?:{NUMBER})\W*$")
_OF_POINTS = re.compile(rf"\bI\b|(?i:{_SCORE_WORD}|\b(?:points?|component)\b)")
_LABELS = pattern(rf"\b{LABEL}")
_NUMBERS = pattern(rf"(?<![\w.]){NUMBER}")
_HAS_SCORE_WORD = pattern(_SCORE_WORD)
_BEGINS_WITH_DOUBT = pattern(
    r"\W*(?:(?:all|none) of )?(?:this|that|these|those|please)\b(?! (?:note|poem|image))"
    rf"|\W*{_TAKES_BACK}"
)
_HAS_DOUBT = pattern(rf"\babove\b|{_I}|\b(?:me|my|mine)\b")
_FEW_WORDS_OF_DOUBT = pattern(rf"\b{_TAKES_BACK}|{_REPORT}|{_SCORE_WORD}")


def reports_or_denies(text: str) -> bool:
    """Whether a text has a word of reporting, denial or condition."""
    return _REPORT_OR_DENIAL.search(text) is not None


def explanation(remark: str) -> str | None:
    """The sentence in a remark that explains the mark before it; None if it is no explanation."""
    explains = _EXPLAINS.match(remark)
    if not explains or remark[explains.end() :].lower().startswith("that "):
        return None
    return "Because " + remark[explains.end() :]


def may_change_mark(remark: str) -> bool:
    """Whether a remark may change the mark before it."""
    if explanation(remark) is not None:
        return False
    is_change = _CHANGES.search(remark) is not None or reports_or_denies(remark)
    return is_change or not _MAY_FOLLOW.match(remark)


def may_precede(sentence: str) -> bool:
    """Whether a sentence is finished and cannot give the verdict after it to somebody else."""
    plain = _QUOTES.sub("", sentence).rstrip(f"{BLANK})\"' ")
    return not plain or (plain.endswith((".", "!", "?")) and not _OF_SOMEBODY.search(plain))


def leads_on(sentence: str) -> bool:
    """Whether a sentence between two marks may give the second one to somebody else."""
    return _LEADS_ON.search(sentence) is not None


def may_take_back(sentence: str) -> bool:
    """Whether a sentence after a mark may take the verdict back (5b to 5e)."""
    own = _QUOTES.split(sentence)[0]
    return (
        (_HAS_SCORE_WORD.search(own) is not None and reports_or_denies(own))
        or _BEGINS_WITH_DOUBT.match(sentence) is not None
        or _HAS_DOUBT.search(sentence) is not None
        or (_words(sentence) <= 5 and _FEW_WORDS_OF_DOUBT.search(sentence) is not None)
    )


def names_other_points(sentence: str, marks: Mapping[int, Mark], weights: Sequence[int]) -> bool:
    """Whether a sentence has points that are not those of the verdict (5a).

    The verdict has a mark for each component, from 1; 0 is the total, if one is stated.
    """
    text = plain = _LABEL_OR_BRACKETS.sub("", sentence)
    total = sum(mark.points for number, mark in marks.items() if number)
    own = {*marks.values(), *(Mark(total, maximum) for maximum in total_maxima(weights))}
    # Another fraction. Those of the verdict go.
    for fraction in _FRACTION.finditer(plain):
        mark = read_mark(fraction[0])
        if mark in own:
            text = text.replace(fraction[0], "")
        elif mark.out_of in {*weights, *total_maxima(weights)}:
            return True
    # Another number, in a sentence about points: neither of the marks that it names, or of the
    # total, nor points that these lack.
    is_few_words = _words(plain) <= 6 and _ENDS_IN_NUMBER.search(text) is not None
    if not is_few_words and not _OF_POINTS.search(text):
        return False
    labelled = (marks.get(component_number(label)) for label in _LABELS.finditer(text))
    named = [mark for mark in labelled if mark] or [Mark(total, sum(weights))]
    allowed = {*total_maxima(weights), *(number for mark in named for number in mark)}
    lacking = max(mark.out_of - mark.points for mark in named)
    numbers = (read_value(number) for number in _NUMBERS.findall(_LABELS.sub("", text)))
    return any(number not in allowed and not 0 < number <= lacking for number in numbers)


def _words(text: str) -> int:
    return len(re.findall(r"[\w']+", text))
