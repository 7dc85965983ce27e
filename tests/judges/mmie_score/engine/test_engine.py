"""The engine on our own prompts, against ``generate()`` for each prompt alone."""

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
    EngineHarness,
    Plan,
    build_engine,
    completion,
    golden_prompts,
    max_difference,
    one_thread,
    random_ids,
    stock_output,
    text_prompt,
)
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.mmie_score.engine.model import TextModel
from mmie_tasks.judges.mmie_score.generation import JudgePrompt

pytestmark = needs_transformers_5

TOLERANCE = 1e-3
IMAGE_CASE = 5  # the golden case with three pictures
IMAGE_TOKEN, END_OF_TEXT, END = 993, 980, 987


def check(prompts: Iterable[JudgePrompt], plan: Plan, **options: Any) -> EngineHarness:
    """Check that every prompt has the output and the logits that it has alone."""
    prompts = list(prompts)
    engine = build_engine(plan)
    outputs = engine.outputs(prompts, **options)
    assert outputs.keys() == {prompt.key for prompt in prompts}
    for prompt in prompts:
        ids, logits = stock_output(prompt)
        assert outputs[prompt.key] == ids
        own_logits = torch.stack([engine.logits[prompt.key][step] for step in range(len(ids))])
        assert max_difference(own_logits, logits) < TOLERANCE
    return engine


def texts(*lengths: int, new: int = 12) -> list[JudgePrompt]:
    """Prompts of these lengths."""
    return [
        text_prompt(key, random_ids(100 + key, length), new) for key, length in enumerate(lengths)
    ]


def image_prompt(key: int, before: int, after: int) -> JudgePrompt:
    """The images of a golden case within a text of a given length."""
    case = golden_prompts()[IMAGE_CASE]
    positions = np.flatnonzero(np.asarray(case.ids) == IMAGE_TOKEN)
    middle = case.ids[positions[0] - 1 : positions[-1] + 2]
    ids = [*random_ids(key, before), *middle, *random_ids(key + 50, after)]
    return JudgePrompt(key=key, ids=ids, tiles=case.tiles, max_new_tokens=12)


def image_tiles() -> NDArray[np.uint8]:
    return np.asarray(golden_prompts()[IMAGE_CASE].tiles)


START = random_ids(1, 200)

SCENES: dict[str, Callable[[], list[JudgePrompt]]] = {
    "a long prompt": lambda: texts(300),
    "around the rotary limit": lambda: texts(*range(LONG_AFTER - 3, LONG_AFTER + 4)),
    "two long ones among short ones": lambda: texts(20, 400, 60, 257, 5),
    "the limit is crossed while decoding": lambda: texts(245, 250, 255, 256, new=24),
    "the long ones first": lambda: texts(300, 290, 220, 210),
    "prompts that fill their pages": lambda: texts(16, 32, 64, 128, 192, 256),
    "one token": lambda: [text_prompt(key, [token]) for key, token in enumerate([1, 500, END])],
    "images on both sides of the limit": lambda: [
        image_prompt(0, 20, 30),
        image_prompt(1, 100, 90),
        image_prompt(2, 5, 5),
    ],
    "different images behind one start": lambda: [
        JudgePrompt(key=key, ids=image_prompt(7, 64, 9).ids, tiles=tiles, max_new_tokens=12)
        for key, tiles in enumerate([image_tiles(), 255 - image_tiles()])
    ],
    "the image token in the text, without an image": lambda: [
        text_prompt(0, [*START[:30], IMAGE_TOKEN, 7, 8])
    ],
    "one new token": lambda: [text_prompt(0, START, 1), text_prompt(1, START[:64], 1)],
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
def test_every_prompt_gives_the_output_that_it_gives_alone(scene: str, plan: Plan) -> None:
    check(SCENES[scene](), plan)


POOL = texts(*range(1, 40, 7), 250, 256, 257, 300, 64, 16, 200, 220)


@settings(max_examples=8)
@given(random=st.randoms(use_true_random=True), late=st.booleans(), fixed=st.booleans())
def test_random_prompts_in_random_schedules_give_the_outputs_they_give_alone(
    random: Random, late: bool, fixed: bool
) -> None:
    chosen = random.choices(POOL, k=8)
    prompts = [
        text_prompt(key, prompt.ids, random.choice([1, 12])) for key, prompt in enumerate(chosen)
    ]
    page_tokens = random.choice([16, 64])
    plan = Plan(
        page_tokens=page_tokens,
        pages=-(-320 // page_tokens) + random.choice([0, 3, 20]),
        rows=random.randint(1, 12),
        chunk_tokens=random.choice([5, 16, 17, 100, 2000]),
        fixed=fixed,
    )
    check(prompts, plan, late=random if late else None)


@pytest.mark.parametrize(
    ("seed", "token"),
    [
        pytest.param(22, IMAGE_TOKEN, id="IMG_CONTEXT"),
        pytest.param(55, END_OF_TEXT, id="endoftext"),
        pytest.param(26, 2, id="end of a sentence"),
    ],
)
def test_a_generated_special_token_does_not_end_a_text(seed: int, token: int) -> None:
    prompt = text_prompt(0, random_ids(seed, 5 + seed % 40), 40)
    engine = check([prompt, text_prompt(1, START)], Plan(page_tokens=16))
    assert token in stock_output(prompt)[0][:-1]
    assert token in [int(logits.argmax()) for logits in engine.logits[0].values()]


def test_a_text_ends_with_its_end_token_or_at_its_limit() -> None:
    [prompt] = [prompt for prompt in golden_prompts() if prompt.key == 0]  # it ends by itself
    length = len(stock_output(prompt)[0])
    prompts = [
        JudgePrompt(key=limit, ids=prompt.ids, max_new_tokens=limit)
        for limit in (1, length - 1, length, length + 1)
    ]
    results = build_engine(Plan()).results(prompts)
    completions = [completion(result) for result in results.values()]
    assert sorted((len(done.output), done.finish) for done in completions) == [
        (1, "length"),
        (length - 1, "length"),
        (length, "stop"),
        (length, "stop"),
    ]


@pytest.mark.parametrize("fixed", [False, True])
def test_a_row_does_not_depend_on_its_neighbours(fixed: bool) -> None:
    """Not to the bit: on a CPU the position of a row affects the rounding of a matrix product."""
    plan = Plan(fixed=fixed, rows=12, chunk_tokens=512, vision_tiles=16)
    together, turned = build_engine(plan), build_engine(plan)
    together.outputs(golden_prompts())
    turned.outputs(golden_prompts()[::-1])
    for prompt in golden_prompts()[:6]:
        alone = build_engine(plan)
        alone.outputs([prompt])
        for step, logits in alone.logits[prompt.key].items():
            for engine in (together, turned):
                assert max_difference(logits, engine.logits[prompt.key][step]) < 1e-4


@pytest.mark.parametrize("late", [False, True])
def test_every_fixed_step_has_the_same_shapes(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = set()
    for name in ("forward", "logits"):
        original = getattr(TextModel, name)

        def recording(self: TextModel, first: torch.Tensor, *rest: Any, of: Any = original) -> Any:
            shapes.add((of.__name__, len(first)))
            return of(self, first, *rest)

        monkeypatch.setattr(TextModel, name, recording)
    prompts = [text_prompt(key, START[key : 90 + 9 * key], 1) for key in range(7)]
    late_random = Random(3) if late else None  # noqa: S311
    check(prompts, Plan(fixed=True, rows=5, chunk_tokens=120), late=late_random)
    assert shapes == {("forward", 120), ("logits", 5)}


class HesitantSource:
    """A source that supplies a prompt, then none yet, then another, and never ends."""

    def __init__(self, prompts: list[JudgePrompt]) -> None:
        self._prompts: list[JudgePrompt | None] = [prompts[0], None, prompts[1]]

    def get(self, *, wait: bool) -> JudgePrompt | None:
        return self._prompts.pop(0) if self._prompts else None


def test_an_unfilled_fixed_step_is_delayed_but_not_for_ever() -> None:
    prompts = golden_prompts()[3:5]  # of 40 tokens each
    engine = build_engine(Plan(fixed=True, chunk_tokens=300))
    with one_thread():
        list(engine.engine.run(HesitantSource(list(prompts))))
    assert 2 < engine.keys.index(4) < 30
    assert engine.keys.count(3) == engine.keys.count(4) == 40
