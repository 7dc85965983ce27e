"""What one sample adds to which number, and what numbers are made of it."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.mmie_yamls import HEAD, metric_list, with_metrics

from mmie_tasks.benchmarks.mmie import metrics as totals
from mmie_tasks.benchmarks.mmie.metrics import AGGREGATIONS, REASONS, RequestFacts, certain, facts_of, graded, rows
from mmie_tasks.benchmarks.mmie.sample import Sample
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts

LOGGED = {"signature": "judge:x", "replies": []}


def sample(category="PBL", field="Education", sample_id=None):
    return Sample(id=sample_id or f"{category}-1", index=0, row=0, category=category, field=field, question=(), gold=())


def both(points, robust=None):
    return Verdicts(official=Scored(points), robust=Scored(points if robust is None else robust))


def made(grading, of=None, **facts):
    return rows(of or sample(), grading, RequestFacts(**facts), LOGGED)


def column(name, *gradings):
    """The rows of one metric, over samples with these gradings."""
    return [row for grading in gradings if (row := made(grading).get(name)) is not None]


def first_two(points):
    return (points[0], points[1]) if len(points) > 1 else None


def test_both_readings_are_in_percent_and_points_are_not():
    found = made(both(3, 4.5))
    assert found["official"]["score"] == found["official_PBL"]["score"] == 50.0
    assert found["official_education"]["score"] == 50.0
    assert found["robust"]["score"] == found["robust_PBL"]["score"] == 75.0
    assert found["points"]["score"] == found["points_PBL"]["score"] == 3
    assert (found["differ"]["count"], found["points_3"]["count"]) == (1, 1)


def test_a_sample_counts_for_its_own_category_and_field_only():
    names = {name for name in made(both(3)) if name.startswith(("official", "robust_"))}
    assert names == {*("official", "official_PBL", "official_education", "robust_PBL", "robust_coverage")}


@pytest.mark.parametrize("field", ["", "Gardening", "PBL"])
def test_an_unknown_field_has_no_row_and_is_in_the_record(field):
    found = made(both(3), sample(field=field))
    assert {n for n in found if n.startswith("official")} == {"official", "official_PBL"}
    assert found["coverage"]["field"] == field


@pytest.mark.parametrize("field", ["EECS", " eecs "])
def test_a_field_is_known_however_it_is_written(field):
    assert "official_eecs" in made(both(3), sample(field=field))


@pytest.mark.parametrize("reason", REASONS)
def test_without_points_there_is_no_score_and_the_reason_is_counted(reason):
    found = made(Verdicts.unscored(reason, "why"))
    assert not [name for name, row in found.items() if "score" in row or "points" in row]
    assert found[f"unscored_{reason}"]["count"] == 1
    assert not [name for name in found if name.startswith("points_") and name[-1].isdigit()]


@pytest.mark.parametrize("field", ["Education", "Gardening"])
@pytest.mark.parametrize(
    ("grading", "more"),
    [
        pytest.param(both(6), {"points_6", "parse_rate"}, id="scored"),
        pytest.param(Verdicts.unscored("refused", ""), {"unscored_refused"}, id="no-reply"),
        pytest.param(Verdicts.unscored("unparsed", ""), {"unscored_unparsed", "parse_rate"}, id="unread"),
    ],
)
def test_the_certain_rows_are_there_whatever_comes(grading, more, field):
    of = sample(field=field)
    assert set(made(grading, of)) == {*certain(of), *more}
    assert set(made(grading, of, judge_tokens=1)) == {*certain(of), *more, "over_4096"}


@given(st.sampled_from(["SA", "PBL", "MSR"]), st.integers(0, 6), st.sampled_from(REASONS))
def test_every_row_has_a_place_in_the_table(category, points, reason):
    of = sample(category, "Art")
    for grading in (both(points), Verdicts.unscored(reason, "")):
        assert set(made(grading, of, judge_tokens=5000)) <= set(AGGREGATIONS)


def test_every_number_of_the_table_has_its_function():
    ours = set(AGGREGATIONS.values())
    assert all(callable(getattr(totals, name)) for name in ours)


def test_the_ends_of_an_interval_get_no_standard_error():
    """The runner makes one of whatever is called a score."""
    found = made(both(3))
    ends = [row for name, row in found.items() if name.startswith("ci95")]
    assert len(ends) == 4
    assert not [row for row in ends if "score" in row]


@pytest.mark.parametrize(
    ("facts", "counted"),
    [
        pytest.param({"dropped": True}, {"dropped": 1}, id="dropped"),
        pytest.param({"missing_images": 3}, {"missing_images": 3}, id="missing"),
        pytest.param({"bad_images": 2}, {"bad_images": 2}, id="bad"),
        pytest.param({"truncated": True}, {"truncated": 1}, id="truncated"),
        pytest.param({"typed": {"<image>": 3}}, {"typed_controls": 1}, id="typed"),
        pytest.param({"typed": {"<image>": 0}}, {}, id="typed-none"),
        pytest.param({"judge_tokens": 4096}, {"over_4096": 0}, id="just-in-the-window"),
        pytest.param({"judge_tokens": 4097}, {"over_4096": 1}, id="over-the-window"),
    ],
)
def test_what_is_counted_is_there_also_as_none(facts, counted):
    names = ("dropped", "missing_images", "bad_images", "truncated", "typed_controls")
    found = made(both(3), **facts)
    counts = {name: found[name]["count"] for name in (*names, "over_4096") if name in found}
    assert counts == {**dict.fromkeys(names, 0), **counted}


@pytest.mark.parametrize(
    ("grading", "parsed"),
    [
        pytest.param(both(0), True, id="scored"),
        pytest.param(Verdicts.unscored("unparsed", ""), False, id="unparsed"),
        pytest.param(Verdicts.unscored("off_scale", ""), False, id="off-scale"),
        pytest.param(Verdicts.unscored("cut_off", ""), False, id="cut-off"),
        pytest.param(Verdicts.unscored("unavailable", ""), None, id="no-reply"),
        pytest.param(Verdicts.unscored("left_out", ""), None, id="not-asked"),
    ],
)
def test_only_a_reply_can_be_read_or_not(grading, parsed):
    assert made(grading).get("parse_rate", {}).get("holds") is parsed


def test_the_record_is_all_that_is_needed_to_score_again():
    facts = RequestFacts(typed={"<image>": 2}, judge_tokens=5, shape="parts")
    grading = Verdicts(official=Scored(4, "4"), robust=Unscored("unparsed", "two verdicts"))
    record = rows(sample(), grading, facts, LOGGED)["coverage"]
    again = json.loads(json.dumps(record))
    assert facts_of(again) == facts
    assert totals.verdict_in(again, "official") == grading.official
    assert totals.verdict_in(again, "robust") == grading.robust
    assert (again["id"], again["category"], again["field"]) == ("PBL-1", "PBL", "Education")
    assert again["signature"] == "judge:x"


@given(st.lists(st.integers(0, 6), min_size=1), st.integers(0, 3))
def test_samples_without_points_never_move_a_mean(points, n):
    scored = [both(each) for each in points]
    few = [Verdicts.unscored("unparsed", "")] * min(n, len(points) // 9)
    for name in ("official", "points"):
        of = getattr(totals, AGGREGATIONS[name])
        assert of(column(name, *scored, *few)) == of(column(name, *scored))


def test_numbers_are_rounded_as_official_and_percent_are_of_the_rounded_mean():
    gradings = [both(1), both(0), both(0)]
    assert totals.points(column("points", *gradings)) == 0.333
    assert totals.percent(column("official_PBL", *gradings)) == 5.55


def test_below_the_floor_of_coverage_there_is_no_number():
    good, bad = [both(4)] * 8, [Verdicts.unscored("unparsed", "")]
    for name in ("official", "robust_PBL", "points"):
        of = getattr(totals, AGGREGATIONS[name])
        assert not math.isnan(of(column(name, *good)))
        assert math.isnan(of(column(name, *good, *bad)))
    assert math.isnan(totals.ci_low(column("ci95_low", *good, *bad), first_two))


def test_what_the_official_script_leaves_out_is_no_fault_of_the_judge():
    left = [both(4)] + [Verdicts.unscored("left_out", "5 images")] * 3
    assert totals.percent(column("official", *left)) == 66.67
    assert totals.coverage(column("coverage", *left)) == 25.0


def test_nothing_scored_is_no_number_and_not_zero():
    nothing = [Verdicts.unscored("left_out", "")]
    assert math.isnan(totals.percent(column("official", *nothing)))
    assert math.isnan(totals.points(column("points", *nothing)))
    assert totals.coverage(column("coverage", *nothing)) == 0


def test_an_interval_is_in_percent_and_of_the_scored():
    found = column("ci95_low", both(3), both(6))
    assert totals.ci_low(found, first_two) == 50.0
    assert totals.ci_high(found, first_two) == 100.0
    assert math.isnan(totals.ci_high(found[:1], first_two))


def test_shares_are_in_percent_of_those_they_can_hold_of():
    gradings = [both(3), Verdicts.unscored("unparsed", ""), Verdicts.unscored("unavailable", "")]
    assert totals.share(column("parse_rate", *gradings)) == 50.0
    assert totals.share(column("robust_coverage", *gradings)) == pytest.approx(100 / 3)


def test_counts_add_up():
    gradings = [both(3), both(3, 4), both(5)]
    assert totals.total(column("points_3", *gradings)) == 2
    assert totals.total(column("differ", *gradings)) == 1
    assert totals.plain_mean([0.5, 1.0]) == 0.75


def test_a_verdict_survives_its_row():
    for verdict in (Scored(4, "4"), Unscored("refused", "no")):
        found = made(Verdicts(official=verdict, robust=verdict))
        for name in ("official", "points", "ci95_low"):
            assert graded(found[name]) == verdict


def test_the_task_file_is_given_every_metric_in_place_of_those_it_had():
    text = with_metrics(f"task: mmie\n{HEAD}  - metric: old\n")
    assert text == f"task: mmie\n{metric_list()}"
    assert text.count("- metric: ") == len(AGGREGATIONS)
    assert "!function mmie_tasks.benchmarks.mmie.task.ci_high\n    higher_is_better: true" in text
    assert "metric: points_3\n" in text
    assert text.count("higher_is_better: null") == 7
    assert text.count("higher_is_better: false") == 7 + len(REASONS)
