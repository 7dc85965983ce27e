"""A report's payload made by hand: small and hostile, or large and plain."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from typing import Any

Json = dict[str, Any]

ATTACK = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
HOSTILE = (
    ATTACK,
    "</script><script>window.pwned = 3</script>",
    "<!--<script>",
    "{{ 7 * 7 }} {% raw %} ${window.pwned = 4}",
    "\u202egnitseretni\u202c \u2066and\u200b so\u2028on",
    "javascript:window.pwned = 5",
    "' onmouseover='window.pwned = 6' x=\"",
    "<svg><style>*{display:none}</style></svg> &lt;b&gt; &amp;",
)
NAMES = ("first", "<b onclick=window.pwned=7>second & third</b>")
MARKUP = "<b>bold</b> &lt;i&gt;"  # as the charting library would read it
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
LONG = "a" * 100_000
NO_SCORE = "no score: only <3> of 8 samples have a score"


def packed(details: Sequence[Json]) -> str:
    return base64.b64encode(gzip.compress(json.dumps(details).encode(), mtime=0)).decode()


def figure(percent: float | None, scored: int = 8, total: int = 8, **more: Any) -> Json:
    defined = percent is not None
    low, high = (percent - 4.0, percent + 4.0) if percent is not None else (None, None)
    why_not = "" if defined else f"only {scored} of {total} samples have a score"
    content = {"percent": percent, "low": low, "high": high, "scored": scored, "total": total}
    return {**content, "why_not": why_not, "stored": None, **more}


def row(name: str, title: str, *percents: float | None) -> Json:
    cells = [
        {
            "official": figure(percent, scored=8 if percent is not None else 3),
            "robust": figure(None if percent is None else percent + 1.5),
            "differ": 1,
        }
        for percent in percents
    ]
    if (first := percents[0]) is not None:  # the second run has no expected scores
        cells[0]["expected"] = figure(first + 0.5, low=None, high=None)
    return {"name": name, "title": title, "cells": cells, "difference": difference(*percents)}


def difference(*percents: float | None) -> Json | None:
    """The second less the first, of ten pairs; or why there is none."""
    if len(percents) != 2:
        return None
    value = None if None in percents else percents[1] - percents[0]  # type: ignore[operator]
    ends = {"low": None, "high": None} if value is None else {"low": value - 20, "high": value + 20}
    return {
        "value": value,
        **ends,
        "why_no_interval": "",
        "p": None if value is None else 0.5,
        "may_be_chance": value is not None,
        "pairs": 10,
        "why_not": f"B: {ATTACK}" if value is None else "",
    }


def summary(run: int, *marks: str, corrected: Json | None = None) -> Json:
    content = {"run": run, "judge": ATTACK, "grades": ["ungraded"], "published": 20_103}
    return {**content, "marks": list(marks), "corrected": corrected}


def chart(kind: str, labels: Sequence[str], runs: int, unit: str = "percent") -> Json:
    series = []
    for run in range(runs):
        for reading in ("official", "robust"):
            values = [20.0 + 7 * run + 3 * index % 50 for index in range(len(labels))]
            if reading == "robust":
                values = [value + 4 for value in values]
            if unit == "samples":
                values = [int(value) for value in values]
            ends = {"low": [value - 3 for value in values], "high": [value + 3 for value in values]}
            columns: dict[str, list[Any]] = {
                "values": values,
                **ends,
                "why_not": [""] * len(labels),
            }
            if (kind, run, reading) == ("bars", 0, "official"):
                for column in columns.values():
                    column[0] = None
                columns["why_not"][0] = NO_SCORE
            series.append({"run": run, "reading": reading, **columns})
    return {
        "id": f"{kind}-{len(labels)}",
        "title": f"Some {kind}",
        "type": kind,
        "unit": unit,
        "x": list(labels),
        "series": series,
    }


def heat(run: int) -> Json:
    return {
        "id": f"heat-{run}",
        "title": "Needles",
        "type": "heat",
        "unit": "percent",
        "run": run,
        "x": ["8", "16", ATTACK],
        "y": ["0 to 50 %", "50 to 100 %"],
        "z": [[100.0, 40.0, None], [60.0, 0.0, 25.0]],
        "counts": [[3, 2, 0], [5, 4, 4]],
    }


def verdict(points: float | None, reason: str = "unparsed") -> Json:
    if points is None:
        return {"unscored": reason, "detail": ATTACK}
    return {"points": points, "reading": f"{points:g}"}


def in_run(text: str, official: float | None, robust: float | None, signature: int = 0) -> Json:
    reply = {
        "text": f"### Feedback\n{text}\n### Score\n{official}",
        "model": "judge-model",
        "finish": "stop",
        "cached": True,
        "input_tokens": 1234,
        "output_tokens": 56,
        "cost_usd": 0.0021,
    }
    return {
        "answer": [
            {"text": text},
            {"image": PIXEL, "alt": text, "note": "", "prompt": f"prompt {text[:200]}"},
        ],
        "official": verdict(official),
        "robust": verdict(robust),
        "expected": {"points": 4.31, "reading": "", "entropy_bits": 0.8}
        if signature == 0
        else None,
        "replies": [reply],
        "signature": signature,
        "facts": {"characters": 12.0, "fits": True, text[:40]: text[:60]},
        "parts": {"official": {"tone": 0.5}, "robust": {"tone": 1.0}},
    }


def detail(index: int, official: float | None, robust: float | None, other: float | None) -> Json:
    text = HOSTILE[index % len(HOSTILE)]
    missing = {
        "image": None,
        "alt": text,
        "note": "no such file",
        "prompt": f"prompt of the missing {text}",
    }
    return {
        "question": [{"text": f"Question {index}: {text}"}, missing, {"text": "and then?"}],
        "gold": [{"text": "gold"}, {"image": "javascript:window.pwned=8", "alt": "", "note": ""}],
        "runs": [
            in_run(text if index else LONG, official, robust),
            None if index == 1 else in_run(f"another answer {index}", other, other, 1),
        ],
    }


def samples(points: Sequence[tuple[float | None, float | None, float | None]], full: float) -> Json:
    official, robust, other = (list(column) for column in zip(*points, strict=True))
    missing = [index == 1 for index in range(len(points))]
    reasons = [
        ["" if value is not None else "unparsed" for value in run] for run in (official, other)
    ]
    reasons[1][1] = ""

    def difference(index: int) -> float:
        scored = [value for value in points[index] if value is not None]
        return 1.0 if len(scored) < 3 and index != 1 else (max(scored) - min(scored)) / full

    return {
        "ids": [f"id-{index} {HOSTILE[index % len(HOSTILE)]}" for index in range(len(points))],
        "first": [
            f"Question {index}: {HOSTILE[index % len(HOSTILE)]}" for index in range(len(points))
        ],
        "points": {"official": [official, other], "robust": [robust, other]},
        "reasons": {"official": reasons, "robust": reasons},
        "missing": [[False] * len(points), missing],
        "groups": {
            "category": {
                "names": ["even", ATTACK],
                "of": [[index % 2] for index in range(len(points))],
            }
        },
        "disputed": [difference(index) for index in range(len(points))],
    }


POINTS = (
    (6, 6, 5),
    (0, 0, None),
    (3, 4, 3),
    (None, None, 2),
    (2, 2, 2),
    (5, 5, 0),
    (1, 1, 1),
    (4, 4, 4),
)


def hostile() -> Json:
    """Two runs of two tasks, in which every text is an attack."""
    labels = ["alike", "alike", MARKUP, *HOSTILE]
    signatures = [f"judge:a|model:m|note:{ATTACK}", "judge:b|model:m|note:"]
    spent = {"replies": 8, "cached": 3, "models": {ATTACK: 8}, "input_tokens": 9000}
    details = [detail(index, *points) for index, points in enumerate(POINTS)]
    stored = row("", "Overall", 48.11, None)
    stored["cells"][0]["official"]["stored"] = 47.0
    few_pairs = row("1", "EECS", 10.0, 20.0)
    few_pairs["difference"] |= {"low": None, "high": None, "why_no_interval": "fewer than 10 pairs"}
    task = {
        "task": "mmie",
        "title": "MMIE",
        "unit": "points, 0 to 6",
        "full_marks": 6,
        "whole": True,
        "judged": True,
        "present": [0, 1],
        "summaries": [summary(0), summary(1, "8 of 20,103 samples (--limit 8)", *HOSTILE)],
        "signatures": signatures,
        "notes": [[None, ATTACK], [1, HOSTILE[1]]],
        "spend": [[0, {**spent, "output_tokens": 70, "cost_usd": 0.5}]],
        "tables": [
            {"kind": "headline", "title": "Headline", "has_expected": True, "rows": [stored]},
            {
                "kind": "category",
                "title": "By category",
                "has_expected": True,
                "rows": [row(str(index), text, 10.0, 20.0) for index, text in enumerate(HOSTILE)],
            },
            {
                "kind": "field",
                "title": "By field",
                "has_expected": True,
                "rows": [row("0", "Health", None, 20.0), few_pairs],
            },
        ],
        "charts": [
            chart("bars", labels, 2),
            chart("bars", labels[:3], 2),
            chart("radar", labels, 2),
            chart("lines", labels[:4], 2),
            chart("histogram", ["0", "1", "no score"], 2, "samples"),
            heat(1),
        ],
        "samples": samples(POINTS, 6) | {"chunk_starts": [0, 3]},
        "chunks": [packed(details[:3]), packed(details[3:])],
    }
    return {
        "title": f"Report {ATTACK}",
        "made": "2026-11-21 14:00 UTC",
        "package": "0.1.0",
        "method": "Intervals are made up.",
        "judge_error": "The intervals hold something.",
        "judges": [f"Judge of MMIE: {ATTACK} is ungraded."],
        "runs": [
            {
                "name": name,
                "folder": f"out/{ATTACK}",
                "started": "2026-11-21 04:00 UTC",
                "notes": [ATTACK],
            }
            for name in NAMES
        ],
        "tasks": [task, {**task, "task": "mmie_sa", "title": "MMIE, SA", "judged": False}],
    }


def large(count: int, chunk: int = 500) -> Json:
    """One run of one task with many samples, of points 0 to 6 in turn."""
    payload = hostile()
    points = [float(index % 7) for index in range(count)]
    details = [
        {"question": [{"text": f"word-{index}"}], "gold": [], "runs": [in_run("yes", value, value)]}
        for index, value in enumerate(points)
    ]
    starts = list(range(0, count, chunk))
    task = payload["tasks"][0] | {
        "present": [0],
        "summaries": [summary(0)],
        "charts": [],
        "tables": [
            {
                "kind": "headline",
                "title": "Headline",
                "has_expected": False,
                "rows": [row("", "All", 50.0)],
            }
        ],
        "notes": [],
        "spend": [],
        "signatures": ["judge:a"],
        "samples": {
            "ids": [f"id-{index}" for index in range(count)],
            "first": [f"Question {index}" for index in range(count)],
            "points": {"official": [points], "robust": [points]},
            "reasons": {"official": [[""] * count], "robust": [[""] * count]},
            "missing": [[False] * count],
            "groups": {
                "field": {"names": ["a", "b"], "of": [[index % 2] for index in range(count)]}
            },
            "disputed": [0.0] * count,
            "chunk_starts": starts,
        },
        "chunks": [packed(details[start : start + chunk]) for start in starts],
    }
    return payload | {"runs": payload["runs"][:1], "tasks": [task]}
