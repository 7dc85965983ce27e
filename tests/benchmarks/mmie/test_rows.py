"""The rows of MMIE's data file: both forms, and what is wrong with a row."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mmie_data import conversation, judge_input, segment

from mmie_tasks.benchmarks.mmie.rows import read_rows
from mmie_tasks.benchmarks.mmie.sample import BadSample
from mmie_tasks.record.segment import Segment

HELLO = [segment("Hello.")]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


def turns(*messages):
    return [{"from": role, "content": [segment(text)]} for role, text in messages]


@pytest.mark.parametrize("form", [conversation, judge_input])
def test_both_forms_give_the_same_row(form):
    question = [segment("Look:", "images/0.png"), segment(None, "images/1.png")]
    [row] = read_rows([form("PBL-7", question, [segment("", None)], field="Art")])
    assert (row.id, row.category, row.field, row.subfield) == ("PBL-7", "PBL", "Art", "")
    assert row.question == (Segment("Look:", "images/0.png"), Segment(None, "images/1.png"))
    assert row.gold == (Segment("", None),)


@pytest.mark.parametrize(
    ("value", "read"),
    [
        pytest.param({"text": None, "image": None}, Segment(), id="both null"),
        pytest.param({}, Segment(), id="both absent"),
        pytest.param({"text": ""}, Segment(""), id="an empty text is a text"),
        pytest.param({"text": "a", "image": ""}, Segment("a"), id="an empty image is none"),
        pytest.param({"image": "0.png", "more": 1}, Segment(None, "0.png"), id="no text, a key"),
    ],
)
@pytest.mark.parametrize("form", [conversation, judge_input])
def test_a_segment_may_lack_text_or_image(value, read, form):
    [row] = read_rows([form("SA-1", [value], HELLO)])
    assert row.question == (read,)


@pytest.mark.parametrize(
    ("gold", "read"),
    [
        pytest.param([], (), id="empty list"),
        pytest.param(None, (), id="null"),
        pytest.param("7", (Segment("7"),), id="plain text"),
    ],
)
def test_the_gold_answer_of_the_judges_form_may_be_little(gold, read):
    assert read_rows([judge_input("SA-1", "Why?", gold)])[0].gold == read


def test_the_gold_answer_of_the_judges_form_may_be_absent():
    row = judge_input("PBL-1", "Why?")
    del row["gt_answer"], row["answer"], row["model"]
    [read] = read_rows([row])
    assert (read.question, read.gold) == ((Segment("Why?"),), ())


@pytest.mark.parametrize("label", ["SA", 7, ["a"], None])
def test_labels_are_not_compared_with_the_id(label, logs):
    [row] = read_rows([conversation("PBL-1", HELLO, HELLO, catagory=label, field=label)])
    assert (row.category, row.field) == ("PBL", label if isinstance(label, str) else "")
    assert logs == []


@pytest.mark.parametrize("form", [conversation, judge_input])
def test_msr_without_a_gold_answer_is_counted_and_kept(form, logs):
    assert read_rows([form("MSR-1", HELLO, []), form("SA-1", HELLO, [])])[0].gold == ()
    [line] = logs
    assert "without a gold answer, which cannot be judged: 1, the first at row 0" in line


@pytest.mark.parametrize("form", [conversation, judge_input])
def test_a_number_as_gold_answer_is_its_text_and_as_question_an_error(form):
    number = [{"text": 21.6, "image": None}]
    assert read_rows([form("MSR-1", HELLO, number)])[0].gold == (Segment("21.6"),)
    with pytest.raises(BadSample, match="is float"):
        read_rows([form("MSR-1", number, HELLO)])


def test_turns_of_one_role_are_joined_in_order_and_counted(logs):
    messages = turns(("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d"))
    rows = [{"id": "SA-0", "conversations": messages}, conversation("SA-1", HELLO, HELLO)]
    [row, _] = read_rows([*rows])
    assert [one.text for one in row.question] == ["a", "c"]
    assert [one.text for one in row.gold] == ["b", "d"]
    [line] = logs
    assert "several turns of one role, joined in order: 1, the first at row 0, id 'SA-0'" in line


@pytest.mark.parametrize("count", [0, 1, 60])
def test_a_question_may_have_any_number_of_images(count):
    question = [segment("Look."), *(segment(None, f"{i}.png") for i in range(count))]
    [row] = read_rows([conversation("SA-1", question, HELLO)])
    assert [one.image for one in row.question if one.image] == [f"{i}.png" for i in range(count)]


def test_of_several_tokens_in_an_id_the_first_in_official_order_counts(logs):
    ids = ["MSR-SALT-1", "MSR-PBL-2", "PBL-MSR-SA-3", "MSR-4"]
    rows = read_rows([conversation(one, HELLO, HELLO) for one in ids])
    assert [row.category for row in rows] == ["SA", "PBL", "SA", "MSR"]
    [line] = logs
    assert "ids that name several categories" in line
    assert ": 3, the first at row 0, id 'MSR-SALT-1'" in line


@pytest.mark.parametrize("sample_id", ["7", "sa-1", "S-A", "MMIE-1"])
def test_an_id_without_a_token_is_an_error(sample_id):
    with pytest.raises(BadSample, match=f"row 0, id '{sample_id}': .* none of SA, PBL, MSR"):
        read_rows([conversation(sample_id, HELLO, HELLO)])


@pytest.mark.parametrize(
    "question", [[], "", [segment("")], [segment(None, "")]], ids=["list", "text", "part", "image"]
)
def test_an_empty_question_is_kept_and_counted(question, logs):
    assert len(read_rows([judge_input("SA-1", question, HELLO)])) == 1
    assert "questions with neither text nor image: 1" in logs[0]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("SA-1", "row 0: it is str, not an object", id="no object"),
        pytest.param({}, "row 0: neither `conversations` nor", id="nothing"),
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
    with pytest.raises(BadSample) as caught:
        read_rows([row])
    assert expected in str(caught.value)
    assert str(caught.value).startswith("row 0")


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
def test_any_json_is_read_or_refused_in_words(rows):
    with contextlib.suppress(BadSample):
        assert len(read_rows(rows)) == len(rows)
