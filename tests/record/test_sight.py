"""Whether a judge saw the pictures, by the prompt tokens that its server counts."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mmie_tasks.record.reply import JudgeReply, RequestSize, Usage
from mmie_tasks.record.sight import unseen_images

Count = Callable[[int, int], float]  # prompt tokens of characters and pictures


def replies(
    count: Count,
    number: int = 30,
    pictures: tuple[int, int] = (1, 5),
    *,
    characters: tuple[int, int] = (900, 6000),
    side_px: int = 512,
    seed: int = 7,
) -> list[JudgeReply]:
    """Replies to requests whose counts vary by a tenth."""
    draw = random.Random(seed)  # noqa: S311 - made-up sizes
    sizes = [(draw.randint(*characters), draw.randint(*pictures)) for _ in range(number)]
    return [
        JudgeReply(
            text="",
            model="m",
            usage=Usage(input_tokens=int(count(int(c * draw.uniform(0.9, 1.1)), p))),
            request_size=RequestSize(c, p, p * side_px**2),
        )
        for c, p in sizes
    ]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        pytest.param(lambda _c, _p: 2050, "2,050 prompt tokens for each of", id="Ollama, cut"),
        pytest.param(lambda c, p: min(c / 4 + 800 * p, 2050), "2,050 prompt", id="long ones cut"),
        pytest.param(lambda c, _p: c / 4, "prompt tokens for an image", id="text only"),
        pytest.param(lambda c, _p: c / 4 + 25, "prompt tokens for an image", id="a chat template"),
        pytest.param(lambda c, _p: c / 1.4, "prompt tokens for an image", id="Chinese, text only"),
        pytest.param(lambda c, p: c / 4 + 5 * p, "prompt tokens for an image", id="a marker each"),
    ],
)
@pytest.mark.parametrize(
    ("number", "pictures"), [(30, (1, 5)), (600, (1, 1))], ids=["several", "one each"]
)
def test_a_server_that_counts_no_images_is_noticed(
    count: Count, words: str, number: int, pictures: tuple[int, int]
) -> None:
    assert words in unseen_images(replies(count, number, pictures))


@pytest.mark.parametrize("per_picture", [64, 85, 255, 258, 1024, 2833])
@pytest.mark.parametrize("pictures", [(1, 5), (1, 1)], ids=["several", "one each"])
@pytest.mark.parametrize("number", [5, 12, 400])
@pytest.mark.parametrize("per_character", [1.4, 4, 6])
def test_a_judge_that_sees_pictures_is_not(
    per_picture: int, pictures: tuple[int, int], number: int, per_character: float
) -> None:
    seen = replies(lambda c, p: c / per_character + per_picture * p + 20, number, pictures)
    assert unseen_images(seen) == ""


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(replies(lambda _c, _p: 0), id="no usage"),
        pytest.param(replies(lambda _c, _p: 2050, pictures=(0, 0)), id="no pictures"),
        pytest.param(replies(lambda _c, _p: 2050, 4), id="four requests"),
        pytest.param(replies(lambda _c, _p: 2050, 1) * 20, id="one request again and again"),
        pytest.param([JudgeReply(text="", model="m", usage=Usage(input_tokens=9))] * 9, id="old"),
    ],
)
def test_what_says_nothing_of_pictures_gives_no_mark(given: list[JudgeReply]) -> None:
    assert unseen_images(given) == ""


@pytest.mark.parametrize("number", [5, 8, 50])
@pytest.mark.parametrize("characters", [(1500, 1530), (1300, 1900)], ids=["alike", "similar"])
def test_requests_of_similar_sizes_give_no_mark_by_chance(
    number: int, characters: tuple[int, int]
) -> None:
    for seed in range(300):
        seen = replies(
            lambda c, p: c / 4 + 64 * p, number, (1, 1), characters=characters, seed=seed
        )
        assert unseen_images(seen) == ""


@pytest.mark.parametrize(
    ("side_px", "per_picture"),
    [
        pytest.param(96, 9, id="Qwen, 96 x 96"),
        pytest.param(96, 12, id="Claude, 96 x 96"),
        pytest.param(56, 4, id="Qwen's least"),
        pytest.param(200, 36, id="Qwen3-VL, 200 x 200"),
    ],
)
def test_a_small_picture_may_have_few_tokens(side_px: int, per_picture: int) -> None:
    def few(c: int, p: int) -> float:
        return c // 4 + per_picture * p

    assert unseen_images(replies(few, 400, side_px=side_px)) == ""
