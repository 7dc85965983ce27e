"""The official means of MIA-Bench, for comparison with ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def score_dict(sample_scores: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each key over the samples that have it, as ``get_score_dict`` (notebook, cell 4).

    Args:
        sample_scores: Those on which `scores` did not raise.

    >>> score_dict([{"math": 1.0, "total_score": 0.5}, {"total_score": 1.0}])
    {'math': 1.0, 'total_score': 0.75}
    """
    values: dict[str, list[float]] = {}
    for scores in sample_scores:
        for key, value in scores.items():
            values.setdefault(key, []).append(value)
    return {key: sum(of_key) / len(of_key) for key, of_key in values.items()}
