"""How often the 95 % intervals of the corrected mean hold people's mean, on made-up runs."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from bench.calibrate_coverage import FULL_MARKS, JUDGES, STRATA, coverage, even

from mmie_tasks.quality.calibrate.estimate import Population
from mmie_tasks.record.intervals import stratified_mean


@pytest.mark.parametrize("population", get_args(Population))
def test_95_percent_of_the_intervals_hold_what_people_think_with_few_labels_and_skewed_judges_too(
    population: Population,
) -> None:
    """In every cell 90 % or more in many draws; 150 draws have a standard error of 2.5 %."""
    held = {
        (judge, labels): coverage(make, STRATA["three"], labels, population, draws=150)
        for judge, make in JUDGES.items()
        for labels in (30, 50)
    }
    corrected = {cell: share for cell, (_, share) in held.items()}
    assert 93 <= np.mean([*corrected.values()]) <= 98, corrected
    assert min(corrected.values()) >= 86, corrected


def test_intervals_from_the_judge_alone_miss_what_people_think() -> None:
    """The reason for all of this: they hold sampling error only."""
    points = even(np.random.default_rng(0), 20_000)
    lenient = np.minimum(points.judge + 1, FULL_MARKS)
    mean = stratified_mean([lenient], [1], FULL_MARKS)
    assert mean is not None
    assert mean.interval(-math.inf, math.inf).low > points.people.mean() + 0.5
