"""Every sample gets its own answer or none, never the answer of another sample."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.answers.matching import (
    AnswerMatcher,
    MatchedAnswers,
    RequestedSample,
    no_match_error,
    runner_hash,
)
from mmie_tasks.answers.saved import SavedAnswer
from mmie_tasks.core.errors import AnswersUnusable


def plain(sample_id: str, answer: str = "text") -> SavedAnswer:
    return SavedAnswer(
        answer=answer, format="id and answer", location="a.json, entry 1", ids=(sample_id,)
    )


def logged(
    doc_id: int,
    answer: str = "text",
    *,
    task: str | None = "t",
    text: str | None = "",
    target: str | None = "gold",
    ids: tuple[str, ...] = (),
) -> SavedAnswer:
    return SavedAnswer(
        answer=answer,
        format="lmms-eval sample log",
        location=f"log.jsonl, line {doc_id}",
        ids=ids,
        task=task,
        doc_id=doc_id,
        input=f"Question {doc_id}?" if text == "" else text,
        target=target,
    )


def cached(doc_id: int, answer: str, text: str) -> SavedAnswer:
    return SavedAnswer(
        answer=answer,
        format="lmms-eval cache log",
        location=f"cache.audit.jsonl, line {doc_id}",
        task="t",
        doc_id=doc_id,
        input_hash=runner_hash(text),
    )


def requested(
    doc_id: int, *ids: str, task: str = "t", text: str = "", target: str | None = "gold"
) -> RequestedSample:
    return RequestedSample(
        task=task, doc_id=doc_id, ids=ids, input=text or f"Question {doc_id}?", target=target
    )


def answers_of(matched: MatchedAnswers) -> list[object]:
    return [answer.answer if answer else None for answer in matched.answers]


def match(saved: Sequence[SavedAnswer], *samples: RequestedSample) -> MatchedAnswers:
    return AnswerMatcher(saved).match(samples)


def test_a_bare_id_counts_where_the_task_has_one_dataset() -> None:
    assert answers_of(match([plain("1")], requested(0, "A/1"))) == ["text"]
    assert answers_of(match([plain("1")], requested(0, "A/1"), requested(1, "B/2"))) == [None, None]


def test_samples_that_are_not_requested_also_decide_whether_a_bare_id_counts() -> None:
    matched = AnswerMatcher([plain("1")]).match([requested(0, "A/1")], all_ids=["A/1", "B/1"])
    assert answers_of(matched) == [None]


def test_an_id_takes_precedence_over_the_number() -> None:
    saved = [logged(0, "a", ids=("A/1",)), logged(1, "b", ids=("A/0",))]
    assert answers_of(match(saved, requested(0, "A/0"), requested(1, "A/1"))) == ["b", "a"]


def test_an_answer_with_another_id_is_not_matched_by_number() -> None:
    saved = [logged(0, ids=("A/0",)), logged(1, ids=("A/1",))]
    assert answers_of(match(saved, requested(0, "A/0"), requested(1, "A/9"))) == ["text", None]


def test_an_id_in_the_log_of_another_task_counts_unless_the_content_differs() -> None:
    other = logged(5, task="all", ids=("17",), text="Question 0?")
    assert answers_of(match([other], requested(0, "17"))) == ["text"]
    assert answers_of(match([other], requested(0, "17", target="another"))) == [None]
    assert answers_of(match([other], requested(0, "17", text="Another?"))) == [None]


def test_a_log_without_ids_is_matched_by_number_where_the_content_agrees() -> None:
    matched = match([logged(1, "b"), logged(0, "a")], requested(0), requested(1))
    assert answers_of(matched) == ["a", "b"]
    assert matched.report.by_content == 2


def test_after_the_order_changed_no_answer_counts() -> None:
    saved = [logged(n, f"answer {n}") for n in range(4)]
    matched = match(saved, *(requested(n, text=f"Question {(n + 1) % 4}?") for n in range(4)))
    assert answers_of(matched) == [None] * 4
    assert matched.report.mismatched == 4


def test_a_sample_beyond_a_partial_log_does_not_take_the_answer_of_its_twin() -> None:
    matched = match([logged(20, text="Same?")], requested(151, text="Same?"))
    assert answers_of(matched) == [None]
    assert matched.report.missing == 1


def test_another_input_with_the_same_gold_is_matched_by_position_and_doubtful() -> None:
    matched = match([logged(0, text="Prompt for model X")], requested(0))
    assert answers_of(matched) == ["text"]
    assert matched.report.by_position == 1
    assert matched.report.doubtful


def test_of_two_swapped_samples_the_one_without_an_answer_does_not_get_the_other_answer() -> None:
    saved = [logged(n, f"answer {n}") for n in range(2, 20)]
    matched = match([logged(0, "answer 1", text="Question 1?"), *saved], *map(requested, range(20)))
    assert answers_of(matched) == [None, None, *(f"answer {n}" for n in range(2, 20))]


def test_an_answer_to_the_question_of_other_samples_is_not_matched_by_position() -> None:
    saved = [logged(0, text="Same?"), *(logged(n) for n in range(1, 20))]
    samples = [requested(n) for n in range(20)] + [requested(n, text="Same?") for n in (20, 21)]
    assert answers_of(match(saved, *samples)) == [None, *["text"] * 19, None, None]


def test_if_many_gold_answers_differ_equal_ones_do_not_count() -> None:
    saved = [logged(n, text=f"Old prompt {n}", target="AB"[n % 2]) for n in range(10)]
    matched = match(saved, *(requested(n, target="A") for n in range(10)))
    assert matched.report.mismatched == 10


def test_a_cache_log_is_verified_by_its_hash() -> None:
    saved = [cached(0, "a", "One?"), cached(1, "b", "Two?")]
    straight = match(saved, requested(0, text="One?"), requested(1, text="Two?"))
    crossed = match(saved, requested(0, text="Two?"), requested(1, text="One?"))
    other = match(saved, requested(0, text="Prompt for model X"))
    assert (answers_of(straight), answers_of(crossed), answers_of(other)) == (
        ["a", "b"],
        [None, None],
        ["a"],
    )
    assert (straight.report.by_content, other.report.by_position) == (2, 1)


@pytest.mark.parametrize(
    ("saved", "locations"),
    [
        pytest.param([plain("A/1"), logged(3, ids=("A/1",))], "a.json, entry 1, and log", id="id"),
        pytest.param([logged(0), logged(0)], "log.jsonl, line 0, and log.jsonl", id="number"),
    ],
)
def test_two_answers_to_one_sample_are_an_error_that_names_both(
    saved: list[SavedAnswer], locations: str
) -> None:
    with pytest.raises(AnswersUnusable, match=locations):
        match(saved, requested(0, "A/1"))


def test_the_report_counts_matched_missing_and_unused_answers() -> None:
    saved = [plain("A/0"), plain("A/1", MISSING), plain("A/7"), logged(3, target="no")]
    matched = match(saved, *(requested(n, f"A/{n}") for n in range(4)))
    assert matched.report.text() == (
        "t: 2 of 4 answers found (2 by id; format: id and answer); 1 missing; "
        "1 saved for another question; 1 null; 2 saved answers of other samples"
    )


def test_without_any_match_the_error_shows_how_both_sides_name_their_samples() -> None:
    text = str(no_match_error([requested(0, "DocVQA/131")], [logged(5, task="mme")]))
    assert "id `DocVQA/131`" in text
    assert "`mme`, number 5 (log.jsonl, line 5)" in text


@given(st.permutations(range(30)), st.integers(0, 30), st.sets(st.integers(0, 29)), st.randoms())
def test_in_any_order_no_sample_gets_the_answer_of_another(
    order: list[int], n_in_order: int, lost: set[int], rng: random.Random
) -> None:
    numbers = [*range(n_in_order), *(n for n in order if n >= n_in_order)]
    saved = [
        logged(position, f"answer {n}", text=f"Question {n}?", target=rng.choice("AB"))
        for position, n in enumerate(numbers)
        if n not in lost
    ]
    golds = {answer.input: answer.target for answer in saved}
    samples = [requested(n, target=golds.get(f"Question {n}?", "A")) for n in range(30)]
    for n, answer in enumerate(answers_of(match(saved, *samples))):
        assert answer in {None, f"answer {n}"}


@pytest.mark.parametrize("kind", ["id", "number"])
def test_twenty_thousand_samples_take_about_a_second(kind: str) -> None:
    sample_ids = [(f"A/{n}",) if kind == "id" else () for n in range(20_000)]
    saved = [logged(n, ids=ids) for n, ids in enumerate(sample_ids)]
    samples = [requested(n, *ids) for n, ids in enumerate(sample_ids)]
    start = time.thread_time()  # processor time: the machine may be busy
    assert match(saved, *samples).report.matched == 20_000
    assert time.thread_time() - start < 5
