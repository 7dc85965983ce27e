"""Facts about the answer of a sample and its request: counts, measures and texts, by name.

A fact's name is its key in the log and, for a count, in the results file. It is shown with blanks.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from mmie_tasks.core.wording import listed

Facts: TypeAlias = Mapping[str, int | float | str]
"""Name to a count (int), a measure (float) or a text; nothing that is zero or empty."""

_MAX_TEXTS = 9  # different texts of a fact that a line of the log counts


def facts_of(**values: float | str | Mapping[str, int] | None) -> dict[str, int | float | str]:
    """Facts without zeros, empty texts and None; a flag counts as 1, counts by name are a text.

    >>> facts_of(truncated=True, missing_images=0, tag="", not_drawn={"late": 1, "refused": 2})
    {'truncated': 1, 'not_drawn': 'refused (2), late (1)'}
    """
    facts: dict[str, int | float | str] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            value = listed({key: count for key, count in value.items() if count > 0})
        if value:
            facts[name] = int(value) if isinstance(value, bool) else value
    return facts


def shown_name(name: str) -> str:
    """The name of a fact for display: ``missing images``."""
    return name.replace("_", " ")


def totals(samples: Iterable[Facts]) -> Counter[str]:
    """The sum of each count over samples.

    >>> totals([{"missing_images": 2, "shape": "text"}, {"missing_images": 1, "depth": 0.5}])
    Counter({'missing_images': 3})
    """
    sums = Counter[str]()
    for facts in samples:
        sums.update({name: value for name, value in facts.items() if isinstance(value, int)})
    return sums


def summary_of(samples: Iterable[Facts]) -> Iterator[str]:
    """For a line of the log: each count with its sum, and each text that is one of a few.

    A count is followed by the number of its samples.

    >>> samples = [{"shape": "text", "missing_images": 2}, {"shape": "text"}, {"shape": "parts"}]
    >>> list(summary_of(samples))
    ['shape: text (2), parts (1)', 'missing images: 2 in 1']
    """
    values: defaultdict[str, Counter[int | str]] = defaultdict(Counter)
    for facts in samples:
        for name, value in facts.items():
            if not isinstance(value, float):
                values[name][value] += 1
    for name, counts in values.items():
        texts = {text: count for text, count in counts.items() if isinstance(text, str)}
        if not texts:
            total = sum(int(value) * count for value, count in counts.items())
            yield f"{shown_name(name)}: {total:,} in {counts.total():,}"
        elif len(texts) == 1 or len(texts) <= min(_MAX_TEXTS, counts.total() - 1):
            yield f"{shown_name(name)}: {listed(texts)}"
