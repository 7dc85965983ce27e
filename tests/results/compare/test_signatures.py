"""Differences between the signatures of two runs that can move a score."""

import pytest
from support.letters import make_run as task_run

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.results.signatures import (
    SignatureDifference,
    mixed_keys,
    require_comparable,
    scored_signatures,
    signature_differences,
)

OPENAI = (
    "judge:openai|model:gpt-4o-2024-11-20|t:0|paper_judge:no|prompt:other:1,max_tokens=1024"
    "|assembly:official|reader:official+robust|task:mmie@1-A|data:sha256:1|pkg:0.1.0"
)


def changed(old, new, signature=OPENAI):
    assert old in signature
    return signature.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        pytest.param("judge:openai", "judge:mmie_score", "judge", id="judge"),
        pytest.param("11-20", "08-06", "model", id="model"),
        pytest.param("|paper", "|max:64|paper", "max", id="only-one-has-a-limit"),
        pytest.param("other:1,", "other:2,", "prompt", id="prompt"),
        pytest.param("@1-A", "@2-A", "task", id="version"),
        pytest.param("|data", "|variant:adv|data", "variant", id="variant"),
        pytest.param("sha256:1", "sha256:2", "data", id="data"),
    ],
)
def test_a_key_that_moves_a_score_is_a_difference(old, new, key):
    differences = signature_differences([OPENAI], [changed(old, new)])
    assert [difference.key for difference in differences] == [key]
    assert differences[0].a != differences[0].b


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("pkg:0.1.0", "pkg:0.2.0", id="package"),
        pytest.param("@1-A", "@1-B", id="interface"),
        pytest.param("|t:0", "|t:0|replayed:b25fd307e228", id="replayed"),
    ],
)
def test_a_key_that_moves_no_score_is_no_difference(old, new):
    assert signature_differences([OPENAI], [changed(old, new)]) == ()
    assert signature_differences([OPENAI], [OPENAI, changed(old, new)]) == ()


def test_runs_may_differ_in_who_drew_the_answers_but_one_run_may_not():
    drawn, other = (f"{OPENAI}|answers:step-1,model={name}" for name in "ab")
    assert signature_differences([OPENAI], [drawn]) == signature_differences([drawn], [other]) == ()
    (difference,) = signature_differences([drawn], [drawn, other])
    assert (difference.key, difference.b) == ("answers", ("step-1,model=a", "step-1,model=b"))
    assert mixed_keys([OPENAI, drawn]) == ("answers",)


def test_a_mixture_of_judges_is_a_difference_even_from_the_same_mixture():
    mixed = ["t:0", "t:1"]
    assert signature_differences(mixed, mixed) == (
        SignatureDifference(key="t", a=("0", "1"), b=("0", "1")),
    )
    assert [difference.a for difference in signature_differences(["t:0"], mixed)] == [("0",)]


def test_a_refusal_names_the_differences_and_a_remedy():
    words = r"(?s)`mmie`.*\| model .*gpt-4o.*other.*--ignore model,t`"
    with pytest.raises(SettingWrong, match=words):
        require_comparable(["model:gpt-4o|t:0"], ["model:other|t:1"], (), "mmie")


def test_ignored_differences_are_returned_and_others_are_refused():
    a, b = ["model:x|t:0|max:1"], ["model:y|t:1|max:1"]
    ignored = require_comparable(a, b, {"model", "t", "max"}, "mmie")
    assert [difference.key for difference in ignored] == ["model", "t"]
    with pytest.raises(SettingWrong) as no:
        require_comparable(a, b, {"model"}, "mmie")
    assert "| t " in str(no.value)
    assert "| model" not in str(no.value)


def test_a_key_that_no_signature_has_cannot_be_ignored():
    with pytest.raises(SettingWrong, match=r"`modle`(?s:.)*keys are: model"):
        require_comparable(["model:x"], ["model:y"], {"modle"}, "mmie")


def test_unscored_samples_do_not_count():
    run = task_run({"a": 1, "b": None}, signatures={"a": "t:0", "b": "judge:unknown"})
    assert scored_signatures(run) == ("t:0",)
    assert scored_signatures(task_run({"b": None}, signatures={"b": "t:1"})) == ("t:1",)
