"""The rows of MMIE's data file: both forms, and what is wrong with a row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mmie_data import conversation, judge_input, segment

from mmie_tasks.benchmarks.mmie.rows import read_row
from mmie_tasks.core.errors import BadSample
from mmie_tasks.record.segment import Segment

HELLO = [segment("Hello.")]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def read(*values):
    """The rows of a file that can all be used."""
    rows, problems = checked(*values)
    assert problems == []
    return rows


def checked(*values):
    """The rows that can be used, and the problems of the others."""
    rows, problems = [], []
    for number, value in enumerate(values):
        try:
            rows.append(read_row(number, value))
        except BadSample as error:  # noqa: PERF203 - the other rows are read
            problems.append(str(error))
    return rows, problems


def turns(*messages):
    return [{"from": role, "content": [segment(text)]} for role, text in messages]


@pytest.mark.parametrize("form", [conversation, judge_input])
def test_both_forms_give_the_same_row(form):
    question = [segment("Look:", "images/0.png"), segment(None, "images/1.png")]
    [row] = read(form("PBL-7", question, [segment("", None)], field="Art"))
    assert (row.id, row.category, row.field, row.subfield) == ("PBL-7", "PBL", "Art", "")
    assert row.question == (Segment("Look:", "images/0.png"), Segment(None, "images/1.png"))
    assert row.gold == (Segment("", None),)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"text": None, "image": None}, Segment(), id="both null"),
        pytest.param({}, Segment(), id="both absent"),
        pytest.param({"text": ""}, Segment(""), id="an empty text is a text"),
        pytest.param({"text": "a", "image": ""}, Segment("a"), id="an empty image is none"),
        pytest.param({"image": "0.png", "more": 1}, Segment(None, "0.png"), id="no text, a key"),
    ],
)
@pytest.mark.parametrize("form", [conversation, judge_input])
def test_a_segment_may_lack_text_or_image(value, expected, form):
    [row] = read(form("SA-1", [value], HELLO))
    assert row.question == (expected,)


def test_the_gold_answer_of_the_judges_form_may_be_absent_or_a_plain_text():
    absent, empty, plain = (
        judge_input(f"SA-{i}", gold=gold) for i, gold in enumerate((None, [], "7"))
    )
    del absent["gt_answer"], absent["answer"], absent["model"]
    assert [row.gold for row in read(absent, empty, plain)] == [(), (), (Segment("7"),)]


@pytest.mark.parametrize("label", ["SA", 7, ["a"], None])
def test_labels_are_not_compared_with_the_id(label):
    [row] = read(conversation("PBL-1", HELLO, HELLO, catagory=label, field=label))
    assert (row.category, row.field) == ("PBL", label if isinstance(label, str) else "")


@pytest.mark.parametrize("form", [conversation, judge_input])
def test_a_number_as_gold_answer_is_its_text_and_as_question_an_error(form):
    number = [{"text": 21.6, "image": None}]
    rows, [problem] = checked(form("MSR-1", HELLO, number), form("MSR-2", number, HELLO))
    assert rows[0].gold == (Segment("21.6"),)
    assert "is float" in problem


def test_turns_of_one_role_are_joined_in_order():
    messages = turns(("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d"))
    [row] = read({"id": "SA-0", "conversations": messages})
    assert [one.text for one in row.question] == ["a", "c"]
    assert [one.text for one in row.gold] == ["b", "d"]


@pytest.mark.parametrize("question", [[], "", [segment("")], [segment(None, "")]])
def test_an_empty_question_is_kept(question):
    assert len(read(judge_input("SA-1", question, HELLO))) == 1


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("SA-1", "row 0: it is str, not an object", id="no object"),
        pytest.param({}, "row 0: neither `conversations` nor", id="nothing"),
        pytest.param(
            judge_input("sa-1"),
            "row 0, id 'sa-1': MMIE, sample sa-1: `id` contains none",
            id="no token",
        ),
        pytest.param({**judge_input("SA-1"), "id": ""}, "row 0: `id` is str", id="empty id"),
        pytest.param({**judge_input("SA-1"), "id": 7}, "row 0: `id` is int", id="number as id"),
        pytest.param({"id": "SA-1"}, "id 'SA-1': neither `conversations` nor", id="no form"),
        pytest.param(conversation("SA-1", None, HELLO), "[0].content` is null", id="no content"),
        pytest.param(conversation("SA-1", {}, HELLO), "[0].content` is dict", id="one segment"),
        pytest.param(conversation("SA-1", ["a"], HELLO), "content[0]` is str", id="bare text"),
        pytest.param(
            conversation("SA-1", HELLO, [segment("a"), {"text": [7]}]),
            "`conversations[1].content[1].text` is list",
            id="list as text",
        ),
        pytest.param(
            conversation("SA-1", HELLO, [{"image": ["0.png"]}]),
            "`conversations[1].content[0].image` is list",
            id="list as image",
        ),
        pytest.param({"id": "SA-1", "conversations": {}}, "`conversations` is dict", id="turns"),
        pytest.param({"id": "SA-1", "conversations": [1]}, "`conversations[0]` is int", id="turn"),
        pytest.param(
            {"id": "SA-1", "conversations": turns(("human", "a"), ("system", "b"))},
            "`conversations[1]` is dict: Input tag 'system'",
            id="role",
        ),
        pytest.param(judge_input("SA-1", None, HELLO), "`question` is null", id="no question"),
        pytest.param(judge_input("SA-1", [7], HELLO), "`question[0]` is int", id="segment"),
        pytest.param(judge_input("SA-1", HELLO, 7), "`gt_answer` is int", id="number as gold"),
    ],
)
def test_what_is_of_the_wrong_kind_is_named(row, expected):
    rows, [problem] = checked(row)
    assert rows == []
    assert expected in problem
    assert problem.startswith("row 0")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"id": st.just("SA-1") | JSON},
            optional={"conversations": JSON, "question": JSON, "gt_answer": JSON, "field": JSON},
        )
        | JSON,
        max_size=3,
    )
)
def test_any_json_is_read_or_refused_in_words(values):
    rows, problems = checked(*values)
    assert len(rows) + len(problems) == len(values)
