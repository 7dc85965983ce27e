"""The line of a sample in the log."""

from __future__ import annotations

import io
import json
from typing import Any

import pandas as pd
import pytest
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.panels import judged, mmie_line

from mmie_tasks.core.verdict import Scored, Unscored, Verdict, Verdicts
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.record import ImageRecord, Record
from mmie_tasks.record.sample_line import sample_line
from mmie_tasks.record.segment import Segment

SCALE = Scale(full_marks=4, unit="points, 0 to 4", percent=lambda mean: 25 * mean)
COLUMNS = ["id", "score", "robust", "unscored", "question", "answer", "reply"]
LINES = {"mmie": mmie_lines(3), "milebench": milebench_lines(1), "mia_bench": mia_lines(3)}


def line_of(official: Verdict, line: dict[str, object] | None = None) -> dict[str, Any]:
    record = Record.of(Verdicts(official=official, robust=Scored(1)), id="a")
    return sample_line({"doc_id": 3, **(line or {})}, record, SCALE)


def test_a_line_begins_with_columns_and_keeps_what_the_runner_wrote() -> None:
    line = line_of(Scored(3), {"input": "What?", "filtered_resps": ["A bird."]})
    assert [*line][:7] == COLUMNS
    assert [line[name] for name in COLUMNS] == ["a", 0.75, 0.25, None, "What?", "A bird.", None]
    assert (line["doc_id"], line["input"]) == (3, "What?")
    assert line["record"]["official"] == {"points": 3, "reading": ""}


def test_a_sample_without_a_score_has_the_reason() -> None:
    line = line_of(Unscored("refused", "no"))
    assert (line["score"], line["robust"], line["unscored"]) == (None, 0.25, "refused")


def test_an_answer_that_is_not_a_text_is_no_text() -> None:
    assert line_of(Scored(1), {"filtered_resps": [{"a": 1}]})["answer"] is None


def test_images_are_placeholders_in_the_texts() -> None:
    question = (Segment(text="Look ", image="a.png"), Segment(text=" and say."))
    answer = (Segment(image="b.png", problem="missing"),)
    record = ImageRecord.of(
        Verdicts.unscored("refused", ""), id="a", question=question, answer=answer
    )
    line = sample_line({}, record, SCALE)
    assert (line["question"], line["answer"]) == ("Look <image> and say.", "<image>")


def test_the_replies_of_a_panel_are_one_text() -> None:
    line = mmie_line(judged(4, 5, None))
    record = Record.model_validate(line["record"])
    replies = [reply.text for reply in record.replies]
    assert sample_line(line, record, SCALE)["reply"] == "\n\n".join(replies)


@pytest.mark.parametrize("name", LINES)
def test_pandas_reads_the_columns_of_a_log_as_texts_and_numbers(name: str) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in LINES[name])
    frame = pd.read_json(io.StringIO(text), lines=True, dtype={"id": str})
    assert [*frame][:7] == COLUMNS
    assert not any(isinstance(value, (dict, list)) for value in frame[COLUMNS].to_numpy().ravel())
    assert frame["score"].between(0, 1).any()
