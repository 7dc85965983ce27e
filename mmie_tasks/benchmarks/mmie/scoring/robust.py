"""The robust reading: what the judge evidently meant, however it put it.

Beside the official one, never instead of it. A reply is cut into sections at its headings; the
last section about the score is read, and all that it says must agree. What two careful people could
read differently is `Unscored`, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from mmie_tasks.benchmarks.mmie.scoring.claims import (
    DOUBT,
    Claim,
    enumerates,
    in_range,
    revises,
    value,
)
from mmie_tasks.benchmarks.mmie.scoring.folding import Line, fold, spoken
from mmie_tasks.benchmarks.mmie.scoring.objects import of_object
from mmie_tasks.benchmarks.mmie.scoring.sections import MODIFIERS, SEPARATED, Section, sections
from mmie_tasks.benchmarks.mmie.scoring.sentences import quotes, told
from mmie_tasks.verdict import Scored, Unscored, Verdict

LONGEST = 100_000
"""Characters of a reply that is read: many times what fits in the tokens it may have."""

_LABEL = re.compile(
    r"(?P<lead>[ \t|*\-\u2022+\"'({\[]{0,8})(?:\d{1,2}[.)][ \t]{1,3})?"
    rf"{MODIFIERS}(?P<label>scores?|rating|grade|verdict|marks?|final|overall|total)(?![\w'])"
    r"(?P<rest>.*)",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-+\u2022*][ \t]{1,3})?")
_SURE = {"score", "scores", "rating", "overall"}  # "Total: 3" may be part of an answer
_JUDGED = re.compile(r"(?:scores?|rating|grade|marks?)$", re.IGNORECASE)


def read_robust(reply: str) -> Verdict:
    r"""The points, 0 to 6, as whoever reads the reply would take them; decimals stay.

    Never raises. `Unscored` is ``off_scale`` where the judge names an impossible number, and
    ``unparsed`` where it names none, several, or one on another scale.

    >>> read_robust("Clear.\n**Score (0-6):** 4.5/6")
    Scored(points=4.5, reading='4.5')
    >>> read_robust("### Score\nSomewhere between 4 and 5").reason
    'unparsed'
    """
    if len(reply) > LONGEST:
        return Unscored("unparsed", f"the reply has {len(reply):,} characters")
    claim = of_object(spoken(reply))
    if claim is None:
        lines = fold(reply)
        claim = _of_lines(lines)
        if claim is None and any(line.fenced for line in lines) and not _announced(lines):
            claim = _of_lines([replace(line, fenced=False) for line in lines])
    return _verdict(claim)


def _verdict(claim: Claim | None) -> Verdict:
    if claim is None:
        return Unscored("unparsed", "the reply says no score")
    if claim is DOUBT:
        return Unscored("unparsed", "what the reply says of a score can be read in several ways")
    if in_range(claim):
        return Scored(claim, f"{claim:g}")
    return Unscored("off_scale", f"{claim:g} is not in 0 to 6")


def _announced(lines: Sequence[Line]) -> bool:
    """Whether a code block holds somebody else's words, as the line before it says."""
    return any(quotes(one.text) for one, two in pairwise(lines) if two.fenced and not one.fenced)


def _of_lines(lines: Sequence[Line]) -> Claim | None:
    claim = _of_headings(list(sections(lines)))
    if claim is None:
        claim = _of_labels(lines)
    if claim is None:
        claim = _of_prose([line for line in lines if line.own])
    return DOUBT if _contradicted(claim, lines) else claim


def _contradicted(claim: Claim | None, lines: Sequence[Line]) -> bool:
    """Whether the last lines are a code block that says another score."""
    if claim is None or not (lines and lines[-1].fenced):
        return False
    after = _one_of(_labelled(line.text) for line in lines if line.fenced)
    return after is not None and after != claim


# Headings.


def _of_headings(found: Sequence[Section]) -> Claim | None:
    """What the last heading about the score says, unless another contradicts it."""
    said = [(i, s, _of_section(s)) for i, s in enumerate(found) if s.rest is not None]
    foreign = [s for _, s, _ in said if s.foreign]
    own = [(i, s, c) for i, s, c in said if not s.foreign and _counts(s, c)]
    if not own:
        return DOUBT if foreign else None
    last, section, claim = own[-1]
    if claim is None:
        return DOUBT
    apart = {i for i, s in enumerate(found) if s.rest is None and not _is_feedback(s.title)}
    latest_apart = max((i for i in apart if i < last), default=-1)
    before = (other for i, _, other in own[:-1] if i < latest_apart)
    if not section.final and any(other not in (None, claim) for other in before):
        return DOUBT  # the score of another thing, or of one part
    later = (_of_labels(s.lines, finally_only=True) for s in found[last + 1 :])
    return DOUBT if any(c is not None and c != claim for c in later) else claim


def _counts(section: Section, claim: Claim | None) -> bool:
    """``### Overall`` without a number is a summary; ``### Score`` without one is a doubt."""
    return claim is not None or bool(_JUDGED.search(section.title.rstrip(":# \t")))


def _is_feedback(title: str) -> bool:
    return title.lower().startswith("feedback")


def _of_section(section: Section) -> Claim | None:
    return _one_of(_claims(section))


def _claims(section: Section) -> Iterator[Claim | None]:
    rest = section.rest or ""
    lines = [line.text for line in section.lines if line.own]
    numbered = [line for line in lines if enumerates(line)]
    listed = len(numbered) > 1 or any(re.match("1[.)]", line) for line in numbered)
    first = value(rest)
    if rest.strip(" \t:=-|"):
        yield first if first is not None else _one_of(told(section.title))
    claimed = first is not None
    for position, line in enumerate(lines):
        labelled = _labelled(line)
        of_list = listed and enumerates(line)
        alone = None if of_list else _alone(line, first=position == 0 and not claimed)
        if labelled is not None or alone is not None:
            yield labelled if labelled is not None else alone
        else:
            yield from told(line)
        if revises(line):
            yield DOUBT


def _alone(line: str, *, first: bool) -> Claim | None:
    """What a line says that is nothing but a number; the first may go on in words."""
    bare = line[_BULLET.match(line).end() :]  # type: ignore[union-attr]  # it matches anything
    claim = value(bare, own_line=bare is line or bare == line)
    if claim is DOUBT:
        return DOUBT if first else None
    if claim is not None and not first and not re.fullmatch(r"[\W\d]*\w{0,12}[\W\d]*", bare):
        return None
    return claim


def _labelled(line: str) -> Claim | None:
    """What a line says that begins with a label: ``Final score: 4``."""
    found = _LABEL.match(line)
    if found is None or not SEPARATED.match(found["rest"]):
        return None
    opened = found["lead"].strip()[-1:] in ('"', "'")
    if opened and found["rest"][:1] not in ('"', "'"):
        return None  # a quotation: "Score: 6"
    return value(found["rest"].lstrip("\"'"))


def _one_of(claims: Iterator[Claim | None]) -> Claim | None:
    """The one thing that all say; `DOUBT` where they differ."""
    said = {claim for claim in claims if claim is not None}
    return said.pop() if len(said) == 1 else (DOUBT if said else None)


# Labels and prose, where no heading speaks of a score.


def _of_labels(lines: Sequence[Line], *, finally_only: bool = False) -> Claim | None:
    """What the labelled lines say: the final ones, or else all of them together."""
    found: list[tuple[bool, Claim]] = []
    before = ""
    for position, line in enumerate(lines):
        label = _LABEL.match(line.text) if line.own else None
        claim = _labelled(line.text) if label else None
        if label and claim is None and not label["rest"].strip(" \t:=-|"):
            claim = _of_section(Section(rest="", lines=list(lines[position + 1 : position + 2])))
        sure = label and label["label"].lower() in _SURE
        if label and sure and claim is not None and not quotes(before):
            words = f"{label['mods']}{label['label']}".lower()
            found.append((re.search("final|overall|total", words) is not None, claim))
        before = line.text
    final = [claim for is_final, claim in found if is_final]
    if final or finally_only:
        after = found[found.index((True, final[-1])) :] if final else []
        return _one_of(iter([*final, *(claim for _, claim in after)]))
    return _one_of(claim for _, claim in found)


def _of_prose(lines: Sequence[Line]) -> Claim | None:
    if not lines:
        return None
    if len(lines) == 1 and (claim := value(lines[0].text, own_line=True)) not in (None, DOUBT):
        return claim if re.match(r"\W*\d", lines[0].text) else None
    last = _one_of(told(lines[-1].text, strictly=True))
    whole = _one_of(claim for line in lines for claim in told(line.text, strictly=True))
    return None if last is None else whole
