"""Runs for a report: small and hostile, or large and plain."""

import base64
from dataclasses import replace
from pathlib import Path

from mmie_tasks.record.metrics import Metric
from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.segment import Segment
from mmie_tasks.results.report import report_page
from support.judgements import replied
from support.report_runs import SCALE, SKETCH, run, sample
from support.unloaded_benchmark import varied

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
LONG = "a" * 19_000
SIGNATURE = f"judge:a|model:m|note:{ATTACK}"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)

# Official and robust points of the first run, and of the second, which lacks the second sample.
POINTS = (
    *((6, 6, 5), (0, 0, None), (3, 4, 3), (None, None, 2)),
    *((2, 2, 2), (5, 5, 0), (1, 1, 1), (4, 4, 4)),
)
IDS = [f"id-{index} {text}" for index, text in enumerate(HOSTILE)]
FIELDS = ("alike", "alike", MARKUP, *HOSTILE[3:])  # titles of metrics of one sample each


def _metric(kind, by, group, title):
    name = f"{kind}-{group}"
    return Metric(name=name, title=title, kind=kind, by=by, weights={group: 1.0})


BENCHMARK = varied(
    SKETCH,
    name="mmie",
    title="MMIE",
    scale=replace(SCALE, full_marks=6, unit="points, 0 to 6", percent=lambda mean: mean / 0.06),
    metrics=(
        Metric(name="", title="Overall", kind="headline"),
        *(
            _metric(kind, "place", str(index), title)
            for kind in ("component", "field", "level")
            for index, title in enumerate(FIELDS)
        ),
    ),
)


def _sample(index, official, robust, answer, picture):
    text = HOSTILE[index]
    reply = JudgeReply(
        text=f"### Feedback\n{text}\n### Score\n{official}",
        model="judge-model",
        usage=Usage(input_tokens=1234, output_tokens=56, cost_usd=0.0021),
        finish="stop",
        cached=True,
    )
    missing = Segment(image=text, problem="no such file", prompt=f"prompt of the missing {text}")
    return sample(
        IDS[index],
        official,
        robust,
        signature=SIGNATURE,
        question=(Segment(f"Question {index}: {text}"), missing, Segment("and then?")),
        gold=(Segment("gold"),),
        answer=(Segment(answer), Segment(image=str(picture), prompt=f"prompt {text}")),
        judgements=replied(reply),
        groups={"category": (("even", ATTACK)[index % 2],), "place": (str(index),)},
        facts={
            "characters": 12.0,
            "needle_length": 8.0 * (1 + index % 3),
            "needle_depth": index / 8,
            text[:40]: text[:60],
        },
        shares={"official": {"tone": 0.5}, "robust": {"tone": 1.0}},
    )


def hostile_runs(folder):
    """Two runs of two tasks, in which every text is an attack; the answers have a picture."""
    picture = folder / "pixel.png"
    picture.write_bytes(PIXEL)
    first, second = [], []
    for index, (official, robust, other) in enumerate(POINTS):
        text = HOSTILE[index] if index else LONG
        first.append(_sample(index, official, robust, text, picture))
        if index != 1:
            second.append(_sample(index, other, other, f"another answer {index}", picture))
    runs = []
    for name, samples in zip(NAMES, (first, second), strict=True):
        settings = {"benchmark": BENCHMARK, "notes": (ATTACK,), "stored": {"official": 47.0}}
        tasks = [run(name, samples, task, **settings) for task in ("mmie", "mmie_sa")]
        of_both = {**tasks[0].tasks, **tasks[1].tasks}
        runs.append(replace(tasks[0], tasks=of_both, notes=(ATTACK,), folder=Path(f"out/{ATTACK}")))
    return runs


def page_of(runs, **settings):
    options = {"title": f"Report {ATTACK}", "max_samples": 1000, **settings}
    return report_page(runs, **options).encode().decode()
