"""The grade of a judge: hand-computed cases, properties, and planted judges on made-up verdicts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from support.verdict_files import pair

from mmie_tasks.quality.judge_exam.grade import grade_judge
from mmie_tasks.quality.judge_exam.verdict_set import NoVerdict, PairVerdict, VerdictSet
from mmie_tasks.record.intervals import MIN_SAMPLES

OTHER = {"A": "B", "B": "A"}
NO_SEGMENTS = ((), ())


def pairs_won_by(winners):
    return [pair(id_, winner) for id_, winner in enumerate(winners)]


def verdict_set(pairs):
    return VerdictSet(
        name="made up", title="", licence="", source="", pairs=tuple(pairs), has_answers=False
    )


def judgement(id_, is_reversed, a_wins):
    return PairVerdict(
        pair=str(id_),
        is_reversed=is_reversed,
        a_wins=a_wins,
        why_not=None if a_wins is not None else NoVerdict("timeout"),
    )


def forward(*a_wins):
    """Judgements with A shown first, of the pairs 0, 1, and so on."""
    return [judgement(id_, False, value) for id_, value in enumerate(a_wins)]


def reverse(*a_wins):
    return [judgement(id_, True, value) for id_, value in enumerate(a_wins)]


def percents(shares):
    return {name: round(share.value, 2) for name, share in shares.items()}


def test_agreement_is_the_mean_over_both_orders_and_an_undecided_one_is_half_right():
    result = grade_judge(
        verdict_set(pairs_won_by("AAB")), [*forward(1, 0, 0), *reverse(1, 0.5, None)]
    )
    assert (result.agreement.value, result.agreement.n) == (100 * 3.5 / 5, 5)
    assert percents(result.by_order) == {"forward": 66.67, "reverse": 75}


@pytest.mark.parametrize(
    ("a_first", "b_first", "accuracy"),
    [
        pytest.param((1, 1, 1, 1, 1), (1, 1, 1, 1, 1), 0.6, id="always the same answer"),
        pytest.param((1, 0, None, 1, 0), (0, 0, 1, None, None), 6 / 7, id="missing judgements"),
        pytest.param(
            (None, None, None, 1, 1), (None, None, None, None, 1), 1 / 3, id="missing pairs"
        ),
    ],
)
def test_the_agreement_of_a_judge_that_is_never_undecided_is_the_share_of_right_verdicts(
    a_first, b_first, accuracy
):
    result = grade_judge(
        verdict_set(pairs_won_by("ABAAB")), [*forward(*a_first), *reverse(*b_first)]
    )
    assert result.agreement.value == pytest.approx(100 * accuracy)


def test_agreement_without_peoples_ties_leaves_out_pairs_that_people_called_a_tie():
    people = verdict_set([*pairs_won_by("AA"), replace(pair(2, "B"), is_tie=True)])
    result = grade_judge(people, [*forward(1, 0, 1), *reverse(1, 1, 0.5)])
    assert result.agreement.n == 6
    assert result.agreement_untied.n == 4
    assert result.agreement_untied.value == 75
    untied = grade_judge(verdict_set(pairs_won_by("AA")), forward(1, 0)).agreement_untied
    assert (untied.value, untied.why_not) == (None, "people called no judged pair a tie")


def test_a_flip_is_another_verdict_on_the_same_pair_in_the_other_order():
    result = grade_judge(
        verdict_set(pairs_won_by("AAAAA")), [*forward(1, 0, 1, 0.5, 1), *reverse(1, 0, 0, 1, None)]
    )
    assert (result.flips.value, result.flips.n) == (50, 4)


def test_preference_for_the_first_answer_is_shown_with_peoples_for_the_same_pairs():
    result = grade_judge(verdict_set(pairs_won_by("AABB")), [*forward(1, 0.5, 1), *reverse(0)])
    assert (result.first_answer.value, result.first_answer.n) == (100 * 3.5 / 4, 4)
    assert result.first_answer_people.value == 50  # A of 0 and of 1, but not of 2, nor B of 0


def test_a_leaning_to_more_images_is_of_pairs_with_unequal_numbers_of_them():
    numbers = [(1, 3), (3, 1), (2, 2), None, (0, 1)]
    people = verdict_set([pair(id_, "A", images=images) for id_, images in enumerate(numbers)])
    leaning = grade_judge(people, forward(0, 1, 1, 1, 0.5)).more_images
    assert (leaning.wrong_against.value, leaning.wrong_against.n) == (75, 2)
    assert (leaning.wrong_for.value, leaning.wrong_for.n) == (0, 1)
    assert (leaning.difference, leaning.interval, leaning.finding) == (75, None, "")


def test_a_leaning_to_longer_text_counts_characters_and_neither_images_nor_their_names():
    long_name = Path("a-picture-with-a-long-name.png")
    answers = [
        (("ab", long_name, "c"), ("abcd",)),
        (("abc",), ("ab", long_name)),
        (("ab",), ("a", "b")),
    ]
    people = verdict_set([pair(id_, "A", answers=segments) for id_, segments in enumerate(answers)])
    leaning = grade_judge(people, forward(0, 0, 1)).longer_text
    assert (leaning.wrong_against.value, leaning.wrong_for.value) == (100, 100)
    assert leaning.difference == 0


def by_length(winners, judge, *, noise=0.0, seed=0):
    """An exam of pairs whose A is longer, in both orders; `judge` names A with this chance, or
    people's side if None, and the other side with the chance `noise`.
    """
    random = np.random.default_rng(seed)
    people = verdict_set(
        [pair(id_, winner, answers=(("long",), ("s",))) for id_, winner in enumerate(winners)]
    )
    rows = []
    for id_, winner in enumerate(winners):
        for is_reversed in (False, True):
            names_a = winner == "A" if judge is None else random.random() < judge
            rows.append(judgement(id_, is_reversed, float(names_a != (random.random() < noise))))
    return people, rows


def test_errors_at_random_are_no_leaning_though_people_prefer_longer_answers():
    found = 0
    for seed in range(60):
        result = grade_judge(*by_length("A" * 70 + "B" * 30, None, noise=0.3, seed=seed))
        found += result.verdict != "nothing found (not tested: pictures)"
    assert found <= 6  # of a binomial of 5 %: 97 %


@pytest.mark.parametrize(
    ("judge", "verdict"),
    [
        pytest.param(1, "prefers longer answers", id="longer"),
        pytest.param(0, "prefers shorter answers", id="shorter"),
        pytest.param(None, "nothing found", id="fair"),
    ],
)
def test_the_verdict_says_in_words_what_a_judge_leans_to(judge, verdict):
    result = grade_judge(*by_length("A" * 30 + "B" * 20, judge))
    assert result.verdict == f"{verdict} (not tested: pictures)"
    assert result.longer_text.interval.low < result.longer_text.interval.high


@pytest.mark.parametrize(
    ("judgements", "reasons"),
    [
        pytest.param([], {}, id="nothing asked"),
        pytest.param([*forward(None), *reverse(None)], {}, id="no verdicts"),
        pytest.param(
            forward(1),
            {
                "agreement": "too few questions for an interval: 1",
                "first_answer": "too few questions for an interval: 1",
            },
            id="one verdict",
        ),
    ],
)
def test_where_there_is_nothing_to_count_there_is_no_value_but_a_reason(judgements, reasons):
    result = grade_judge(verdict_set(pairs_won_by("A")), judgements)
    judged = [row for row in judgements if row.a_wins is not None]
    assert result.coverage == (100 * len(judged) / len(judgements) if judgements else None)
    assert result.flips.why_not == "no pair has verdicts in both orders"
    assert result.more_images.wrong_for.why_not == (
        "no judged pair is known to have unequal numbers of images"
    )
    for name in ("agreement", "first_answer", "first_answer_people"):
        share = getattr(result, name)
        assert share.interval is None
        assert share.why_not == reasons.get(
            name.removesuffix("_people"), "the judge gave no verdict"
        )
        assert (share.value is None) == (share.n == 0)


def independent_pairs(share, count):
    """Pairs of different questions, `share` percent of which a judge that always names A gets
    right.
    """
    right = round(count * share / 100)
    return verdict_set(pairs_won_by("A" * right + "B" * (count - right)))


def test_the_interval_of_independent_verdicts_is_that_of_a_binomial_share():
    agreement = grade_judge(independent_pairs(70, 400), forward(*[1] * 400)).agreement
    wilson = binomtest(280, 400).proportion_ci(method="wilson")
    assert agreement.interval == pytest.approx([100 * wilson.low, 100 * wilson.high], abs=0.1)


def test_a_second_order_with_the_same_verdicts_adds_no_certainty():
    people = independent_pairs(70, 400)
    one, both = (
        grade_judge(people, rows).agreement
        for rows in (forward(*[1] * 400), forward(*[1] * 400) + reverse(*[1] * 400))
    )
    assert (one.n, both.n) == (400, 800)
    assert both.interval == one.interval


def test_pairs_of_one_question_with_the_same_verdict_are_one_case():
    pairs = independent_pairs(70, 400).pairs
    grouped = [replace(own, sample=str(int(own.id) // 4)) for own in pairs]
    alone, clustered = (
        grade_judge(verdict_set(rows), forward(*[1] * 400)).agreement.interval
        for rows in (pairs, grouped)
    )
    assert clustered.high - clustered.low == pytest.approx(2 * (alone.high - alone.low), rel=0.1)


@pytest.mark.parametrize("share", [0, 50, 100])
def test_no_interval_is_of_zero_width(share):
    """Also where all questions are alike, as in both orders of one that is always named first."""
    value = share / 100
    agreement = grade_judge(
        verdict_set(pairs_won_by("A" * 12)), [*forward(*[value] * 12), *reverse(*[value] * 12)]
    ).agreement
    assert agreement.value == share
    low, high = agreement.interval
    assert low <= share <= high
    assert high - low > 20


def test_too_few_questions_give_a_value_without_interval_however_many_verdicts_there_are():
    pairs = [pair(id_, sample=str(id_ % (MIN_SAMPLES - 1))) for id_ in range(100)]
    agreement = grade_judge(verdict_set(pairs), forward(*[1] * 60, *[0] * 40)).agreement
    assert (agreement.value, agreement.interval) == (60, None)
    assert agreement.why_not == "too few questions for an interval: 9"
    enough = grade_judge(
        verdict_set([*pairs, pair(100)]), [*forward(*[1] * 60, *[0] * 40), judgement(100, False, 1)]
    )
    assert enough.agreement.interval is not None
    assert not enough.agreement.why_not


a_wins = st.sampled_from([None, 0.0, 0.5, 1.0])
sides = st.sampled_from("AB")


@st.composite
def exams(draw, verdicts=a_wins):
    """Up to 30 pairs of up to 15 questions, each asked for in one order or both."""
    pairs, judgements = [], []
    for id_ in range(draw(st.integers(0, 30))):
        images = draw(st.none() | st.tuples(st.integers(0, 3), st.integers(0, 3)))
        answers = draw(st.sampled_from([NO_SEGMENTS, (("a", "b"), ("c",)), (("a",), ("bcd",))]))
        sample, subset = str(draw(st.integers(0, 14))), draw(st.sampled_from(["maps", "art"]))
        pairs.append(
            pair(id_, draw(sides), sample=sample, subset=subset, images=images, answers=answers)
        )
        orders = draw(st.sampled_from([(False,), (True,), (False, True)]))
        judgements += [judgement(id_, is_reversed, draw(verdicts)) for is_reversed in orders]
    return verdict_set(pairs), judgements


def swapped(people, judgements):
    """The same exam with B called A."""
    pairs = [
        replace(
            own,
            winner=OTHER[own.winner],
            models=own.models[::-1],
            answers=own.answers[::-1],
            images=own.images and own.images[::-1],
        )
        for own in people.pairs
    ]
    rows = [
        judgement(row.pair, not row.is_reversed, None if row.a_wins is None else 1 - row.a_wins)
        for row in judgements
    ]
    return verdict_set(pairs), rows


@given(exams())
@settings(max_examples=25)
def test_calling_the_answers_of_every_pair_by_the_other_letter_only_swaps_the_orders(exam):
    before, after = grade_judge(*exam), grade_judge(*swapped(*exam))
    other_order = {"forward": "reverse", "reverse": "forward"}
    assert {other_order[order]: share for order, share in after.by_order.items()} == before.by_order
    assert replace(after, by_order=before.by_order) == before


@given(exams(), st.randoms(use_true_random=False))
@settings(max_examples=25)
def test_the_order_of_pairs_and_judgements_does_not_matter(exam, shuffler):
    people, judgements = exam
    pairs, rows = list(people.pairs), list(judgements)
    shuffler.shuffle(pairs)
    shuffler.shuffle(rows)
    assert grade_judge(verdict_set(pairs), rows) == grade_judge(people, judgements)


@given(exams())
@settings(max_examples=25)
def test_judgements_without_a_verdict_move_nothing_but_the_coverage(exam):
    people, judgements = exam
    judged = grade_judge(people, [row for row in judgements if row.a_wins is not None])
    whole = grade_judge(people, judgements)
    assert judged.coverage in (100, None)
    assert {
        subset: share for subset, share in whole.by_subset.items() if share.n
    } == judged.by_subset
    assert {order: share for order, share in whole.by_order.items() if share.n} == judged.by_order
    assert (
        replace(whole, asked=judged.asked, by_subset=judged.by_subset, by_order=judged.by_order)
        == judged
    )
