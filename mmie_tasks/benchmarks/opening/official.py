"""The official reader of a judge's reply, and the official table of a model.

Source: ``get_gpt4answer`` of ``GPT_score_A.py`` (194-224) reads a reply, and ``process_gpt_scores``
of ``summarize_GPT_scores.py`` (23-85) averages what was read (LanceZPF/OpenING at 56b663b).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from mmie_tasks.core.verdict import Scored, Unscored, Verdict

METRICS = (
    "Correctness",
    "Image-Text Coherency",
    "Multi-step Consistency",
    "Content Quality",
    "Human Preference Alignment",
    "Completeness",
    "Content Richness",
)
"""What a reply has points for, in the order of the judge's schema."""

FULL_MARKS = 10
OVERALL = "Overall"

MetricScores: TypeAlias = Mapping[str, float]
"""Metric to its points, 0 to 10 if the judge keeps to the scale. A reply may name other metrics."""

_SCORE, _WRAPPER = "Score", "scores"


def asks_again(reply: str) -> bool:
    """Whether the official script repeats the request: no JSON, or a value such as ``{}``.

    The script repeats without limit; our judges are asked once more.

    >>> asks_again('{"Correctness": {"Score": 7}}'), asks_again("null"), asks_again("I cannot.")
    (False, True, True)
    """
    try:
        return not json.loads(reply)
    except (ValueError, RecursionError):
        return True


def read_scores(reply: str) -> MetricScores | Unscored:
    """The points that a reply adds to each metric, in the order of the reply.

    * A reply without JSON, or with JSON that counts as false, is asked again: ``unparsed``.
    * JSON that is not an object, or a ``scores`` that is neither an object nor null, fails in the
      summary: ``not_scorable``.
    * A ``scores`` without a ``Score``, and any ``Score`` that is null: ``left_out``. So the form
      that the judge's own instructions describe is left out.
    * Every object with a ``Score`` is a metric, whatever its name. A number counts, also outside 0
      to 10; true is 1. Another value, such as ``"8"``, does not count.

    >>> read_scores('{"Correctness": {"Score": 7}, "Completeness": {"Score": "8"}}')
    {'Correctness': 7.0}
    >>> read_scores('{"scores": {"Correctness": {"Score": 7}}}').reason
    'left_out'
    """
    if asks_again(reply):
        return Unscored("unparsed", "no JSON that the official script accepts")
    value = json.loads(reply)
    if not isinstance(value, dict):
        return Unscored("not_scorable", f"JSON of the type {type(value).__name__}")
    wrapped = value.get(_WRAPPER, {_SCORE: 0})
    if wrapped is not None and not isinstance(wrapped, dict):
        return Unscored("not_scorable", f"`{_WRAPPER}` is {type(wrapped).__name__}")
    if wrapped is None or wrapped.get(_SCORE) is None:
        return Unscored("left_out", f"the official summary drops a reply with `{_WRAPPER}`")
    metrics = {
        name: metric[_SCORE]
        for name, metric in value.items()
        if isinstance(metric, dict) and _SCORE in metric
    }
    if empty := [name for name, score in metrics.items() if score is None]:
        return Unscored("left_out", f"no points for {empty[0][:80]}")
    try:
        return {
            name: float(score) for name, score in metrics.items() if isinstance(score, (int, float))
        }
    except OverflowError:
        return Unscored("not_scorable", "a number that is too large")


def read_official(reply: str) -> Verdict:
    """The mean of the points that a reply adds to the metrics, not clamped to 0 to 10.

    >>> read_official('{"Correctness": {"Score": 7}, "Completeness": {"Score": 8}}')
    Scored(points=7.5, reading='')
    """
    scores = read_scores(reply)
    if isinstance(scores, Unscored):
        return scores
    if not scores:
        return Unscored("unparsed", "no metric has a number")
    points = sum(scores.values()) / len(scores)
    if not math.isfinite(points):
        return Unscored("not_scorable", "a score is not a finite number")
    return Scored(points)


def summary(replies: Iterable[MetricScores]) -> dict[str, float]:
    """The official table's row of a model: metric to its mean, and `OVERALL`; empty without scores.

    The mean of a metric is rounded to 2 decimals, and `OVERALL` is the mean of the rounded means,
    rounded again (66-81). Another order changes 3 of the 11 published rows.

    >>> summary([{"Correctness": 7.0, "Completeness": 8.0}, {"Correctness": 6.0}])
    {'Correctness': 6.5, 'Completeness': 8.0, 'Overall': 7.25}
    """
    columns: dict[str, list[float]] = {}
    for scores in replies:
        for name, score in scores.items():
            columns.setdefault(name, []).append(score)
    row = {name: round(sum(column) / len(column), 2) for name, column in columns.items()}
    return {**row, OVERALL: round(sum(row.values()) / len(row), 2)} if row else {}
