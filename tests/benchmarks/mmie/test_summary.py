"""The run in words, and as a row of the leaderboard."""

import pytest

from mmie_tasks.benchmarks.mmie.metrics import RequestFacts, leaderboard_row, rows, summary
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core.bootstrap import bootstrap_interval
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts

REPLY = {
    "text": "",
    "model": "grader-1",
    "finish": "stop",
    "cached": False,
    "usage": {"input_tokens": 10, "output_tokens": 2, "reasoning_tokens": 0, "cost_usd": 0.5},
}
FIELDS = {"SA": "Literature", "PBL": "Art", "MSR": "Physics"}


def record(category, grading, field=None, replies=(REPLY,), **facts):
    of = Sample(
        id=f"{category}-1",
        index=0,
        row=0,
        category=category,
        field=FIELDS[category] if field is None else field,
        question=(),
        gold=(),
    )
    logged = {"signature": "judge:x", "replies": list(replies)}
    return rows(of, grading, RequestFacts(**facts), logged)["coverage"]


def scored(points, robust=None):
    return Verdicts(official=Scored(points), robust=Scored(points if robust is None else robust))


def many(category="SA", n=10, **facts):
    return [record(category, scored(4), **facts) for _ in range(n)]


def said(records):
    return summary(records, bootstrap_interval).splitlines()


def test_the_table_has_a_line_for_all_each_category_and_each_field():
    lines = said([*many("SA", 3), *many("MSR", 1), record("MSR", scored(1), field="Gardening")])
    assert [line.split()[0] for line in lines[:7]] == [
        *("percent", "AVG", "SA", "MSR", "Gardening", "Literature", "Physics")
    ]
    assert lines[2].split() == ["SA", "66.67", "66.67-66.67", "66.67", "4.000", *("3", "and", "3", "of", "3")]
    assert lines[4].split()[:3] == ["Gardening", "16.67", "n/a"]  # one sample has no interval


def test_samples_without_a_field_have_no_line():
    assert said(many("SA", 3, field=""))[3].startswith("official points")


def test_the_average_is_over_samples():
    lines = said([*many("SA", 3), record("MSR", scored(0))])
    assert lines[1].split()[1] == "50.00"


def test_what_was_not_read_of_answers_is_named_once():
    unread = many(n=2, unread={"caption": 2, "audio": 1}, unfilled_placeholders=1)
    lines = said([*many("SA", 9), *unread, *many(n=1, thinking=True)])
    assert "texts and images of answers that were not read: caption (4), audio (2)" in lines
    assert "answers with thinking: 1; placeholders without an image: 2" in lines
    assert "texts and images of answers that were not read: 0" in said(many("SA", 3))


def test_below_the_floor_of_coverage_the_line_has_the_reason():
    lines = said([*many("SA", 3), record("SA", Verdicts.unscored("unparsed", ""))])
    assert lines[1].split()[1:5] == ["n/a"] * 4
    assert lines[1].endswith("(only 3 of 4 samples have a score)")
    assert "without official score: unparsed (1)" in lines
    assert "without robust score: unparsed (1)" in lines


def test_a_missing_robust_mean_has_its_reason():
    robustly = Verdicts(official=Scored(4), robust=Unscored("unparsed"))
    lines = said([*many("SA", 3), record("SA", robustly)])
    assert lines[1].split()[1:4] == ["66.67", "66.67-66.67", "n/a"]
    assert lines[1].endswith("4 and 3 of 4  (only 3 of 4 samples have a score)")


def test_points_without_a_sample_are_counted_as_0():
    points = "official points: 0: 0, 1: 0, 2: 1, 3: 0, 4: 2, 5: 0, 6: 0"
    assert points in said([*many("SA", 2), record("SA", scored(2))])


NOTES = [
    pytest.param({"dropped": True}, "for more than 4 images: 1", id="dropped"),
    pytest.param({"missing_images": 3}, "missing images: 3, in 1 samples", id="missing"),
    pytest.param({"bad_images": 2}, "unusable images: 2, in 1 samples", id="bad"),
    pytest.param({"truncated": True}, "answers cut by the limit on images: 1", id="truncated"),
    pytest.param({"typed": {"<s>": 3, "</s>": 0}}, "in their texts: 1: <s> (3)", id="typed"),
    pytest.param({"judge_tokens": 5000}, "1 of 1; lengths unknown (10), estimated (1)", id="long"),
    pytest.param(
        {"judge_tokens": 9, "judge_tokens_exact": True}, "0 of 1; lengths unknown (10), counted (1)", id="exact"
    ),
    pytest.param(
        {"shape": "parts", "answer_images": 3, "shown_images": 2},
        "answers: none (10), parts (1); 3 images in them; 2 images in the requests to the judge, "
        "the questions' included",
        id="answers",
    ),
]


@pytest.mark.parametrize(("facts", "words"), NOTES)
def test_facts_of_requests_have_lines(facts, words):
    assert [line for line in said([*many(), record("SA", scored(3), **facts)]) if line.endswith(words)]
    assert not [line for line in said(many(n=11)) if words in line]


def test_a_count_of_0_has_a_line():
    text = "\n".join(said(many(typed={"<s>": 0})))
    for words in (
        *("more than 4 images: 0", "missing images: 0, in 0", "unusable images: 0, in 0"),
        *("4,096 tokens of the judge: unknown", "limit on images: 0", "in their texts: 0"),
        *("replies read: 100.00 % of 10", "official and robust scores differ: 0"),
    ):
        assert words in text


@pytest.mark.parametrize(("good", "bad", "warned"), [(19, 1, False), (18, 1, True)], ids=["95-percent", "below"])
def test_few_replies_that_can_be_read_are_warned_of(good, bad, warned):
    unread = [record("SA", Verdicts.unscored("unparsed", ""))] * bad
    unasked = [record("SA", Verdicts.unscored("no_answer", ""), replies=())]
    text = "\n".join(said([*many(n=good), *unread, *unasked]))
    assert f"{100 * good / (good + bad):.2f} % of {good + bad}\n" in text
    assert ("WARNING" in text) is warned


def test_a_run_without_a_reply_has_no_rate():
    lines = said([record("SA", Verdicts.unscored("no_answer", ""), replies=())])
    assert "replies read: none, as there are no replies" in lines
    assert "replies: none; 0 from the cache; 0 tokens in, 0 out, 0.0000 USD" in lines


def test_samples_with_different_scores_are_counted():
    records = [*many(), record("SA", Verdicts(official=Scored(4), robust=Unscored("unparsed")))]
    assert "official and robust scores differ: 1" in said(records)
    assert said(records)[1].endswith("11 and 10 of 11")


def test_who_judged_and_what_it_cost():
    cached = {**REPLY, "cached": True, "model": "grader-2"}
    unknown = {**REPLY, "usage": {**REPLY["usage"], "cost_usd": None}}
    known = said([*many(n=2), record("SA", scored(4), replies=(cached,))])
    assert ("replies: grader-1 (2), grader-2 (1); 1 from the cache; 30 tokens in, 6 out, 1.5000 USD") in known
    assert known[-1] == "judge:x"
    some = said([*many(n=1), record("SA", scored(4), replies=(unknown,))])
    assert [line for line in some if line.endswith("20 tokens in, 4 out, cost unknown")]


def test_a_row_of_the_leaderboard_has_its_columns_in_their_order():
    records = [*many("SA", 2), record("MSR", scored(1)), record("MSR", scored(0))]
    row = leaderboard_row(records, "stub", "Interleaved LVLM")
    assert list(row.items()) == [
        ("Model", "stub"),
        ("Model Type", "Interleaved LVLM"),
        ("SA", 66.67),
        ("PBL", None),
        ("MSR", 8.33),
        ("AVG", 37.5),
    ]


def test_the_leaderboard_gets_no_number_below_the_floor():
    row = leaderboard_row([*many("SA", 1), record("SA", Verdicts.unscored("refused", ""))], "m", "t")
    assert (row["SA"], row["AVG"]) == (None, None)
