"""Text to verdicts. Pure: no files, network, clock, environment or logging."""

from __future__ import annotations

from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.benchmarks.milebench.scoring.choice import score_choice
from mmie_tasks.benchmarks.milebench.scoring.needle import score_needle, score_substring
from mmie_tasks.benchmarks.milebench.scoring.robust import read_needle, read_phrase, read_rouge
from mmie_tasks.benchmarks.milebench.scoring.robust_choice import read_choice
from mmie_tasks.benchmarks.milebench.scoring.rouge import score_rouge
from mmie_tasks.verdict import Verdict


def official(sample: Sample, answer: object) -> Verdict:
    """The verdict of the official scorer: 0 or 1, or ROUGE-L F between 0 and 1.

    Source: the branches of ``main`` in ``evaluate.py`` of MileBench at 9583e1f.
    """
    match sample.rule:
        case "choice":
            return score_choice(sample.gold, answer, sample.choices)
        case "rouge":
            return score_rouge(sample.gold, answer)
        case "needle":
            return score_needle(sample.gold, answer)
        case "substring":
            return score_substring(sample.gold, answer)


def robust(sample: Sample, answer: object) -> Verdict:
    """The verdict the official scorer evidently meant, on the same scale."""
    match sample.rule:
        case "choice":
            return read_choice(sample.gold, answer, sample.choices)
        case "rouge":
            return read_rouge(sample.gold, answer)
        case "needle":
            return read_needle(sample.gold, answer)
        case "substring":
            return read_phrase(sample.gold, answer)
