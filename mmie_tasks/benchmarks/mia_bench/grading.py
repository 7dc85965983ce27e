"""Both readings of what came of one request."""

from __future__ import annotations

from mmie_tasks.benchmarks.mia_bench.sample import Sample
from mmie_tasks.benchmarks.mia_bench.scoring.metrics import Grading
from mmie_tasks.benchmarks.mia_bench.scoring.official import read_official
from mmie_tasks.benchmarks.mia_bench.scoring.robust import robust
from mmie_tasks.judging import Judged


def grade(sample: Sample, judged: Judged) -> Grading:
    """The official script reads the first reply; the robust reading is of the last."""
    replies = [reply for reply in (judged.reply, judged.second) if reply is not None]
    return Grading(
        official=judged.first(lambda reply: read_official(sample.categories, reply)),
        official_text=replies[0].text if replies else "",
        robust=judged.best(lambda reply: robust(sample, reply)),
        robust_text=replies[-1].text if replies else "",
    )
