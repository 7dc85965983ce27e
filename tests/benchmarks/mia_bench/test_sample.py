"""One row of MIA-Bench, and what can be wrong with it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.benchmarks.mia_bench.sample import Sample, fingerprint
from mmie_tasks.core.errors import BadSample


def row(**changes):
    return {
        "id": "7",
        "instruction": "Name the tools in two words. ",
        "type": "basic",
        "components": ["Name the tools ", "in two words"],
        "component_weight": [6, 4],
        "component_type": ["describe", "length_limit"],
        **changes,
    }


def test_a_row_is_read_as_it_stands():
    sample = Sample.from_doc(row())
    assert (sample.id, sample.weights, sample.full_marks) == ("7", (6, 4), 10)
    assert sample.instruction.endswith(" ")  # the official prompt holds the blanks
    assert sample.components == ("Name the tools ", "in two words")
    assert not sample.contradictory


@pytest.mark.parametrize(
    ("broken", "names"),
    [
        pytest.param({"id": 7}, "`id`", id="id"),
        pytest.param({"instruction": None}, "`instruction`", id="no-instruction"),
        pytest.param({"instruction": " "}, "`instruction`", id="empty"),
        pytest.param({"instruction": "\ud800"}, "`instruction`", id="surrogate"),
        pytest.param({"type": "hard"}, "`type`", id="type"),
        pytest.param({"type": ["basic"]}, "`type`", id="type-list"),
        pytest.param({"components": "ab"}, "`components`", id="text"),
        pytest.param({"components": ["a", 1]}, r"`components\[1\]`", id="number"),
        pytest.param({"components": []}, "`components`", id="none"),
        pytest.param({"components": ["a"] * 6}, "`components`", id="six"),
        pytest.param({"component_weight": [6]}, "`component_weight`", id="few"),
        pytest.param({"component_weight": [6, 4, 1]}, "`component_weight`", id="many"),
        pytest.param({"component_weight": [6, 0]}, r"`component_weight\[1\]`", id="zero"),
        pytest.param({"component_weight": [True, 4]}, r"`component_weight\[0\]`", id="truth"),
        pytest.param({"component_weight": [6.0, 4]}, r"`component_weight\[0\]`", id="float"),
        pytest.param({"component_type": ["describe"]}, "`component_type`", id="types"),
        pytest.param({"component_type": ["OCR", "math"]}, r"`component_type\[0\]`", id="category"),
    ],
)
def test_a_broken_row_is_named(broken, names):
    with pytest.raises(BadSample, match=f"MIA-Bench.*{names}"):
        Sample.from_doc(row(**broken))


@pytest.mark.parametrize("field", list(row()))
def test_a_missing_field_is_named(field):
    broken = row()
    del broken[field]
    with pytest.raises(BadSample, match=f"`{field}`"):
        Sample.from_doc(broken)


def test_a_fingerprint_knows_a_tidied_copy_and_nothing_else():
    original = fingerprint("Name  it ", ["Name ", "it"])
    assert original == fingerprint(" Name it", ["Name", " it"])
    assert original != fingerprint("Name it", ["Name it"])
    assert original != fingerprint("Name it", ["it", "Name"])


def test_a_sample_is_contradictory_by_its_words_alone(monkeypatch):
    sample = Sample.from_doc(row())
    marked = frozenset([fingerprint(sample.instruction, sample.components)])
    monkeypatch.setattr("mmie_tasks.benchmarks.mia_bench.sample._CONTRADICTORY", marked)
    assert Sample.from_doc(row(id="900")).contradictory


@given(st.dictionaries(st.sampled_from([*row()]), st.none() | st.text() | st.lists(st.integers())))
def test_any_row_is_a_sample_or_says_what_is_wrong(changes):
    try:
        Sample.from_doc(row(**changes))
    except BadSample as error:
        message = str(error)
    else:
        message = "`"
    assert "`" in message
