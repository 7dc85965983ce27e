"""The engine on prompts of our own, against ``generate()`` on each of them alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.mmie_engine import (
    LONG_AFTER,
    Made,
    Plan,
    drawn_ids,
    finished,
    furthest,
    golden_works,
    made,
    one_thread,
    stock_output,
    text_work,
)

from mmie_tasks.judges.mmie_score.engine.model import TextModel, Work

TOLERANCE = 1e-3
PICTURES = 5  # the golden case with three pictures
IMAGE_TOKEN, END_OF_TEXT, END = 993, 980, 987


def check(works: Iterable[Work], plan: Plan, **how: Any) -> Made:
    """Each work gives what it gives alone, and its logits at every token."""
    asked = list(works)
    engine = made(plan)
    outputs = engine.outputs(asked, **how)
    assert outputs.keys() == {work.key for work in asked}
    for work in asked:
        ids, logits = stock_output(work)
        assert outputs[work.key] == ids
        found = torch.stack([engine.logits[work.key][step] for step in range(len(ids))])
        assert furthest(found, logits) < TOLERANCE
    return engine


def texts(*lengths: int, start: Iterable[int] = (), new: int = 12) -> list[Work]:
    """Prompts of these lengths, which differ after a start they may have in common."""
    common = list(start)
    return [
        text_work(key, [*common, *drawn_ids(100 + key, length - len(common))], new)
        for key, length in enumerate(lengths)
    ]


def shown(key: int, before: int, after: int) -> Work:
    """The pictures of a golden case within a text, whose length is chosen."""
    case = golden_works()[PICTURES]
    places = np.flatnonzero(np.asarray(case.ids) == IMAGE_TOKEN)
    middle = case.ids[places[0] - 1 : places[-1] + 2]
    ids = [*drawn_ids(key, before), *middle, *drawn_ids(key + 50, after)]
    return Work(key=key, ids=ids, tiles=case.tiles, max_new_tokens=12)


def pictures() -> NDArray[np.uint8]:
    return np.asarray(golden_works()[PICTURES].tiles)


START = drawn_ids(1, 200)

SCENES: dict[str, Callable[[], list[Work]]] = {
    "a long prompt": lambda: texts(300),
    "around the border": lambda: texts(*range(LONG_AFTER - 3, LONG_AFTER + 4)),
    "two long ones among short ones": lambda: texts(20, 400, 60, 257, 5),
    "the border is crossed while decoding": lambda: texts(245, 250, 255, 256, new=24),
    "one start on both sides of the border": lambda: texts(220, 290, 210, 300, start=START),
    "the long ones first": lambda: texts(300, 290, 220, 210, start=START),
    "one start that ends with a page": lambda: texts(193, 194, 250, 257, start=START[:192]),
    "a token differs behind a page": lambda: [
        text_work(key, [*START[:128], 3 + key, *START[129:]]) for key in range(4)
    ],
    "a token differs within a page": lambda: [
        text_work(key, [*START[:100], 3 + key, *START[101:]]) for key in range(4)
    ],
    "the same prompt many times": lambda: [text_work(key, START) for key in range(6)],
    "prompts that fill their pages": lambda: texts(16, 32, 64, 128, 192, 256),
    "the same prompt, and it fills its pages": lambda: [
        text_work(key, START[:128]) for key in range(3)
    ],
    "prompts of which one goes on with another": lambda: [
        text_work(length, START[:length]) for length in (63, 64, 65, 127, 128, 129)
    ],
    "one token": lambda: [text_work(key, [token]) for key, token in enumerate([1, 500, END])],
    "pictures on both sides of the border": lambda: [
        shown(0, 20, 30),
        shown(1, 100, 90),
        shown(2, 5, 5),
    ],
    "different pictures behind one start": lambda: [
        Work(key=key, ids=shown(7, 64, 9).ids, tiles=tiles, max_new_tokens=12)
        for key, tiles in enumerate([pictures(), 255 - pictures()])
    ],
    "the image token, typed, without a picture": lambda: [
        text_work(0, [*START[:30], IMAGE_TOKEN, 7, 8])
    ],
    "one new token": lambda: [text_work(0, START, 1), text_work(1, START[:64], 1)],
}


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(page_tokens=16, rows=1, chunk_tokens=7), id="one by one, in parts"),
        pytest.param(Plan(page_tokens=64, rows=2, chunk_tokens=90), id="two at once"),
        pytest.param(Plan(page_tokens=64, chunk_tokens=2000, fixed=True), id="all at once"),
    ],
)
@pytest.mark.parametrize("scene", SCENES)
def test_each_prompt_gives_what_it_gives_alone(scene: str, plan: Plan) -> None:
    check(SCENES[scene](), plan)


POOL = [
    *texts(*range(1, 40, 7), 250, 256, 300, 64, 16),
    *texts(70, 200, 257, 64, 220, 300, start=START[:48]),
]


@settings(max_examples=8)
@given(random=st.randoms(use_true_random=True), late=st.booleans(), fixed=st.booleans())
def test_any_prompts_in_any_schedule_give_what_they_give_alone(
    random: Random, late: bool, fixed: bool
) -> None:
    chosen = random.choices(POOL, k=8)
    works = [text_work(key, work.ids, random.choice([1, 12])) for key, work in enumerate(chosen)]
    page_tokens = random.choice([16, 64])
    plan = Plan(
        page_tokens=page_tokens,
        pages=-(-320 // page_tokens) + random.choice([0, 3, 20]),
        rows=random.randint(1, 12),
        chunk_tokens=random.choice([5, 16, 17, 100, 2000]),
        fixed=fixed,
    )
    check(works, plan, late=random if late else None)


@pytest.mark.parametrize(
    ("seed", "token"),
    [
        pytest.param(22, IMAGE_TOKEN, id="IMG_CONTEXT"),
        pytest.param(55, END_OF_TEXT, id="endoftext"),
        pytest.param(26, 2, id="end of a sentence"),
    ],
)
def test_a_special_token_that_is_generated_does_not_end_a_text(seed: int, token: int) -> None:
    work = text_work(0, drawn_ids(seed, 5 + seed % 40), 40)
    engine = check([work, text_work(1, START)], Plan(page_tokens=16))
    assert token in stock_output(work)[0][:-1]
    assert token in [int(found.argmax()) for found in engine.logits[0].values()]


def test_a_row_that_ends_at_once_does_not_disturb_the_others() -> None:
    works = [text_work(key, drawn_ids(seed, 5 + seed % 40)) for key, seed in enumerate([7, 5, 8])]
    check([*works, text_work(9, START)], Plan())
    assert [stock_output(work)[0] == [END] for work in works] == [False, True, True]


def test_a_text_ends_with_its_end_token_or_at_its_limit() -> None:
    [work] = [work for work in golden_works() if work.key == 0]  # it ends by itself
    length = len(stock_output(work)[0])
    works = [
        Work(key=limit, ids=work.ids, max_new_tokens=limit)
        for limit in (1, length - 1, length, length + 1)
    ]
    results = made(Plan()).results(works)
    found = [(len(finished(each).output), finished(each).finish) for each in results.values()]
    assert sorted(found) == [
        (1, "length"),
        (length - 1, "length"),
        (length, "stop"),
        (length, "stop"),
    ]


def test_a_text_ends_early_only_where_it_is_settled() -> None:
    works = [golden_works()[number] for number in (3, 4, 5)]
    whole = {work.key: stock_output(work)[0] for work in works}
    results = made(Plan()).results(works, settled=lambda output: output == whole[4][:16])
    assert finished(results[4]).output == whole[4][:16]
    assert finished(results[4]).finish == "stop"
    for key in (3, 5):
        assert finished(results[key]).output == whole[key]
        assert finished(results[key]).finish == "length"


def test_what_is_kept_is_not_computed_again() -> None:
    """Or the tests above would say nothing about sharing."""
    engine = made(Plan(page_tokens=16, rows=1, chunk_tokens=10))
    works = SCENES["the same prompt many times"]()
    engine.outputs(works)
    parts, last_part = len(START) // 10, 1  # 192 of 200 tokens are in full pages
    assert engine.engine.steps["prefill"] == parts + last_part * (len(works) - 1)


@pytest.mark.parametrize("fixed", [False, True])
def test_a_row_does_not_depend_on_its_neighbours(fixed: bool) -> None:
    """Not to the bit: a CPU's matrix product of the same shape rounds by the place of a row."""
    plan = Plan(fixed=fixed, rows=12, chunk_tokens=512, vision_tiles=16)
    together, turned = made(plan), made(plan)
    together.outputs(golden_works())
    turned.outputs(golden_works()[::-1])
    for work in golden_works()[:6]:
        alone = made(plan)
        alone.outputs([work])
        for step, logits in alone.logits[work.key].items():
            for engine in (together, turned):
                assert furthest(logits, engine.logits[work.key][step]) < 1e-4


@pytest.mark.parametrize("late", [False, True])
def test_every_fixed_step_has_the_same_shapes(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = set()
    for name in ("forward", "logits"):
        original = getattr(TextModel, name)

        def noted(self: TextModel, first: torch.Tensor, *others: Any, of: Any = original) -> Any:
            shapes.add((of.__name__, len(first)))
            return of(self, first, *others)

        monkeypatch.setattr(TextModel, name, noted)
    works = [text_work(key, START[key : 90 + 9 * key], 1) for key in range(7)]
    feed = Random(3) if late else None  # noqa: S311
    check(works, Plan(fixed=True, rows=5, chunk_tokens=120, sharing=False), late=feed)
    assert shapes == {("forward", 120), ("logits", 5)}


class Hesitant:
    """A feed with something after a first hesitation, and then always about to have more."""

    def __init__(self, works: list[Work]) -> None:
        self._held: list[Work | None] = [works[0], None, works[1]]

    def get(self, *, wait: bool) -> Work | None:
        return self._held.pop(0) if self._held else None


def test_a_fixed_step_that_would_be_half_empty_is_put_off_but_not_for_ever() -> None:
    works = golden_works()[3:5]  # of 40 tokens each
    engine, seen = made(Plan(fixed=True, chunk_tokens=300)), list[int]()
    with one_thread():
        list(engine.engine.run(Hesitant(list(works)), watch=lambda key, *_: seen.append(key)))
    assert 2 < seen.index(4) < 30
    assert seen.count(3) == seen.count(4) == 40
