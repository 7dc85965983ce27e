"""Whether a judge's server cuts its requests, by the prompt tokens that it counts."""

import random

import pytest

from mmie_tasks.record.reply import JudgeReply, Usage
from mmie_tasks.record.sight import equal_counts


def replies(count, number=30, *, characters=(900, 6000), seed=7):
    """Replies to requests; `count` gives the prompt tokens of characters, a tenth more or less, and
    images.
    """
    draw = random.Random(seed)  # noqa: S311 - made-up sizes
    made = []
    for size, images in [(draw.randint(*characters), draw.randint(1, 5)) for _ in range(number)]:
        usage = Usage(input_tokens=int(count(int(size * draw.uniform(0.9, 1.1)), images)))
        made.append(JudgeReply(text="", model="m", usage=usage, request_characters=size))
    return made


def test_equal_counts_of_different_requests_are_named():
    counts = [lambda _c, _p: 2050, lambda c, p: min(c / 4 + 800 * p, 2050)]
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
def test_what_says_nothing_of_cut_requests_gives_no_mark(given):
    assert equal_counts(given) == ""


@pytest.mark.parametrize("number", [5, 50])
@pytest.mark.parametrize("characters", [(1500, 1530), (900, 6000)])
def test_whole_requests_give_no_mark_by_chance(number, characters):
    for seed in range(100):
        seen = replies(lambda c, p: c / 4 + 64 * p, number, characters=characters, seed=seed)
        assert equal_counts(seen) == ""
