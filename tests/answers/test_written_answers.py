"""The form we ask of models comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from mmie_tasks.answers.parsing import read
from mmie_tasks.answers.placement import Segment
from mmie_tasks.answers.saved import as_answer_writing as as_answer

TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
PATHS = st.text("abc 1./~äö").map(Path).filter(lambda path: bool(str(path).strip()))


@given(st.lists(TEXTS | PATHS))
def test_what_is_written_is_read_again(parts) -> None:
    assume(any(isinstance(part, Path) or part.strip() for part in parts))
    reading = read([as_answer(parts)])
    segments = [
        Segment(image=str(part)) if isinstance(part, Path) else Segment(text=part) for part in parts
    ]
    assert (list(reading.segments), reading.shape) == (segments, "json:content")


def test_what_cannot_be_written_as_utf_8_is_replaced() -> None:
    answer = as_answer(["a\ud800", Path("b\udcff.png")])
    assert json.loads(answer.encode())["content"][0]["text"] == "a�"
