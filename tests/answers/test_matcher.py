"""Every sample gets its own answer or none, never the answer of another sample."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.matcher import AnswerMatcher, MatchedAnswers, RequestedSample
from mmie_tasks.answers.saved import SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable


def saved(sample_id: str, answer: str = "text", task: str | None = None) -> SavedAnswer:
    return SavedAnswer(
        answer=answer,
        format="lmms-eval sample log" if task else "id and answer",
        location=f"{task or 'a'}.jsonl, `{sample_id}`",
        id=sample_id,
        task=task,
        input=f"Question {sample_id}?",
    )


def requested(*ids: str, text: str = "?") -> RequestedSample:
    return RequestedSample(ids=ids, input=text)


def match(answers: Sequence[SavedAnswer], *ids: str) -> MatchedAnswers:
    return AnswerMatcher(answers).match("t", list(map(requested, ids)))


def answers_of(matched: MatchedAnswers) -> list[object]:
    return [answer.answer if answer else None for answer in matched.answers]


def test_an_answer_is_matched_by_its_whole_id() -> None:
    assert answers_of(match([saved("1"), saved("B/1", "b")], "A/1", "B/1")) == [None, "b"]


def test_the_log_of_another_task_counts_where_its_model_was_sent_the_same_text() -> None:
    matcher = AnswerMatcher([saved("1", task="other"), saved("2", task="other")])
    samples = [requested("1", text="Question 1?"), requested("2", text="Options shuffled?")]
    assert answers_of(matcher.match("t", samples)) == ["text", None]


def test_the_log_of_the_task_precedes_others() -> None:
    answers = [saved("1", "other", task="other"), saved("1", "own", task="t"), saved("2", "any")]
    assert answers_of(match(answers, "1", "2")) == ["own", "any"]


def test_a_sample_has_its_id_and_its_url() -> None:
    matcher = AnswerMatcher([saved("http://h/1.jpg", "a"), saved("2", "b")])
    matched = matcher.match(
        "t", [requested("1", "http://h/1.jpg"), requested("2", "http://h/2.jpg")]
    )
    assert answers_of(matched) == ["a", "b"]


@pytest.mark.parametrize(
    ("answers", "locations"),
    [
        pytest.param([saved("A/1"), saved("A/1", task="t")], "a.jsonl, .*, and t.jsonl", id="id"),
        pytest.param([saved("http://h"), saved("A/1")], "`A/1`, and .*`http://h`", id="id and URL"),
    ],
)
def test_two_answers_to_one_sample_are_an_error_that_names_both(
    answers: list[SavedAnswer], locations: str
) -> None:
    with pytest.raises(AnswersUnusable, match=locations):
        AnswerMatcher(answers).match("t", [requested("A/1", "http://h")])


def test_the_report_counts_missing_and_null_answers_and_names_an_id_without_a_sample() -> None:
    answers = [saved("A/0"), saved("A/1", MISSING), saved("A/7"), saved("A/8"), saved("A/9")]
    matcher = AnswerMatcher([*answers, saved("B/1", task="other")])
    matched = matcher.match("t", list(map(requested, ["A/0", "A/1", "A/2"])), all_ids=["A/8"])
    assert matched.report.text() == (
        "t: 2 of 3 answers found (format: id and answer); 1 missing; 1 null; "
        "2 with an id that no sample has, such as `A/7` (a.jsonl, `A/7`)"
    )


def test_without_any_match_the_error_shows_how_both_sides_name_their_samples() -> None:
    matcher = AnswerMatcher([saved("131", task="mme")])
    text = str(matcher.no_match_error("t", [requested("DocVQA/131")]))
    assert "id `DocVQA/131`" in text
    assert "id `131` in a log of `mme` (mme.jsonl, `131`)" in text
    assert "samples without an id" in str(matcher.no_match_error("t", [requested()]))


@given(st.permutations(range(30)), st.sets(st.integers(0, 29)))
def test_in_any_order_every_sample_gets_its_own_answer(order: list[int], lost: set[int]) -> None:
    answers = [saved(str(n), f"answer {n}") for n in order if n not in lost]
    expected = [None if n in lost else f"answer {n}" for n in range(30)]
    assert answers_of(match(answers, *map(str, range(30)))) == expected


def test_twenty_thousand_samples_take_about_a_second() -> None:
    ids = [f"A/{n}" for n in range(20_000)]
    start = time.thread_time()  # processor time: the machine may be busy
    assert match([saved(sample_id) for sample_id in ids], *ids).report.matched == 20_000
    assert time.thread_time() - start < 5
