"""Both readings of what came of one request."""

from __future__ import annotations

from mmie_tasks.benchmarks.mmie.scoring.metrics import Grading
from mmie_tasks.benchmarks.mmie.scoring.official import read_official
from mmie_tasks.benchmarks.mmie.scoring.robust import read_robust
from mmie_tasks.judging import Judged


def grade(judged: Judged) -> Grading:
    """The official script reads whatever it gets, also a reply that ran into its limit."""
    official = judged.first(read_official, unfinished=True)
    return Grading(official=official, robust=judged.first(read_robust))
