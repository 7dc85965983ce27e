"""What the points of changed answers say about a judge."""

from __future__ import annotations

import numpy as np
import pytest

from mmie_tasks.core.verdict import Scored
from mmie_tasks.quality.judge_exam.stress_changes import AGAIN, changes
from mmie_tasks.quality.judge_exam.stress_effects import Effect, effects
from mmie_tasks.record.intervals import Integers

NOT = "does not notice"


def moves(*pairs: tuple[float, float], times: int = 1, is_harmless: bool = False) -> Effect:
    """The effect of a change on points before and after it, 0 to 6, each pair several times."""
    change = next(
        change for change in changes(has_answer_images=True) if change.is_harmless is is_harmless
    )
    points = [(before, Scored(after)) for before, after in pairs * times]
    again = [(before, Scored(before)) for before, _ in pairs * times]
    return effects({change: points, AGAIN: again}, 6)[0]


@pytest.mark.parametrize(
    ("effect_of_change", "finding"),
    [
        pytest.param(moves((4, 1), times=10), "notices", id="drops"),
        pytest.param(moves((4, 1), times=9), "too few", id="few"),
        pytest.param(moves((4, 4), (3, 2), (2, 3), times=20), NOT, id="noise"),
        pytest.param(moves((4, 5), times=20), "rewards it", id="rises"),
        pytest.param(moves((0, 2), times=50), "rewards it", id="nothing-to-lose-and-rises"),
        pytest.param(
            moves(*[(4, 4)] * 20, (4, 5), (4, 3), times=2, is_harmless=True),
            "unmoved",
            id="too-few-changes",
        ),
        pytest.param(
            moves((4, 4), (4, 5), (4, 3), times=20, is_harmless=True), "moved", id="larger-changes"
        ),
        pytest.param(moves((4, 3.8), times=100, is_harmless=True), "moved", id="small-drift"),
    ],
)
def test_the_finding_depends_on_the_intervals(effect_of_change: Effect, finding: str) -> None:
    assert effect_of_change.finding == finding


def test_a_fair_judge_that_errs_at_random_has_a_false_finding_in_one_test_of_twenty_at_most() -> (
    None
):
    random, false = np.random.default_rng(0), 0
    everything = (*changes(has_answer_images=True), AGAIN)
    for _ in range(60):
        quality = random.integers(1, 6, size=50)

        def points(worse: int, quality: Integers = quality) -> Integers:
            errors = random.integers(-1, 2, size=50) * (random.random(50) < 0.2)
            return np.clip(quality - worse + errors, 0, 6)

        before = points(0)
        pairs = {
            change: [
                (float(b), Scored(float(a)))
                for b, a in zip(before, points(0 if change.is_harmless else 2), strict=True)
            ]
            for change in everything
        }
        findings = {e.finding for e in effects(pairs, 6)}
        false += findings != {"notices", "unmoved", "for comparison"}
    assert false <= 6  # of a binomial of 5 %: 97 %
