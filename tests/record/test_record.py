"""The record of a sample: what is written is read again; and its line in the log."""

from __future__ import annotations

import io
import json
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmie_tasks.record.sample_line import sample_line
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.signatures import signature_of

from mmie_tasks.core.verdict import Scored, Unscored, Verdict, Verdicts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.record import RECORD_KEY, BadRecord, ImageRecord, Record, read_record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

REPLY = JudgeReply(text="Score: 4", model="m")
AGAIN = JudgeReply(text="Score: 3", model="m")
JUDGE = signature_of("judge:openai|model:m")
SIGNATURE = signature_of("judge:openai|model:m|paper_judge:no|task:sketch@1-A|pkg:0.1.0")


class SketchRecord(Record):
    """The record of a benchmark with a field of its own."""

    category: str

    @property
    def groups(self) -> dict[str, tuple[str, ...]]:
        return {"category": (self.category,)}


def grade(result: JudgeResult) -> Verdicts:
    def read(reply: str) -> Verdict:
        return Scored(float(reply.rpartition(" ")[2]))

    return Verdicts(official=result.first_verdict(read), robust=result.verdict(read))


def judgement(*replies: JudgeReply) -> Judgement:
    result = JudgeResult(**dict(zip(("reply", "second_reply"), replies, strict=False)))
    return Judgement(judge=JUDGE, result=result, verdicts=grade(result))


def record(**changes: Any) -> SketchRecord:
    judged = Judged.by([judgement(REPLY)])
    return SketchRecord.of(judged, id="a", category="scene", signature=SIGNATURE, **changes)


def line_of(written: Record) -> dict[str, Any]:
    """The line of a log, as it is read from the file."""
    line: dict[str, Any] = json.loads(
        json.dumps({"filtered_resps": "a bird", RECORD_KEY: written.model_dump()})
    )
    return line


points = st.floats(allow_nan=False)
texts = st.dictionaries(st.text(), st.text(), max_size=3)
scored = st.builds(Scored, points, st.text(max_size=80))
unscored = st.builds(Unscored, st.sampled_from(["unparsed", "cut_off"]), st.text())
verdicts = st.builds(
    Verdicts,
    official=scored | unscored,
    robust=scored | unscored,
    shares=st.dictionaries(
        st.sampled_from(["official", "robust"]), st.dictionaries(st.text(), points)
    ),
)
signatures = st.builds(
    Signature, judges=st.lists(texts, max_size=3).map(tuple), benchmark=texts, package=st.text()
)
replies = st.builds(
    JudgeReply, text=st.text(), model=st.text(), finish=st.sampled_from(["stop", "length"])
)
results = st.builds(
    JudgeResult,
    reply=st.none() | replies,
    second_reply=st.none() | replies,
    failure=st.none() | unscored,
)
judgements = st.builds(Judgement, judge=signatures, result=results, verdicts=verdicts)
segments = st.lists(
    st.builds(
        Segment,
        text=st.none() | st.text(),
        image=st.none() | st.text(max_size=200),
        problem=st.sampled_from(["", "missing"]),
        prompt=st.text(),
    ),
    max_size=3,
).map(tuple)


@given(
    judged=st.builds(
        Judged, verdicts=verdicts, judgements=st.lists(judgements, max_size=2).map(tuple)
    ),
    signature=signatures,
    question=segments,
    gold=segments,
    answer=segments,
)
def test_what_is_written_is_read_again(judged: Judged, **fields: Any) -> None:
    written = ImageRecord.of(judged, id="a", **fields)
    assert written.verdicts == judged.verdicts
    assert read_record(ImageRecord, line_of(written)) == written


def test_a_record_is_a_sample_with_its_line() -> None:
    line = {**line_of(record()), "input": "What is it?", "target": "a kite"}
    sample = read_record(SketchRecord, line).sample(line)
    assert (sample.id, sample.signature, sample.names("category")) == ("a", SIGNATURE, ("scene",))
    assert (sample.official, sample.robust) == (Scored(4), Scored(4))
    assert (sample.replies, sample.members) == ((REPLY,), ())
    shown = (*sample.question, *sample.gold, *sample.answer)
    assert [segment.text for segment in shown] == ["What is it?", "a kite", "a bird"]


NEEDED = (
    *("id", "official", "robust", "category"),
    *("judgements.0.result.reply.text", "judgements.0.verdicts.official"),
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, value) for path in NEEDED for value in (..., 7, {})),  # ...: it is missing
        ("signature.judges", "judge:a"),
        ("facts.thinking", "often"),
    ],
)
def test_a_bad_record_names_the_field(path: str, value: object) -> None:
    line = line_of(record())
    *parents, name = path.split(".")
    target = line[RECORD_KEY]
    for parent in parents:
        target = target[int(parent) if parent.isdecimal() else parent]
    target[name] = value
    if value is ...:
        del target[name]
    with pytest.raises(BadRecord, match=f"^`{path}[`.]"):
        read_record(SketchRecord, line)
    for row in (None, 1.0, "a", []):
        with pytest.raises(BadRecord, match="no record under `record`"):
            read_record(Record, {RECORD_KEY: row})


def test_a_long_reading_and_a_long_reference_are_cut_in_the_record() -> None:
    long = Verdicts(official=Scored(1, "x" * 500), robust=Scored(1))
    written = ImageRecord.of(
        long, id="a", answer=(Segment(image="data:" + "x" * 500, problem="unreadable"),)
    )
    assert written.official == Scored(1, "x" * 80 + "…")
    assert len(str(written.answer[0].image)) == 200


# Grading again.


@pytest.mark.parametrize(
    ("replies", "official", "robust"), [((REPLY,), 4, 4), ((REPLY, AGAIN), 4, 3)]
)
def test_the_replies_of_one_judge_are_graded_again(
    replies: tuple[JudgeReply, ...], official: float, robust: float
) -> None:
    old = Verdicts(official=Scored(0), robust=Unscored("unparsed"))
    judged = Judgement(judge=JUDGE, result=judgement(*replies).result, verdicts=old)
    written = SketchRecord.of(Judged.by([judged]), id="a", category="scene")
    again = written.regraded(grade)
    assert (again.official, again.robust) == (Scored(official), Scored(robust))
    assert again.judgements[0].verdicts == grade(judged.result)
    assert again.replies == replies
    assert again.model_copy(update=dict(written)) == written  # nothing else has changed


def test_the_replies_of_several_judges_are_graded_and_combined_again() -> None:
    judged = Judged.by([judgement(REPLY), judgement(AGAIN)])
    fields = {"id": "a", "category": "scene", "signature": signature_of("judge:a|judge:b")}
    written = SketchRecord.of(Verdicts.unscored("unparsed", ""), **fields)
    written = written.model_copy(update={"judgements": judged.judgements})
    again = read_record(SketchRecord, line_of(written)).regraded(grade)
    assert (again.verdicts, again.official) == (judged.verdicts, Scored(3.5))
    not_judged = Record.of(Verdicts.unscored("no_answer", "the request failed"), id="a")
    assert not_judged.regraded(grade) is not_judged


# The line in the log.

COLUMNS = ["id", "score", "robust", "unscored", "question", "answer", "reply"]
LINES = {"mmie": mmie_lines(3), "milebench": milebench_lines(1), "mia_bench": mia_lines(3)}
SCALE = Scale(full_marks=4, unit="points, 0 to 4", percent=lambda mean: 25 * mean)
IMAGES = {
    "question": (Segment(text="Look ", image="a.png"), Segment(text=" and say.")),
    "answer": (Segment(image="b.png", problem="missing"),),
}


@pytest.mark.parametrize(
    ("judged", "fields", "expected"),
    [
        pytest.param(
            Judged.by([judgement(REPLY)]),
            {},
            [1, 1, None, "What?", "A bird.", "Score: 4"],
            id="scored",
        ),
        pytest.param(
            Judged.by([judgement(REPLY), judgement(AGAIN)]),
            {},
            [0.875, 0.875, None, "What?", "A bird.", "Score: 4\n\nScore: 3"],
            id="panel",
        ),
        pytest.param(
            Verdicts(official=Unscored("refused"), robust=Scored(1)),
            IMAGES,
            [None, 0.25, "refused", "Look <image> and say.", "<image>", None],
            id="unscored, with images",
        ),
    ],
)
def test_a_line_begins_with_columns_and_keeps_what_the_runner_wrote(
    judged: Judged | Verdicts, fields: dict[str, Any], expected: list[object]
) -> None:
    runner = {"doc_id": 3, "input": "What?", "filtered_resps": ["A bird."]}
    line = sample_line(runner, ImageRecord.of(judged, id="a", **fields), SCALE)
    assert [*line][:7] == COLUMNS
    assert [line[name] for name in COLUMNS] == ["a", *expected]
    assert (line["doc_id"], line["input"]) == (3, "What?")
    assert line["record"]["id"] == "a"
    no_text = sample_line({"filtered_resps": [{"a": 1}]}, record(), SCALE)
    assert no_text["answer"] is None


@pytest.mark.parametrize("name", LINES)
def test_pandas_reads_the_columns_of_a_log_as_texts_and_numbers(name: str) -> None:
    text = "".join(f"{json.dumps(line)}\n" for line in LINES[name])
    frame = pd.read_json(io.StringIO(text), lines=True, dtype={"id": str})
    assert [*frame][:7] == COLUMNS
    assert not any(isinstance(value, (dict, list)) for value in frame[COLUMNS].to_numpy().ravel())
    assert frame["score"].between(0, 1).any()
