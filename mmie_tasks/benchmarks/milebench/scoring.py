"""The official and robust verdict on an answer, by the rule of the sample's dataset."""

from __future__ import annotations

from collections.abc import Sequence

from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.benchmarks.milebench.official import (
    score_choice,
    score_needle,
    score_rouge,
    score_substring,
)
from mmie_tasks.benchmarks.milebench.robust import read_choice, read_needle, read_phrase, read_rouge
from mmie_tasks.benchmarks.milebench.sample import Sample
from mmie_tasks.benchmarks.text_answer import facts_of_results
from mmie_tasks.core.verdict import Scored, Verdict, Verdicts
from mmie_tasks.record.text_facts import TextFacts

_OFFICIAL = {"rouge": score_rouge, "needle": score_needle, "substring": score_substring}
_ROBUST = {"rouge": read_rouge, "needle": read_needle, "substring": read_phrase}


def official(sample: Sample, answer: object) -> Verdict:
    """The official verdict: 0 or 1, or ROUGE-L F from 0 to 1.

    Source: the branches of ``main`` in ``evaluate.py`` of MileBench at 9583e1f.
    """
    if sample.rule == "choice":
        return score_choice(sample.gold, answer, sample.choices)
    return _OFFICIAL[sample.rule](sample.gold, answer)


def robust(sample: Sample, answer: object) -> Verdict:
    """The robust verdict, on the same scale: the intention of the official rule."""
    if sample.rule == "choice":
        return read_choice(sample.gold, answer, sample.choices)
    return _ROBUST[sample.rule](sample.gold, answer)


def score(sample: Sample, answer: object) -> Verdicts:
    """Both verdicts on a usable answer."""
    return Verdicts(official=official(sample, answer), robust=robust(sample, answer))


def score_answer(sample: Sample, results: Sequence[object]) -> Verdicts:
    """Both verdicts on an answer without its thinking; several rounds are not text."""
    if len(results) != 1 or not isinstance(results[0], str):
        return score(sample, list(results))
    if failure := failure_of(results[0]):
        return Verdicts.unscored("no_answer", failure)
    return score(sample, strip_thinking(results[0]))


def facts_of_answer(sample: Sample, results: Sequence[object], verdicts: Verdicts) -> TextFacts:
    """What is unusual about the text of an answer; choosing an option is not."""
    choice = verdicts.robust if sample.rule == "choice" else None
    is_choice = isinstance(choice, Scored) and bool(choice.reading)
    return facts_of_results(results, is_expected=is_choice)
