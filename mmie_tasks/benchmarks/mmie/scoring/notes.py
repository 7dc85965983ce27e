"""What to know beside a run's numbers, a line each: what was not judged whole, and by whom."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from mmie_tasks.benchmarks.mmie.scoring.metrics import JUDGE_WINDOW, Facts, facts_in, was_parsed
from mmie_tasks.benchmarks.mmie.scoring.totals import official_of, robust_of
from mmie_tasks.replies import replies_in_words
from mmie_tasks.verdict import Unscored, Verdict

Record: TypeAlias = Mapping[str, object]

PARSE_RATE_FLOOR = 95.0
"""Percent. The published numbers imply that nearly every reply could be read."""


def notes(records: Sequence[Record]) -> Iterator[str]:
    """The lines; each that counts something is there also where it counts none."""
    facts = [facts_in(record) for record in records]
    yield _answers(facts)
    dropped = sum(each.dropped for each in facts)
    yield f"left out by the official script, for more than 4 images: {dropped}"
    yield _images("missing", [each.missing_images for each in facts])
    yield _images("unusable", [each.bad_images for each in facts])
    yield _long(facts)
    cut = sum(each.truncated for each in facts)
    yield f"answers cut by the cap on images: {cut}"
    yield _typed(facts)
    yield _parse_rate([official_of(record) for record in records])
    yield f"the readings differ on {sum(bool(record['differ']) for record in records)}"
    for name, reading in (("official", official_of), ("robust", robust_of)):
        yield _unscored(name, [reading(record) for record in records])
    yield replies_in_words(records)


def _answers(facts: Sequence[Facts]) -> str:
    shapes = _listed(Counter(each.shape or "none" for each in facts))
    given, shown = (
        sum(getattr(each, name) for each in facts) for name in ("answer_images", "shown_images")
    )
    tiles = sum(each.tiles for each in facts)
    return (
        f"answers: {shapes}; {given} images in them; "
        f"{shown} images shown to the judge, the questions' included, in {tiles} tiles"
    )


def _images(kind: str, counts: Sequence[int]) -> str:
    return f"{kind} images: {sum(counts)}, in {sum(map(bool, counts))} samples"


def _long(facts: Sequence[Facts]) -> str:
    """How many requests are longer than what the judge was trained on."""
    lengths = [each.judge_tokens for each in facts if each.judge_tokens is not None]
    exact = sum(each.judge_tokens_exact for each in facts if each.judge_tokens is not None)
    said = f"requests over {JUDGE_WINDOW:,} tokens of the judge: "
    if not lengths:
        return f"{said}unknown"
    how = [("counted", exact), ("estimated", len(lengths) - exact)]
    how.append(("unknown", len(facts) - len(lengths)))
    over = sum(length > JUDGE_WINDOW for length in lengths)
    return f"{said}{over} of {len(lengths)}; lengths {_listed({k: n for k, n in how if n})}"


def _typed(facts: Sequence[Facts]) -> str:
    typed: Counter[str] = Counter()
    for each in facts:
        typed.update(each.typed)
    samples = sum(any(each.typed.values()) for each in facts)
    listed = f": {_listed(+typed)}" if samples else ""
    return f"samples with a control string of the judge typed in them: {samples}{listed}"


def _parse_rate(verdicts: Sequence[Verdict]) -> str:
    read = [found for verdict in verdicts if (found := was_parsed(verdict)) is not None]
    if not read:
        return "replies read: there are none"
    rate = 100 * sum(read) / len(read)
    warning = ""
    if rate < PARSE_RATE_FLOOR:
        warning = (
            f"\nWARNING: below {PARSE_RATE_FLOOR:.0f} %: the mean is over the samples that the "
            "judge could put a score on, and these may not be like the others"
        )
    return f"replies read: {rate:.2f} % of {len(read)}{warning}"


def _unscored(name: str, verdicts: Sequence[Verdict]) -> str:
    reasons: Counter[str] = Counter()
    reasons.update(verdict.reason for verdict in verdicts if isinstance(verdict, Unscored))
    return f"unscored in the {name} reading: {_listed(reasons)}" if reasons else ""


def _listed(counts: Mapping[str, int]) -> str:
    """Names and counts, most first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} ({n})" for name, n in ordered)
