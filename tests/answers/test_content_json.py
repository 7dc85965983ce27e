"""Written answers are parsed back."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st

from mmie_tasks.answers.content_json import write_answer
from mmie_tasks.answers.failures import failure_of
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.answers.thinking import strip_thinking
from mmie_tasks.record.segment import Segment

TEXTS = st.text(st.characters(exclude_categories=["Cs"])).filter(
    # An answer of `[ERROR] ...` is a failure, and thinking is removed.
    lambda text: failure_of(text) is None and not strip_thinking(text).removed
)
PATHS = st.text("abc 1./~äö").map(Path).filter(lambda path: bool(str(path).strip()))


@given(st.lists(TEXTS | PATHS))
def test_a_written_answer_is_parsed_back(parts) -> None:
    assume(any(isinstance(part, Path) or part.strip() for part in parts))
    parsed = parse_answer([write_answer(parts)])
    segments = [
        Segment(image=str(part)) if isinstance(part, Path) else Segment(text=part) for part in parts
    ]
    assert (list(parsed.segments), parsed.shape) == (segments, "json:content")


def test_lone_surrogates_are_replaced_when_an_answer_is_written() -> None:
    answer = write_answer(["a\ud800", Path("b\udcff.png")])
    assert json.loads(answer.encode())["content"][0]["text"] == "a�"
