"""OpenING's request for a question and an answer that are no sample of a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.opening_data import draw

from mmie_tasks.benchmarks.opening.benchmark import BENCHMARK
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.segment import Segment


def test_any_pair_is_asked_about_as_in_a_run(tmp_path: Path) -> None:
    picture = draw(tmp_path / "a.jpg")
    graded = BENCHMARK.judge_request(
        (Segment("Draw."),), (Segment("Cut."), Segment(image=str(picture)))
    )
    first, second, shown, _ = graded.request.parts
    assert (first, second) == ("INPUT: Draw.", "\nOUTPUT: Cut. <IMG_0></IMG_0>")
    assert isinstance(shown, Path)
    assert graded.request.schema is not None
    assert graded.is_impossible("no JSON")


def test_a_picture_that_is_gone_or_cannot_be_shown_is_an_error(tmp_path: Path) -> None:
    gone = (Segment("Look.", str(tmp_path / "none.jpg")),)
    with pytest.raises(BadRecord, match="bad_image"):
        BENCHMARK.judge_request(gone, (Segment("a"),))
    odd = (Segment("Look.", str(draw(tmp_path / "a.png", "RGBA"))),)
    with pytest.raises(BadRecord, match=r"bad_image.*no JPEG"):
        BENCHMARK.judge_request(odd, (Segment("a"),))
