"""Answers of a task with a text that the tested model may not have written, or not so."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from mmie_tasks.core.verdict import Unscored
from mmie_tasks.core.wording import counted
from mmie_tasks.record.sample import LoggedSample

_MIN_SAME = 3
_MIN_SHARE, _MIN_SHARE_OF_WORDS = 0.005, 0.05  # of the answers; of one or two words
# A letter, yes or no, a word with a number; and "the answer is ...".
_USUAL = re.compile(
    r"[a-z]|yes|no|true|false|\S*\d\S*(?: \S+)?"
    r"|(?:the )?(?:\w+ )?(?:answer|option|choice)(?: is|:).*"
)
_MAX_NAMED = 3
_MAX_QUOTED_CHARACTERS = 60


def text_marks(samples: Sequence[LoggedSample]) -> Iterator[str]:
    """How many answers begin with a tag or contain special tokens, and which short texts answer
    several samples: ``40 answers are the same: `I cannot help.` ``.

    A short text counts if it answers three samples, and one in 200, or more; one or two words, one
    in 20. It is not the gold answer of a sample, a letter, a number, yes or no, and not of the form
    "the answer is ...".
    """
    answered = [sample for sample in samples if not _is_missing(sample)]
    tags = Counter(sample.text.tag for sample in answered if sample.text.tag)
    if n_tags := tags.total():
        verb = "begins" if n_tags == 1 else "begin"
        yield f"{counted(n_tags, 'answer')} {verb} with a tag: {_named(tags)}"
    tokens = Counter(token for sample in answered for token in sample.text.special_tokens)
    if n_tokens := sum(bool(sample.text.special_tokens) for sample in answered):
        verb = "contains" if n_tokens == 1 else "contain"
        yield f"{counted(n_tokens, 'answer')} {verb} special tokens: {_named(tokens)}"
    for text, count in _same_texts(answered)[:_MAX_NAMED]:
        yield (
            f"{count:,} answers are the same: `{_quoted(text)}`"
            if text
            else f"{count:,} answers are empty"
        )


def _is_missing(sample: LoggedSample) -> bool:
    verdict = sample.official
    return isinstance(verdict, Unscored) and verdict.reason in ("no_answer", "not_text")


def _named(counts: Counter[str]) -> str:
    """Names, the most frequent first, with their numbers if there are several."""
    if len(counts) == 1:
        return f"`{next(iter(counts))}`"
    more = f" and {len(counts) - _MAX_NAMED:,} more" if len(counts) > _MAX_NAMED else ""
    named = counts.most_common(_MAX_NAMED)
    return ", ".join(f"`{name}` ({count:,})" for name, count in named) + more


def _same_texts(samples: Sequence[LoggedSample]) -> list[tuple[str, int]]:
    counts = Counter(s.text.short_text for s in samples if s.text.short_text is not None)
    gold = {_plain(segment.text) for sample in samples for segment in sample.gold if segment.text}
    return [
        (text, count)
        for text, count in counts.most_common()
        if count >= max(_MIN_SAME, _min_share(text) * len(samples))
        and _plain(text) not in gold
        and not _USUAL.fullmatch(_plain(text))
    ]


def _min_share(text: str) -> float:
    return _MIN_SHARE if len(text.split()) not in (1, 2) else _MIN_SHARE_OF_WORDS


def _plain(text: str) -> str:
    return text.strip(" .!()[]*\"'").casefold()


def _quoted(text: str) -> str:
    long = len(text) > _MAX_QUOTED_CHARACTERS
    return f"{text[:_MAX_QUOTED_CHARACTERS].rstrip()}…" if long else text
