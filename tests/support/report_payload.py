"""A report's payload made by hand: small and hostile, or large and plain."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from itertools import product
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


def figure(percent: float | None, scored: int = 8, total: int = 8) -> Json:
    low, high = (None, None) if percent is None else (percent - 4.0, percent + 4.0)
    why_not = f"only {scored} of {total} samples have a score" if percent is None else ""
    counts = {"scored": scored, "total": total, "why_not": why_not, "stored": None}
    return {"percent": percent, "low": low, "high": high, **counts}


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
        cells[0]["expected"] = figure(first + 0.5) | {"low": None, "high": None}
    return {"name": name, "title": title, "cells": cells, "difference": difference(*percents)}


def table(kind: str, title: str, *rows: Json, has_expected: bool = True) -> Json:
    return {"kind": kind, "title": title, "has_expected": has_expected, "rows": list(rows)}


def difference(*percents: float | None) -> Json | None:
    """The second less the first, of ten pairs; or why there is none."""
    content = {"why_no_interval": "", "pairs": 10}
    match percents:
        case (float(first), float(second)):
            value = second - first
            numbers = {"value": value, "low": value - 20, "high": value + 20, "p": 0.5}
            return content | numbers | {"may_be_chance": True, "why_not": ""}
        case (_, _):
            absent = dict.fromkeys(("value", "low", "high", "p"))
            return content | absent | {"may_be_chance": False, "why_not": f"B: {ATTACK}"}
    return None


def summary(run: int, *marks: str, corrected: Json | None = None) -> Json:
    content = {"run": run, "judge": ATTACK, "grades": ["ungraded"], "published": 20_103}
    return {**content, "marks": list(marks), "corrected": corrected}


def chart(kind: str, labels: Sequence[str], unit: str = "percent") -> Json:
    """Of two runs; the first bar of the first has no value."""
    series = []
    for run, (reading, more) in product((0, 1), (("official", 0), ("robust", 4))):
        values: list[Any] = [20 + 7 * run + 3 * index % 50 + more for index in range(len(labels))]
        columns: dict[str, list[Any]] = {
            "values": values,
            "low": [value - 3 for value in values],
            "high": [value + 3 for value in values],
            "why_not": [""] * len(labels),
        }
        if (kind, run, reading) == ("bars", 0, "official"):
            for column in columns.values():
                column[0] = None
            columns["why_not"][0] = NO_SCORE
        series.append({"run": run, "reading": reading, **columns})
    head = {"id": f"{kind}-{len(labels)}", "title": f"Some {kind}", "type": kind, "unit": unit}
    return {**head, "x": list(labels), "series": series}


def heat(run: int) -> Json:
    head = {"id": f"heat-{run}", "title": "Needles", "type": "heat", "unit": "percent", "run": run}
    return {
        **head,
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
    reply = {"text": f"### Feedback\n{text}\n### Score\n{official}", "model": "judge-model"}
    usage = {"input_tokens": 1234, "output_tokens": 56, "cost_usd": 0.0021}
    drawn = {"image": "x-picture-0", "alt": text, "note": "", "prompt": f"prompt {text[:200]}"}
    expected = {"points": 4.31, "reading": "", "entropy_bits": 0.8}
    return {
        "answer": [{"text": text}, drawn],
        "official": verdict(official),
        "robust": verdict(robust),
        "expected": expected if signature == 0 else None,
        "replies": [{**reply, "finish": "stop", "cached": True, **usage}],
        "signature": signature,
        "facts": {"characters": 12.0, "fits": True, text[:40]: text[:60]},
        "parts": {"official": {"tone": 0.5}, "robust": {"tone": 1.0}},
    }


def detail(index: int, official: float | None, robust: float | None, other: float | None) -> Json:
    text = HOSTILE[index % len(HOSTILE)]
    missing = {"image": None, "alt": text, "note": "no such file"}
    missing["prompt"] = f"prompt of the missing {text}"
    return {
        "question": [{"text": f"Question {index}: {text}"}, missing, {"text": "and then?"}],
        "gold": [{"text": "gold"}, {"image": "x-picture-1", "alt": "", "note": ""}],
        "runs": [
            in_run(text if index else LONG, official, robust),
            None if index == 1 else in_run(f"another answer {index}", other, other, 1),
        ],
    }


def samples() -> Json:
    """The columns of the samples of `POINTS`; the second run lacks the second sample."""
    official, robust, other = (list(column) for column in zip(*POINTS, strict=True))
    texts = [HOSTILE[index % len(HOSTILE)] for index in range(len(POINTS))]
    missing = [index == 1 for index in range(len(POINTS))]
    reasons = [["" if v is not None else "unparsed" for v in run] for run in (official, other)]
    reasons[1][1] = ""
    disputed = []
    for index, points in enumerate(POINTS):
        scored = [value for value in points if value is not None]
        is_half_scored = len(scored) < 3 and index != 1
        disputed.append(1.0 if is_half_scored else (max(scored) - min(scored)) / 6)
    of = [[index % 2] for index in range(len(POINTS))]
    return {
        "ids": [f"id-{index} {text}" for index, text in enumerate(texts)],
        "first": [f"Question {index}: {text}" for index, text in enumerate(texts)],
        "points": {"official": [official, other], "robust": [robust, other]},
        "reasons": {"official": reasons, "robust": reasons},
        "missing": [[False] * len(POINTS), missing],
        "groups": {"category": {"names": ["even", ATTACK], "of": of}},
        "disputed": disputed,
    }


# Official and robust points of the first run, and of the second.
POINTS: tuple[tuple[int | None, int | None, int | None], ...] = (
    *((6, 6, 5), (0, 0, None), (3, 4, 3), (None, None, 2)),
    *((2, 2, 2), (5, 5, 0), (1, 1, 1), (4, 4, 4)),
)


def hostile() -> Json:
    """Two runs of two tasks, in which every text is an attack."""
    labels = ["alike", "alike", MARKUP, *HOSTILE]
    spent = {"replies": 8, "cached": 3, "models": {ATTACK: 8}, "input_tokens": 9000}
    details = [detail(index, *points) for index, points in enumerate(POINTS)]
    stored = row("", "Overall", 48.11, None)
    stored["cells"][0]["official"]["stored"] = 47.0
    few_pairs = row("1", "EECS", 10.0, 20.0)
    few_pairs["difference"] |= {"low": None, "high": None, "why_no_interval": "fewer than 10 pairs"}
    categories = [row(str(index), text, 10.0, 20.0) for index, text in enumerate(HOSTILE)]
    task = {
        "task": "mmie",
        "title": "MMIE",
        "unit": "points, 0 to 6",
        "full_marks": 6,
        "whole": True,
        "judged": True,
        "present": [0, 1],
        "summaries": [summary(0), summary(1, "8 of 20,103 samples (--limit 8)", *HOSTILE)],
        "signatures": [f"judge:a|model:m|note:{ATTACK}", "judge:b|model:m|note:"],
        "signature_rows": [
            {"key": "judge", "values": ["a", "b"], "differs": True},
            {"key": "model", "values": ["m", "m"], "differs": False},
            {"key": "note", "values": [ATTACK, ""], "differs": True},
        ],
        "mixed_keys": ["judge", "note"],
        "notes": [[None, ATTACK], [1, HOSTILE[1]]],
        "spend": [[0, {**spent, "output_tokens": 70, "cost_usd": 0.5}]],
        "tables": [
            table("headline", "Headline", stored),
            table("category", "By category", *categories),
            table("field", "By field", row("0", "Health", None, 20.0), few_pairs),
        ],
        "charts": [
            *(chart("bars", labels), chart("bars", labels[:3])),
            *(chart("radar", labels), chart("lines", labels[:4])),
            chart("histogram", ["0", "1", "no score"], "samples"),
            heat(1),
        ],
        "samples": samples() | {"chunk_starts": [0, 3]},
        "chunks": [packed(details[:3]), packed(details[3:])],
    }
    folder = {"folder": f"out/{ATTACK}", "started": "2026-11-21 04:00 UTC", "notes": [ATTACK]}
    return {
        "title": f"Report {ATTACK}",
        "made": "2026-11-21 14:00 UTC",
        "package": "0.1.0",
        "method": "Intervals are made up.",
        "judge_error": "The intervals hold something.",
        "judges": [f"Judge of MMIE: {ATTACK} is ungraded."],
        "runs": [{"name": name, **folder} for name in NAMES],
        "pictures": [PIXEL, "javascript:window.pwned=8"],
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
    starts, reasons = list(range(0, count, chunk)), [[""] * count]
    field = {"names": ["a", "b"], "of": [[index % 2] for index in range(count)]}
    task = payload["tasks"][0] | {
        "present": [0],
        "summaries": [summary(0)],
        "charts": [],
        "tables": [table("headline", "Headline", row("", "All", 50.0), has_expected=False)],
        "notes": [],
        "spend": [],
        "signatures": ["judge:a"],
        "signature_rows": [{"key": "judge", "values": ["a"], "differs": False}],
        "mixed_keys": [],
        "samples": {
            "ids": [f"id-{index}" for index in range(count)],
            "first": [f"Question {index}" for index in range(count)],
            "points": {"official": [points], "robust": [points]},
            "reasons": {"official": reasons, "robust": reasons},
            "missing": [[False] * count],
            "groups": {"field": field},
            "disputed": [0.0] * count,
            "chunk_starts": starts,
        },
        "chunks": [packed(details[start : start + chunk]) for start in starts],
    }
    return payload | {"runs": payload["runs"][:1], "tasks": [task]}
