"""How often the intervals of `calibrate` hold people's mean, for made-up judges.

``python tests/bench/calibrate_coverage.py [DRAWS]`` prints a table in Markdown for each population:
runs of 400 samples, in one stratum and in MMIE's three, 20 to 100 labels. Every draw has a new run;
the seeds are fixed. The judges err in the ways that make intervals from few labels too narrow:
rarely and by much, on points most of which are full marks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias, get_args

import numpy as np

from mmie_tasks.core.tables import table
from mmie_tasks.quality.calibrate.estimate import (
    Estimate,
    Population,
    StratumScores,
    corrected_mean,
)
from mmie_tasks.record.intervals import Floats, allocation

FULL_MARKS = 6
SAMPLES = 400
LABELS = (20, 30, 50, 100)
STRATA: Mapping[str, Sequence[int]] = {"one stratum": [1], "three": [5005, 11_482, 3616]}


class Points(NamedTuple):
    """Points of people and of a judge, 0 to 6; each has the shape ``(samples,)``."""

    people: Floats
    judge: Floats


Maker: TypeAlias = Callable[[np.random.Generator, int], Points]


def whole(points: Floats) -> Floats:
    return np.clip(np.round(points), 0, FULL_MARKS)


def any_points(random: np.random.Generator, count: int) -> Floats:
    return random.integers(FULL_MARKS + 1, size=count).astype(np.float64)


def even(random: np.random.Generator, count: int) -> Points:
    quality, noise = random.normal(size=(2, count))
    return Points(whole(3 + 1.6 * quality), whole(3 + 1.6 * (0.6 * quality + 0.8 * noise)))


def mostly_full(random: np.random.Generator, count: int) -> Floats:
    return np.where(random.random(count) < 0.8, FULL_MARKS, random.integers(FULL_MARKS, size=count))


def one_off(random: np.random.Generator, count: int) -> Points:
    people = mostly_full(random, count)
    return Points(people, whole(people + random.integers(-1, 2, size=count)))


def mostly_right(random: np.random.Generator, count: int) -> Points:
    people = mostly_full(random, count)
    is_right = random.random(count) < 0.85
    return Points(people, np.where(is_right, people, any_points(random, count)))


def far_too_high(share: float) -> Maker:
    """Full marks for answers that deserve at most one point, and else right."""

    def make(random: np.random.Generator, count: int) -> Points:
        is_wrong = random.random(count) < share
        people = np.where(is_wrong, random.integers(2, size=count), any_points(random, count))
        return Points(people, np.where(is_wrong, FULL_MARKS, people))

    return make


def unknown_part(random: np.random.Generator, count: int) -> Points:
    people, guesses = any_points(random, count), any_points(random, count)
    return Points(people, np.where(random.random(count) < 0.15, guesses, people))


def contrary(random: np.random.Generator, count: int) -> Points:
    quality, noise = random.normal(size=(2, count))
    return Points(whole(3 + 1.6 * quality), whole(3 - 1.6 * (0.5 * quality + 0.9 * noise)))


def binary(share: float, right: float) -> Maker:
    def make(random: np.random.Generator, count: int) -> Points:
        people = (random.random(count) < share).astype(np.float64)
        judge = np.where(random.random(count) < right, people, 1 - people)
        return Points(FULL_MARKS * people, FULL_MARKS * judge)

    return make


JUDGES: Mapping[str, Maker] = {
    "even points, r = 0.6": even,
    "80 % full marks, the judge off by one": one_off,
    "80 % full marks, the judge right in 85 %": mostly_right,
    "right, but 5 % far too high": far_too_high(0.05),
    "right, but 2 % far too high": far_too_high(0.02),
    "right, but for an unknown 15 %": unknown_part,
    "contrary to people": contrary,
    "all or nothing, 50 % all, right in 80 %": binary(0.5, 0.8),
    "all or nothing, 92 % all, right in 90 %": binary(0.92, 0.9),
}


def run_with_labels(
    points: Points, shares: Sequence[int], labels: int, random: np.random.Generator
) -> Iterator[StratumScores]:
    """The samples in strata with these shares, each with a random sample of labels."""
    sizes = allocation(shares, len(points.people))
    ends = np.cumsum(sizes)[:-1]
    parts = zip(*(np.split(column, ends) for column in points), strict=True)
    for (people, judge), number in zip(parts, allocation(sizes, labels), strict=True):
        labelled = random.choice(len(judge), number, replace=False, shuffle=False)
        yield StratumScores(
            name="",
            weight=len(judge) / len(points.people),
            judge=judge,
            labelled=labelled,
            people=people[labelled],
        )


def coverage(
    make: Maker, shares: Sequence[int], labels: int, population: Population, draws: int
) -> tuple[float, float]:
    """Percent of the intervals that hold people's mean: with people alone, and corrected."""
    random = np.random.default_rng([labels, len(shares)])
    expected = float(make(random, 2_000_000).people.mean())
    held = np.zeros(2)
    for _ in range(draws):
        points = make(random, SAMPLES)
        truth = float(points.people.mean()) if population == "run" else expected
        strata = list(run_with_labels(points, shares, labels, random))
        mean = corrected_mean(strata, population, FULL_MARKS)
        held += [is_held(mean.people, truth), is_held(mean.corrected, truth)]
    people, corrected = 100 * held / draws
    return float(people), float(corrected)


def is_held(estimate: Estimate, truth: float) -> bool:
    interval = estimate.interval
    return interval is not None and interval.low <= truth <= interval.high


def main(draws: int) -> None:
    for population in get_args(Population):
        rows, everything = [], list[float]()
        for name, make in JUDGES.items():
            row = [name]
            for shares in STRATA.values():
                for labels in LABELS:
                    people, corrected = coverage(make, shares, labels, population, draws)
                    row.append(f"{corrected:.1f} ({people:.1f})")
                    everything.append(corrected)
            rows.append(row)
        header = [f"{labels} labels, {name}" for name in STRATA for labels in LABELS]
        print(f"\npopulation: {population}; corrected (people alone), in percent\n")
        print(table(["judge", *header], rows))
        print(f"mean {np.mean(everything):.1f}, lowest {min(everything):.1f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
