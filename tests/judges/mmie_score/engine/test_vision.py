"""Image features, compared with those of the official vision tower."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from support import internvl_golden as golden
from support.mmie_engine import max_difference, model, one_thread
from support.transformers_5 import needs_transformers_5

from mmie_tasks.judges.mmie_score.engine.model import Vision
from mmie_tasks.judges.mmie_score.generation import JudgePrompt
from mmie_tasks.judges.mmie_score.tiles import read_tiles

pytestmark = needs_transformers_5

IMAGES = [golden.IMAGES / name for name in ("sq_small.png", "tile_exact.png", "noise.png")]
TOLERANCE = 1e-4


@pytest.fixture(autouse=True, scope="module")
def single_thread() -> Iterator[None]:
    with one_thread():
        yield


def image_prompt(key: int, *images: Path) -> JudgePrompt:
    tiles = np.concatenate([read_tiles(image, golden.TILE_PX) for image in images])
    return JudgePrompt(key=key, ids=[1], tiles=tiles)


def expected(*images: Path) -> Any:
    official = golden.vision_outputs()
    return np.concatenate([official[image].reshape(-1, 64) for image in images])


@settings(max_examples=12)
@given(
    order=st.permutations([(0,), (1,), (2,), (0, 2), (1, 1)]),
    requested=st.permutations(range(5)),
    batch_tiles=st.integers(1, 60),
    fixed=st.booleans(),
)
def test_features_are_the_official_ones_in_any_batch_and_order(
    order: list[tuple[int, ...]], requested: list[int], batch_tiles: int, fixed: bool
) -> None:
    vision = Vision(model(), fixed=fixed)
    prompts = [
        image_prompt(key, *[IMAGES[index] for index in indices])
        for key, indices in enumerate(order)
    ]
    for number, key in enumerate(requested):
        features = vision.features([prompts[key] for key in requested[number:]], batch_tiles)
        assert features is not None
        assert (
            max_difference(features, expected(*[IMAGES[index] for index in order[key]])) < TOLERANCE
        )


class CountingModel:
    """The model, which counts the tiles of each batch."""

    def __init__(self) -> None:
        self.lm_head, self.model, self.batches = model().lm_head, self, list[int]()

    def get_image_features(self, pixels: torch.Tensor, **how: Any) -> Any:
        self.batches.append(len(pixels))
        return model().model.get_image_features(pixels, **how)


def test_tiles_of_several_prompts_share_a_batch() -> None:
    counted = CountingModel()
    vision: Any = Vision(counted, fixed=False)  # type: ignore[arg-type]
    prompts = [image_prompt(key, IMAGES[0]) for key in range(3)]
    count = len(prompts[0].tiles)
    for number in range(3):
        vision.features(prompts[number:], 2 * count - 1)
    assert counted.batches == [2 * count - 1, count + 1]


@pytest.mark.parametrize("batch_tiles", [1, 4, 100])
def test_fixed_batches_all_have_the_same_number_of_tiles(batch_tiles: int) -> None:
    counted = CountingModel()
    vision: Any = Vision(counted, fixed=True)  # type: ignore[arg-type]
    prompt = image_prompt(0, *IMAGES)
    vision.features([prompt], batch_tiles)
    assert counted.batches == [batch_tiles] * -(-len(prompt.tiles) // batch_tiles)


def test_a_prompt_that_lost_its_turn_keeps_what_was_computed_until_all_is_dropped() -> None:
    counted = CountingModel()
    vision: Any = Vision(counted, fixed=False)  # type: ignore[arg-type]
    first, second = (image_prompt(key, IMAGES[0]) for key in range(2))
    vision.features([first, second], 5 + 2)
    assert max_difference(vision.features([second], 5), expected(IMAGES[0])) < TOLERANCE
    assert counted.batches == [7, 3]
    vision.features([first, second], 5 + 2)
    vision.clear()
    vision.features([second], 5)
    assert counted.batches == [7, 3, 7, 5]


def test_a_failed_batch_is_repeated() -> None:
    class FailsOnce(CountingModel):
        def get_image_features(self, pixels: torch.Tensor, **how: Any) -> Any:
            output = super().get_image_features(pixels, **how)
            if len(self.batches) == 2:
                raise torch.OutOfMemoryError
            return output

    vision: Any = Vision(FailsOnce(), fixed=False)  # type: ignore[arg-type]
    prompt = image_prompt(0, *IMAGES)
    with pytest.raises(torch.OutOfMemoryError):
        vision.features([prompt], 4)
    assert max_difference(vision.features([prompt], 3), expected(*IMAGES)) < TOLERANCE
