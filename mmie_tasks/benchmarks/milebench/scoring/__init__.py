"""Text to verdicts. Pure: no files, network, clock, environment or logging."""

from __future__ import annotations

from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.benchmarks.milebench.scoring.choice import score_choice
from mmie_tasks.benchmarks.milebench.scoring.needle import score_needle, score_substring
from mmie_tasks.benchmarks.milebench.scoring.robust import read_needle, read_phrase, read_rouge
from mmie_tasks.benchmarks.milebench.scoring.robust_choice import read_choice
from mmie_tasks.benchmarks.milebench.scoring.rouge import score_rouge
from mmie_tasks.verdict import Verdict

_OFFICIAL = {"rouge": score_rouge, "needle": score_needle, "substring": score_substring}
_ROBUST = {"rouge": read_rouge, "needle": read_needle, "substring": read_phrase}


def official(sample: Sample, answer: object) -> Verdict:
    """The verdict of the official scorer: 0 or 1, or ROUGE-L F between 0 and 1.

    Source: the branches of ``main`` in ``evaluate.py`` of MileBench at 9583e1f.
    """
    if sample.rule == "choice":
        return score_choice(sample.gold, answer, sample.choices)
    return _OFFICIAL[sample.rule](sample.gold, answer)


def robust(sample: Sample, answer: object) -> Verdict:
    """The verdict the official scorer evidently meant, on the same scale."""
    if sample.rule == "choice":
        return read_choice(sample.gold, answer, sample.choices)
    return _ROBUST[sample.rule](sample.gold, answer)
