"""Signatures: values that are stored as objects, and their text."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mmie_tasks.record.signature import Signature

GPT = {"judge": "a", "model": "gpt-4o"}
KEYS = st.text("abcdefg_", min_size=1, max_size=3)
VALUES = st.text(max_size=8)
JUDGES = st.lists(st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=3)
FIELDS = st.dictionaries(KEYS.map("of_{}".format), VALUES, max_size=4)


@given(JUDGES, FIELDS)
def test_a_signature_is_the_same_value_again(judges, added):
    own = tuple({"judge": "x", **judge} for judge in judges)
    signature = Signature(judges=own, benchmark={"paper_judge": "no", **added}, package="1.2")
    adapter = TypeAdapter(Signature)
    read = adapter.validate_python(json.loads(json.dumps(adapter.dump_python(signature))))
    assert (read, hash(read), str(read)) == (signature, hash(signature), str(signature))
    for key in dict.fromkeys(key for judge in own for key in judge):
        assert signature.fields[key] == ", ".join(judge.get(key, "none") for judge in own)
    assert signature.fields["pkg"] == "1.2"


def test_the_text_has_judges_benchmark_and_package_in_order_and_no_bar_in_a_value():
    of_a, of_b = {"judge": "a", "t": 0, "max": None}, {"judge": "b", "why": "x|y"}
    judges = Signature.of_judges([of_a, of_b])
    signature = Signature.of_run({"task": "mmie@5-C", "data": None}, judges, 0.5)
    text = "judge:a|t:0|judge:b|why:x y|task:mmie@5-C|min_coverage:0.5|pkg:"
    assert str(signature) == f"{text}{signature.package}"
    assert str(Signature()) == ""


@pytest.mark.parametrize(
    ("judges", "paper", "name", "other_judge"),
    [
        pytest.param([{"judge": "a", "model": "MMIE-Eval"}], "yes", "MMIE-Eval", False, id="paper"),
        pytest.param([GPT, {"judge": "b"}], "no", "panel of gpt-4o, b (median)", True, id="panel"),
        pytest.param([], None, "", False, id="by rule"),
    ],
)
def test_what_a_signature_says(judges, paper, name, other_judge):
    signature = Signature.of_run({"paper_judge": paper}, Signature.of_judges(judges))
    assert signature.name == name
    assert signature.is_panel is (len(judges) == 2)
    assert signature.is_of_another_judge is other_judge
