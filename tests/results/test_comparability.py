"""Differences between the signatures of two runs that can move a score."""

import pytest
from support.letters import make_run as task_run

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.comparability import (
    NotComparable,
    SignatureDifference,
    mixed_keys,
    require_comparable,
    scored_signatures,
    signature_differences,
)

OPENAI = (
    "judge:openai|model:gpt-4o-2024-11-20|t:0|paper_judge:no|prompt:other:1,max_tokens=1024"
    "|reader:official+robust|task:mmie@1-A|data:sha256:1|pkg:0.1.0"
)


def changed(old, new):
    assert old in OPENAI
    return OPENAI.replace(old, new)


def keys(a, b):
    """The keys in which two sets of signatures differ."""
    return [difference.key for difference in differences(a, b)]


def differences(a, b):
    return signature_differences(map(Signature.parse, a), map(Signature.parse, b))


def one_sample(text):
    return task_run({"a": 1}, signatures={"a": text})


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
    (difference,) = differences([OPENAI], [changed(old, new)])
    assert difference.key == key
    assert difference.a != difference.b


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param("pkg:0.1.0", "pkg:0.2.0", id="package"),
        pytest.param("@1-A", "@1-B", id="interface"),
        pytest.param("|t:0", "|t:0|replayed:b25fd307e228", id="replayed"),
    ],
)
def test_a_key_that_moves_no_score_is_no_difference(old, new):
    assert keys([OPENAI], [changed(old, new)]) == []
    assert keys([OPENAI], [OPENAI, changed(old, new)]) == []


def test_runs_may_differ_in_who_drew_the_answers_but_one_run_may_not():
    drawn, other = (f"{OPENAI}|answers:step-1,model={name}" for name in "ab")
    assert keys([OPENAI], [drawn]) == keys([drawn], [other]) == []
    (difference,) = differences([drawn], [drawn, other])
    assert (difference.key, difference.b) == ("answers", ("step-1,model=a", "step-1,model=b"))
    assert mixed_keys(map(Signature.parse, [OPENAI, drawn])) == ("answers",)


def test_a_mixture_of_judges_is_a_difference_even_from_the_same_mixture():
    mixed = ["t:0", "t:1"]
    assert differences(mixed, mixed) == (SignatureDifference(key="t", a=("0", "1"), b=("0", "1")),)
    assert [difference.a for difference in differences(["t:0"], mixed)] == [("0",)]


def test_a_refusal_names_the_differences_and_a_remedy():
    words = r"(?s)`letters`.*model: gpt-4o / other.*--ignore model,t`"
    with pytest.raises(NotComparable, match=words) as refused:
        require_comparable(one_sample("model:gpt-4o|t:0"), one_sample("model:other|t:1"))
    assert refused.value.keys == ("model", "t")


def test_ignored_differences_are_returned_and_others_are_refused():
    a, b = one_sample("model:x|t:0|max:1"), one_sample("model:y|t:1|max:1")
    ignored = require_comparable(a, b, {"model", "t", "max"})
    assert [difference.key for difference in ignored] == ["model", "t"]
    with pytest.raises(SettingWrong) as no:
        require_comparable(a, b, {"model"})
    assert "(t: 0 / 1)" in str(no.value)


def test_a_key_that_no_signature_has_cannot_be_ignored():
    with pytest.raises(SettingWrong, match=r"`modle`(?s:.)*keys are: model"):
        require_comparable(one_sample("model:x"), one_sample("model:y"), {"modle"})


def test_unscored_samples_do_not_count():
    run = task_run({"a": 1, "b": None}, signatures={"a": "t:0", "b": "judge:unknown"})
    assert list(map(str, scored_signatures(run))) == ["t:0"]
    unscored = task_run({"b": None}, signatures={"b": "t:1"})
    assert list(map(str, scored_signatures(unscored))) == ["t:1"]
