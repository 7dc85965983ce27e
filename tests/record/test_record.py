"""The record of a sample: what is written is read again; and its line in the log."""

import io
import json
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.logged_runs import mia_lines, milebench_lines, mmie_lines
from support.records import record_of
from support.signatures import signature_from

from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, RECORD_KEY, BadRecord, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

REPLY = JudgeReply(text="Score: 4", model="m")
AGAIN = JudgeReply(text="Score: 3", model="m")
JUDGE = signature_from("judge:openai|model:m")
SIGNATURE = signature_from("judge:openai|model:m|paper_judge:no|task:sketch@1-A|pkg:0.1.0")


def grade(result):
    def read(reply):
        return Scored(float(reply.rpartition(" ")[2]))

    return Verdicts(official=result.first_verdict(read), robust=result.verdict(read))


def judgement(*replies):
    result = JudgeResult(**dict(zip(("reply", "second_reply"), replies, strict=False)))
    return Judgement(judge=JUDGE, result=result, verdicts=grade(result))


def record(*judgements, **fields):
    written = Record(id="a", verdicts=NOT_JUDGED, signature=SIGNATURE, **fields)
    return written.judged(judgements or [judgement(REPLY)])


def line_of(written):
    """The line of a log, as it is read from the file."""
    return json.loads(json.dumps({RECORD_KEY: written.logged}))


any_text = st.text(st.characters(exclude_categories=()))  # with lone surrogates
points = st.floats(allow_nan=False)
texts = st.dictionaries(any_text, any_text, max_size=3)
scored = st.builds(Scored, points, st.text(max_size=81))
unscored = st.builds(Unscored, st.sampled_from(["unparsed", "cut_off"]), any_text)
verdicts = st.builds(
    Verdicts,
    official=scored | unscored,
    robust=scored | unscored,
    shares=st.dictionaries(
        st.sampled_from(["official", "robust"]), st.dictionaries(any_text, points)
    ),
)
signatures = st.builds(
    Signature, judges=st.lists(texts, max_size=3).map(tuple), benchmark=texts, package=any_text
)
replies = st.builds(
    JudgeReply, text=any_text, model=any_text, finish=st.sampled_from(["stop", "length"])
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
        text=st.none() | any_text,
        image=st.none() | st.text(max_size=200),
        problem=st.sampled_from(["", "missing"]),
        prompt=any_text,
    ),
    max_size=3,
).map(tuple)
facts = st.dictionaries(any_text, st.integers(-(2**60), 2**60) | points | any_text, max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | points | any_text,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(any_text, inner, max_size=2),
    max_leaves=5,
)


@given(
    id=any_text,
    groups=st.dictionaries(any_text, st.lists(any_text, max_size=2).map(tuple), max_size=2),
    verdicts=verdicts,
    judgements=st.lists(judgements, max_size=2).map(tuple),
    signature=signatures,
    question=segments,
    gold=segments,
    answer=segments,
    facts=facts,
    sample=st.dictionaries(any_text, json_values, max_size=2),
)
def test_what_is_written_is_read_again(facts, **fields):
    written = Record(**fields, facts=facts)
    read = Record.of_line(line_of(written))
    assert read == written
    assert list(map(type, read.facts.values())) == list(map(type, facts.values()))


def test_a_record_is_logged_without_what_it_does_not_have():
    verdicts = {"official": {"points": 1}, "robust": {"points": 1}}
    assert record_of("a", Scored(1), answer=()).logged == {"id": "a", "verdicts": verdicts}


NEEDED = (
    *("id", "verdicts", "verdicts.official", "verdicts.robust"),
    *("judgements.0.result.reply.text", "judgements.0.verdicts.official"),
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *((path, value) for path in NEEDED for value in (..., 7)),  # ...: it is missing
        ("signature.judges", "judge:a"),
        ("verdicts.robust", {"reason": "sleepy"}),
        ("question", "?"),
        ("gold.0.image", 7),
        ("groups.kind", "scene"),
        ("facts.thinking", ["often"]),
        ("verdicts.shares.robust", 1),
    ],
)
def test_a_bad_record_names_the_field(path, value):
    line = line_of(record(gold=(Segment("a", "a.png"),), groups={"kind": ("a",)}, facts={"a": 1}))
    *parents, name = path.split(".")
    target = line[RECORD_KEY]
    for parent in parents:
        target = target[int(parent)] if parent.isdecimal() else target.setdefault(parent, {})
    target[name] = value
    if value is ...:
        del target[name]
    with pytest.raises(BadRecord, match=f"^`{path}[`.]"):
        Record.of_line(line)
    for row in (None, 1.0, "a", []):
        with pytest.raises(BadRecord, match="no record under `record`"):
            Record.of_line({RECORD_KEY: row})


def test_a_long_reading_and_a_long_reference_are_cut_in_the_record():
    long = Verdicts(official=Scored(1, "x" * 500), robust=Scored(1))
    written = record().scored(long)
    assert written.official == Scored(1, "x" * 80 + "…")
    assert written.scored(written.verdicts) == written
    image = Segment(image="data:" + "x" * 500, problem="unreadable", detail="why")
    assert (len(str(image.logged.image)), image.logged.detail) == (200, "")


# Grading again.


@pytest.mark.parametrize(("replies", "robust"), [((REPLY,), 4), ((REPLY, AGAIN), 3)])
def test_the_replies_of_one_judge_are_graded_again(replies, robust):
    old = Verdicts(official=Scored(0), robust=Unscored("unparsed"))
    judged = replace(judgement(*replies), verdicts=old)
    written = record(judged, facts={"a": 1})
    again = written.regraded(grade)
    assert (again.official, again.robust) == (Scored(4), Scored(robust))
    assert again.judgements[0].verdicts == grade(judged.result)
    assert again.replies == replies
    assert again.model_copy(update=dict(written)) == written  # nothing else has changed


def test_the_replies_of_several_judges_are_graded_and_combined_again():
    written = record(judgement(REPLY), judgement(AGAIN))
    assert written.official == Scored(3.5)
    unread = written.scored(Verdicts.unscored("unparsed", ""))
    assert Record.of_line(line_of(unread)).regraded(grade) == written


# The line in the log.

COLUMNS = ["id", "score", "robust", "unscored", "question", "answer", "reply"]
LINES = {"mmie": mmie_lines(3), "milebench": milebench_lines(1), "mia_bench": mia_lines(3)}
TEXTS = {"question": (Segment(text="What?"),), "answer": (Segment(text="A bird."),)}
IMAGES = {
    "question": (Segment(text="Look ", image="a.png"), Segment(text=" and say.")),
    "answer": (Segment(image="b.png", problem="missing"),),
}
PANEL = record(judgement(REPLY), judgement(AGAIN), **TEXTS)
UNSCORED = record_of("a", Unscored("refused"), Scored(1), **IMAGES)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (record(**TEXTS), [1, 1, None, "What?", "A bird.", "Score: 4"]),
        (PANEL, [0.875, 0.875, None, "What?", "A bird.", "Score: 4\n\nScore: 3"]),
        (UNSCORED, [None, 0.25, "refused", "Look <image> and say.", "<image>", None]),
    ],
)
def test_a_line_begins_with_columns_and_keeps_what_the_runner_wrote(written, expected):
    runner = {"doc_id": 3, "input": "What?", "filtered_resps": ["A bird."], "record": "its row"}
    line = written.line(runner, 4)
    assert [*line] == [*COLUMNS, "doc_id", "input", "filtered_resps", "record"]
    assert [line[name] for name in COLUMNS] == ["a", *expected]
    assert (line["doc_id"], line["input"]) == (3, "What?")
    assert line["record"] == written.logged


@pytest.mark.parametrize("name", LINES)
def test_pandas_reads_the_columns_of_a_log_as_texts_and_numbers(name):
    text = "".join(f"{json.dumps(line)}\n" for line in LINES[name])
    frame = pd.read_json(io.StringIO(text), lines=True, dtype={"id": str})
    assert [*frame][:7] == COLUMNS
    assert not any(isinstance(value, (dict, list)) for value in frame[COLUMNS].to_numpy().ravel())
    assert frame["score"].between(0, 1).any()
