"""Image features, against what the official vision tower gave."""

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
from support.mmie_engine import furthest, model, one_thread, text_work

from mmie_tasks.judges.mmie_score.engine.model import Vision, Work
from mmie_tasks.judges.mmie_score.pixels import read_tiles

IMAGES = [golden.IMAGES / name for name in ("sq_small.png", "tile_exact.png", "noise.png")]
TOLERANCE = 1e-4


@pytest.fixture(autouse=True, scope="module")
def quickly() -> Iterator[None]:
    with one_thread():
        yield


def shown(key: int, *images: Path) -> Work:
    tiles = np.concatenate([read_tiles(image, golden.TILE_PX) for image in images])
    return Work(key=key, ids=[1], tiles=tiles)


def expected(*images: Path) -> Any:
    official = golden.vision_outputs()
    return np.concatenate([official[image].reshape(-1, 64) for image in images])


@settings(max_examples=12)
@given(
    order=st.permutations([(0,), (1,), (2,), (0, 2), (1, 1)]),
    asked=st.permutations(range(5)),
    batch_tiles=st.integers(1, 60),
    fixed=st.booleans(),
)
def test_features_are_the_official_ones_in_any_batch_and_order(
    order: list[tuple[int, ...]], asked: list[int], batch_tiles: int, fixed: bool
) -> None:
    vision = Vision(model(), fixed=fixed)
    works = [shown(key, *[IMAGES[index] for index in each]) for key, each in enumerate(order)]
    for work in works:
        vision.add(work)
    for key in asked:
        found = vision.features(works[key], batch_tiles)
        assert found is not None
        assert furthest(found, expected(*[IMAGES[index] for index in order[key]])) < TOLERANCE


class Counted:
    """The model, which notes how many tiles it is shown at a time."""

    def __init__(self) -> None:
        self.lm_head, self.model, self.batches = model().lm_head, self, list[int]()

    def get_image_features(self, pixels: torch.Tensor, **how: Any) -> Any:
        self.batches.append(len(pixels))
        return model().model.get_image_features(pixels, **how)


def test_tiles_of_several_works_go_together() -> None:
    counted = Counted()
    vision: Any = Vision(counted, fixed=False)  # type: ignore[arg-type]
    works = [shown(key, IMAGES[0]) for key in range(3)]
    for work in works:
        vision.add(work)
    each = len(works[0].tiles)
    for work in works:
        vision.features(work, 2 * each - 1)
    assert counted.batches == [2 * each - 1, each + 1]


@pytest.mark.parametrize("batch_tiles", [1, 4, 100])
def test_fixed_batches_all_have_the_same_number_of_tiles(batch_tiles: int) -> None:
    counted = Counted()
    vision: Any = Vision(counted, fixed=True)  # type: ignore[arg-type]
    work = shown(0, *IMAGES)
    vision.add(work)
    vision.features(work, batch_tiles)
    assert counted.batches == [batch_tiles] * -(-len(work.tiles) // batch_tiles)


def test_a_text_has_no_features() -> None:
    vision = Vision(model(), fixed=False)
    work = text_work(0, [1, 2])
    vision.add(work)
    assert vision.features(work, 4) is None
    vision.drop(work)


def test_a_work_that_was_dropped_is_not_looked_at() -> None:
    counted = Counted()
    vision: Any = Vision(counted, fixed=False)  # type: ignore[arg-type]
    works = [shown(key, IMAGES[key]) for key in range(2)]
    for work in works:
        vision.add(work)
    vision.drop(works[0])
    assert furthest(vision.features(works[1], 100), expected(IMAGES[1])) < TOLERANCE
    assert counted.batches == [len(works[1].tiles)]


def test_a_work_that_is_dropped_half_way_can_be_added_again() -> None:
    counted = Counted()
    vision: Any = Vision(counted, fixed=False)  # type: ignore[arg-type]
    works = [shown(key, IMAGES[0]) for key in range(3)]
    for work in works:
        vision.add(work)
    vision.features(works[0], 5 + 2)
    vision.drop(works[2])
    vision.add(works[2], first=True)
    assert furthest(vision.features(works[2], 5), expected(IMAGES[0])) < TOLERANCE
    assert counted.batches == [7, 5], "the works before it need not be looked at first"
    assert furthest(vision.features(works[1], 5), expected(IMAGES[0])) < TOLERANCE


def test_a_batch_that_failed_is_done_again() -> None:
    class FailsOnce(Counted):
        def get_image_features(self, pixels: torch.Tensor, **how: Any) -> Any:
            found = super().get_image_features(pixels, **how)
            if len(self.batches) == 2:
                raise torch.OutOfMemoryError
            return found

    vision: Any = Vision(FailsOnce(), fixed=False)  # type: ignore[arg-type]
    work = shown(0, *IMAGES)
    vision.add(work)
    with pytest.raises(torch.OutOfMemoryError):
        vision.features(work, 4)
    assert furthest(vision.features(work, 3), expected(*IMAGES)) < TOLERANCE
