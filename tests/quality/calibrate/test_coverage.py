"""How often the 95 % interval of the corrected mean holds people's mean, on made-up runs in MMIE's
proportions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

from mmie_tasks.quality.calibrate.estimate import (
    MIN_LABELS,
    CorrectedMean,
    Estimate,
    Population,
    StratumScores,
    corrected_mean,
)
from mmie_tasks.record.intervals import Floats, allocation, stratified_mean

STRATA = {"SA": 5005, "PBL": 11_482, "MSR": 3616}
FULL_MARKS = 6
LABELS = 100
DRAWS = 250
CORRELATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9)
BIASES = (1.2, -0.8, 0.6, 0.0, -0.5, 0.4, 0.9, -0.3, 0.02, 0.3, -0.2)
"""Of the eleven judges, in points; each has another one in each stratum besides."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRun:
    """Points of a judge and of people for all samples of a run.

    Attributes:
        judge: One array per stratum.
        people: The same samples.
    """

    judge: tuple[Floats, ...]
    people: tuple[Floats, ...]

    @property
    def truth(self) -> float:
        """People's mean over all samples."""
        return float(np.concatenate(self.people).mean())

    def minus(self, other: JudgedRun) -> JudgedRun:
        """The differences of two models on the same samples."""
        judge = tuple(a - b for a, b in zip(self.judge, other.judge, strict=True))
        return JudgedRun(
            judge=judge, people=tuple(a - b for a, b in zip(self.people, other.people, strict=True))
        )

    def unstratified(self) -> JudgedRun:
        """The same samples as one stratum."""
        return JudgedRun(judge=(np.concatenate(self.judge),), people=(np.concatenate(self.people),))

    def labelled(self, labels: int, random: np.random.Generator) -> list[StratumScores]:
        """Label a random sample, each stratum in proportion."""
        sizes = [len(points) for points in self.judge]
        strata = []
        for name, judge, people, number in zip(
            STRATA, self.judge, self.people, allocation(sizes, labels), strict=False
        ):
            chosen = random.choice(len(judge), number, replace=False, shuffle=False)
            weight = len(judge) / sum(sizes)
            strata.append(
                StratumScores(
                    name=name, weight=weight, judge=judge, labelled=chosen, people=people[chosen]
                )
            )
        return strata


@cache
def made_up_run(pair: int, level: float = 3.2) -> JudgedRun:
    """Whole points by the judge, steps of a half by people around a level: 0.2 makes half of theirs
    0.
    """
    random = np.random.default_rng(pair)
    correlation, judge, people = CORRELATIONS[pair], [], []
    for size, shift, extra in zip(
        STRATA.values(), (-0.8, 0.4, -0.2), (0.5, -0.4, 0.2), strict=True
    ):
        quality = random.normal(size=size)
        judged = correlation * quality + np.sqrt(1 - correlation**2) * random.normal(size=size)
        people.append(np.clip(np.round(2 * (level + shift + 1.6 * quality)) / 2, 0, FULL_MARKS))
        judge.append(
            np.clip(np.round(level + shift + BIASES[pair] + extra + 1.6 * judged), 0, FULL_MARKS)
        )
    return JudgedRun(judge=tuple(judge), people=tuple(people))


def corrections(
    run: JudgedRun,
    labels: int = LABELS,
    draws: int = DRAWS,
    population: Population = "run",
    seed: int = 0,
) -> Iterator[CorrectedMean]:
    """The results of one run with many random samples of labels."""
    random = np.random.default_rng([seed, labels])
    for _ in range(draws):
        yield corrected_mean(run.labelled(labels, random), population, FULL_MARKS)


def share_held(estimates: Sequence[Estimate], truth: float) -> float:
    """The share of intervals that hold the truth, in percent; an estimate without interval counts
    as not.
    """
    intervals = [estimate.interval for estimate in estimates]
    return 100 * float(
        np.mean(
            [
                interval is not None and interval.low <= truth <= interval.high
                for interval in intervals
            ]
        )
    )


def coverages(runs: Sequence[JudgedRun], **options: int) -> list[float]:
    """Coverage of the corrected mean in percent, one per run."""
    return [
        share_held([mean.corrected for mean in corrections(run, seed=seed, **options)], run.truth)
        for seed, run in enumerate(runs)
    ]


def runs_in_strata() -> list[JudgedRun]:
    return [made_up_run(pair) for pair in range(len(CORRELATIONS))]


def runs_without_strata() -> list[JudgedRun]:
    return [run.unstratified() for run in runs_in_strata()]


def differences() -> list[JudgedRun]:
    runs = runs_in_strata()
    return [run.minus(other) for run, other in zip(runs, [*runs[1:], runs[0]], strict=True)]


@pytest.mark.parametrize("runs", [runs_in_strata, runs_without_strata, differences])
def test_with_100_labels_95_percent_of_the_corrected_intervals_hold_what_people_think(
    runs: Callable[[], list[JudgedRun]],
):
    held = coverages(runs())
    assert 93 <= np.mean(held) <= 97, held
    assert min(held) >= 90, held


def test_intervals_from_the_judge_alone_miss_what_people_think():
    """The reason for all of this: they hold sampling error only."""
    missed = 0
    for run in runs_in_strata():
        mean = stratified_mean([np.concatenate(run.judge)], [1], FULL_MARKS)
        low, high = mean.interval(-math.inf, math.inf)
        missed += not low <= run.truth <= high
    assert missed >= 8


def test_a_good_judge_makes_intervals_narrower_than_those_of_people_alone_and_a_bad_one_not_wider():
    widths = []
    for run in runs_in_strata():
        means = list(corrections(run, draws=50))
        corrected, alone = (
            np.mean([e.interval.high - e.interval.low for e in estimates])
            for estimates in ([m.corrected for m in means], [m.people for m in means])
        )
        widths.append(corrected / alone)
    assert widths[0] < 1.02  # correlation 0.1
    assert widths[-1] < 0.6  # correlation 0.9
    assert widths == pytest.approx([np.sqrt(1 - r**2) for r in CORRELATIONS], abs=0.12)


@pytest.mark.parametrize(
    ("level", "labels"),
    [
        pytest.param(3.2, MIN_LABELS, id="even"),
        pytest.param(0.2, MIN_LABELS, id="half of the points are 0"),
        pytest.param(
            -1.0, LABELS, id="three in four points are 0"
        ),  # 20 labels cover 86 % then, with judge or without
    ],
)
def test_with_few_labels_or_skewed_points_nine_in_ten_intervals_hold_what_people_think(
    level: float, labels: int
):
    held = coverages([made_up_run(pair, level) for pair in (0, 4, 7, 10)], labels=labels)
    assert min(held) >= 90, held


def drawn_runs(pair: int, samples: int, labels: int, draws: int) -> Iterator[list[StratumScores]]:
    """Small runs, drawn from a large one, each with labels."""
    population = made_up_run(pair)
    random = np.random.default_rng([pair, samples])
    sizes = allocation(list(STRATA.values()), samples)
    for _ in range(draws):
        chosen = [
            random.choice(len(p), size, replace=False)
            for p, size in zip(population.people, sizes, strict=True)
        ]
        judge = tuple(points[rows] for points, rows in zip(population.judge, chosen, strict=True))
        people = tuple(points[rows] for points, rows in zip(population.people, chosen, strict=True))
        yield JudgedRun(judge=judge, people=people).labelled(labels, random)


def test_for_a_larger_population_the_interval_holds_its_mean_and_that_of_the_run_does_not():
    held: dict[Population, list[float]] = {"run": [], "larger": []}
    for pair in (2, 6, 10):
        truth = made_up_run(pair).truth
        strata = list(drawn_runs(pair, samples=300, labels=LABELS, draws=400))
        for population, shares in held.items():
            shares.append(
                share_held(
                    [corrected_mean(s, population, FULL_MARKS).corrected for s in strata], truth
                )
            )
    assert 93 <= np.mean(held["larger"]) <= 97, held
    assert min(held["larger"]) >= 90, held
    assert np.mean(held["run"]) < 90, held
