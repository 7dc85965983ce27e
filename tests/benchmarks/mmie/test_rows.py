"""The rows of MMIE's data file: both forms, and what is wrong with a row."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mmie_data import conversation, judge_input, segment

from mmie_tasks.benchmarks.mmie.sample import CATEGORIES, Sample
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment

FORMS = pytest.mark.parametrize("form", [conversation, judge_input])
HELLO = [segment("Hello.")]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def read(row):
    return Sample.from_row(row, "row 0")


def turns(*messages):
    return [{"from": role, "content": [segment(text)]} for role, text in messages]


@FORMS
def test_both_forms_give_the_same_sample(form):
    question = [segment("Look:", "images/0.png"), {"image": "images/1.png", "more": 1}]
    sample = read(form("PBL-7", question, [segment("", ""), {}], field="Art", subfield=["a"]))
    assert (sample.id, sample.category) == ("PBL-7", "PBL")
    assert (sample.field, sample.subfield) == ("Art", "")
    assert sample.question == (Segment("Look:", "images/0.png"), Segment(None, "images/1.png"))
    assert sample.gold == (Segment(""), Segment())


def test_the_gold_answer_of_the_judges_form_may_be_absent_or_a_plain_text():
    absent = judge_input("SA-0")
    del absent["gt_answer"], absent["answer"], absent["model"]
    rows = (absent, *(judge_input("SA-1", gold=gold) for gold in ([], "7", "")))
    assert [read(row).gold for row in rows] == [(), (), (Segment("7"),), (Segment(""),)]


@FORMS
def test_a_number_as_gold_text_is_its_text(form):
    assert read(form("MSR-1", HELLO, [{"text": 21.6}])).gold == (Segment("21.6"),)


def test_turns_of_one_role_are_joined_in_order():
    messages = turns(("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d"))
    sample = read({"id": "SA-0", "conversations": messages})
    assert [part.text for part in sample.question] == ["a", "c"]
    assert [part.text for part in sample.gold] == ["b", "d"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("SA-1", "row 0: not an object", id="no object"),
        pytest.param({}, "row 0: `id`", id="nothing"),
        pytest.param(judge_input("sa-1"), "row 0, id 'sa-1': `id` contains none", id="no token"),
        pytest.param(judge_input(""), "`id`", id="empty id"),
        pytest.param(judge_input(7), "`id`", id="number as id"),
        pytest.param({"id": "SA-1"}, "neither `conversations` nor `question`", id="no form"),
        pytest.param(conversation("SA-1", None), "`conversations[0].content`", id="no content"),
        pytest.param(
            conversation("SA-1", HELLO, [segment("a"), {"text": [7]}]),
            "`conversations[1].content[1].text`",
            id="list as text",
        ),
        pytest.param({"id": "SA-1", "conversations": {}}, "`conversations`", id="turns"),
        pytest.param({"id": "SA-1", "conversations": [1]}, "[0]`: not an object", id="turn"),
        pytest.param(
            {"id": "SA-1", "conversations": turns(("human", "a"), ("system", "b"))},
            "`conversations[1].from`",
            id="role",
        ),
        pytest.param(judge_input("SA-1", [7]), "`question[0]`: not an object", id="segment"),
        pytest.param(judge_input("SA-1", [{"image": 7}]), "`question[0].image`", id="image"),
        pytest.param(judge_input("SA-1", HELLO, 0), "`gt_answer`", id="number as gold"),
        pytest.param(judge_input("SA-1", "a\ud800"), "`question[0].text`", id="half a character"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(row, expected):
    with pytest.raises(BadSample) as caught:
        read(row)
    assert str(caught.value).startswith("row 0")
    assert expected in str(caught.value)


@given(
    st.fixed_dictionaries(
        {"id": st.just("SA-1") | JSON},
        optional={"conversations": JSON, "question": JSON, "gt_answer": JSON, "field": JSON},
    )
    | JSON
)
def test_any_json_is_read_or_refused(row):
    with suppress(BadSample):
        assert read(row).category in CATEGORIES
