"""The fixed random choice of pairs."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from support.verdict_files import pair

from mmie_tasks.quality.judge_exam.examine import choose_pairs

SIZES = {"recipes": 60, "travel": 30, "history": 9, "poems": 1}
PAIRS = [
    pair(f"{subset} {number}", subset=subset)
    for subset, size in SIZES.items()
    for number in range(size)
]


@pytest.mark.parametrize("limit", [10, 20, 50])
def test_a_limit_gives_every_subset_its_share(limit: int) -> None:
    counts = Counter(chosen.subset for chosen in choose_pairs(PAIRS, limit))
    assert counts.total() == limit
    assert all(abs(counts[subset] - size * limit / 100) <= 1 for subset, size in SIZES.items())


def test_a_limit_is_a_fixed_random_choice_and_part_of_a_larger_one() -> None:
    shuffled = random.Random(0).sample(PAIRS, len(PAIRS))  # noqa: S311 - no secret
    assert choose_pairs(shuffled, 20) == choose_pairs(PAIRS, 20) == choose_pairs(PAIRS, 40)[:20]
    recipes = [chosen.id for chosen in choose_pairs(PAIRS, 20) if chosen.subset == "recipes"]
    assert recipes != [f"recipes {number}" for number in range(len(recipes))]
