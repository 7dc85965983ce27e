"""Whether a judge's server cuts its requests, by the prompt tokens that it counts."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sight import equal_counts

Count = Callable[[int, int], float]  # prompt tokens of characters and images


def replies(
    count: Count, number: int = 30, *, characters: tuple[int, int] = (900, 6000), seed: int = 7
) -> list[JudgeReply]:
    """Replies to requests whose counts vary by a tenth."""
    draw = random.Random(seed)  # noqa: S311 - made-up sizes
    sizes = [(draw.randint(*characters), draw.randint(1, 5)) for _ in range(number)]
    return [
        JudgeReply(
            text="",
            model="m",
            usage=Usage(input_tokens=int(count(int(c * draw.uniform(0.9, 1.1)), p))),
            request_characters=c,
        )
        for c, p in sizes
    ]


def test_equal_counts_of_different_requests_are_named() -> None:
    counts: list[Count] = [lambda _c, _p: 2050, lambda c, p: min(c / 4 + 800 * p, 2050)]
    for count in counts:  # of all requests, and of the long ones
        for number in (30, 600):
            named = equal_counts(replies(count, number))
            assert named.startswith("2,050 prompt tokens for each of ")


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(replies(lambda _c, _p: 0), id="no-usage"),
        pytest.param(replies(lambda _c, _p: 2050, 4), id="four-requests"),
        pytest.param(replies(lambda _c, _p: 2050, 1) * 20, id="one-request-again-and-again"),
        pytest.param(replies(lambda _c, _p: 2050, characters=(1000, 1400)), id="similar-lengths"),
        pytest.param([JudgeReply(text="", model="m", usage=Usage(input_tokens=9))] * 9, id="old"),
        pytest.param([], id="none"),
    ],
)
def test_what_says_nothing_of_cut_requests_gives_no_mark(given: list[JudgeReply]) -> None:
    assert equal_counts(given) == ""


@pytest.mark.parametrize("number", [5, 50])
@pytest.mark.parametrize("characters", [(1500, 1530), (900, 6000)])
def test_whole_requests_give_no_mark_by_chance(number: int, characters: tuple[int, int]) -> None:
    for seed in range(100):
        seen = replies(lambda c, p: c / 4 + 64 * p, number, characters=characters, seed=seed)
        assert equal_counts(seen) == ""
