"""The robust reader of a judge's reply: the points that it evidently gives.

1. The reply is one JSON object, alone, in a code fence or with prose around it. Further objects
   with points must be equal to it.
2. An object under ``scores`` takes its place.
3. The seven metrics are matched by the letters of their names; other keys are ignored.
4. The points of a metric are a number, a text such as ``8`` or ``8/10``, or such a value under
   ``Score``. True and false do not count.
5. All seven metrics need points from 0 to 10: without points the reply is ``unparsed``, with other
   points ``off_scale``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from mmie_tasks.benchmarks.opening.official import FULL_MARKS, METRICS, MetricScores
from mmie_tasks.benchmarks.reply_text import json_objects
from mmie_tasks.core.verdict import Scored, Unscored, Verdict

_FRACTION = re.compile(rf"\s*(-?\d{{1,4}}(?:\.\d{{1,4}})?)\s*(?:/\s*{FULL_MARKS}\s*)?", re.ASCII)


def read_scores(reply: str) -> MetricScores | Unscored:
    """The points of the seven metrics, in the official order.

    >>> read_scores('Here: {"scores": {"Correctness": {"Score": 7}}}').detail
    'no points for Image-Text Coherency'
    """
    readings: list[MetricScores | Unscored] = []
    for value in json_objects(reply, json.JSONDecoder()):
        scores = _scores(value)
        if scores is not None and scores not in readings:
            readings.append(scores)
    if not readings:
        return Unscored("unparsed", "no JSON object with a metric")
    if len(readings) > 1:
        return Unscored("unparsed", "two JSON objects with different points")
    return readings[0]


def read_robust(reply: str) -> Verdict:
    """The mean of the points of the seven metrics, 0 to 10.

    >>> from mmie_tasks.benchmarks.opening.official import METRICS
    >>> points = {name.lower(): "7/10" for name in METRICS}
    >>> read_robust(f"Here you are: {json.dumps({'scores': points})}")
    Scored(points=7.0, reading='')
    """
    scores = read_scores(reply)
    if isinstance(scores, Unscored):
        return scores
    return Scored(sum(scores.values()) / len(scores))


def _scores(value: Mapping[str, object]) -> MetricScores | Unscored | None:
    """The points of an object; None if it names no metric."""
    by_letters = {_letters(name): metric for name, metric in value.items()}
    if isinstance(wrapped := by_letters.get("scores"), Mapping):
        return _scores(wrapped)
    metrics = {name: by_letters[key] for name in METRICS if (key := _letters(name)) in by_letters}
    if not metrics:
        return None
    scores: dict[str, float] = {}
    for name in METRICS:
        points = _points(metrics.get(name))
        if points is None:
            return Unscored("unparsed", f"no points for {name}")
        scores[name] = points
    for name, points in scores.items():
        if not 0 <= points <= FULL_MARKS:
            return Unscored("off_scale", f"{name}: {points:g}")
    return scores


def _points(value: object) -> float | None:
    match value:
        case Mapping():
            inner = [entry for name, entry in value.items() if _letters(name) == "score"]
            is_plain = len(inner) == 1 and not isinstance(inner[0], Mapping)
            return _points(inner[0]) if is_plain else None
        case bool():
            return None
        case int() | float():
            try:
                return float(value) if math.isfinite(value) else None
            except OverflowError:
                return math.inf
        case str(text) if number := _FRACTION.fullmatch(text):
            return float(number[1])
    return None


def _letters(name: str) -> str:
    return re.sub(r"[\W\d_]", "", name).lower()
