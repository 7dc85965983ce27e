"""What MIA-Bench says of its logged samples: as in the runner's table, and read again."""

import copy
import math
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hostile import JUNK, outcome, spoil
from support.logged_runs import mia_lines

from mmie_tasks.benchmarks.mia_bench import metrics, request
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.record import sample_record
from mmie_tasks.benchmarks.mia_bench.request import grade
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Unscored, Verdicts
from mmie_tasks.record.judged_sample import Judged
from mmie_tasks.record.members import MemberResult, combine
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.sample import READER_KINDS, BadRecord
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

LINES = list(mia_lines(80))
SOUND = "score of component 1: 3/6, score of component 2: 4/4, total score: 7/10. Fine."
IMPOSSIBLE = "score of component 1: 9/6, score of component 2: 4/4, total score: 13/10. Fine."


def changed(line=LINES[0], drop=(), **fields):
    line = copy.deepcopy(line)
    line["coverage"].update(fields)
    for name in drop:
        del line["coverage"][name]
    return line


def replies(*texts, **fields):
    return [{"text": text, **fields} for text in texts]


def judged_line(*texts, categories=("describe", "mention"), index=0, contradictory=False):
    """A line as the task makes it of one reply or two; of none where there are no texts."""
    sample = Sample(
        id=str(index),
        instruction="Look.",
        type=TYPES[index % 5],
        components=("a", "b"),
        weights=(6, 4),
        categories=categories,
    )
    replies = [JudgeReply(text=text, model="m") for text in texts]
    result = JudgeResult(**dict(zip(("reply", "second_reply"), replies, strict=False)))
    verdicts = grade(sample, result) if texts else Verdicts.unscored("unavailable", "down")
    member = MemberResult(judge=Signature(), result=result, verdicts=verdicts)
    judged = Judged(verdicts=verdicts, members=(member,))
    logged = {"image": None, "contradictory": contradictory}
    return log_line_of({**record_of(sample, judged, result.last_text), **logged})


def record_of(sample, judged, reply):
    return sample_record(sample, judged, reply, image="", signature="", results=())


def log_line_of(record):
    return {"filtered_resps": "A boat.", "input": "Look.", "coverage": record}


ODD = [
    judged_line(IMPOSSIBLE, SOUND, index=100),
    judged_line("a: 9/6, b: 4/4, c: 13/10. Off.", index=101),  # officially more than full marks
    judged_line("no verdict", index=102),
    judged_line(SOUND, categories=("math", "math"), index=103),
]


def test_official_points_beyond_full_marks_stay_as_the_official_script_has_them():
    assert BENCHMARK.read_line(ODD[1]).official.points == pytest.approx(130)


def test_a_contradictory_sample_is_not_among_the_clean():
    line = judged_line(SOUND, contradictory=True)
    assert "clean" not in BENCHMARK.read_line(line).groups
    assert BENCHMARK.read_line(judged_line(SOUND)).groups["clean"] == ("clean",)
    assert BENCHMARK.read_line(line).facts["contradictory"] is True


def test_the_image_comes_before_the_instruction():
    line = changed(image="boat.png")
    assert BENCHMARK.read_line(line).question == (
        Segment(image="boat.png"),
        Segment(text=line["input"]),
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param(changed(drop=["asked"]), "not in this log", id="older-version"),
        pytest.param(changed(image=None), "the data names no file", id="no-file"),
    ],
)
def test_an_image_that_is_not_known_says_why(line, problem):
    segment = BENCHMARK.read_line(line).question[0]
    assert (segment.image, segment.problem) == (None, problem)


def test_each_component_is_shown_with_its_mark_and_what_it_asks():
    facts = BENCHMARK.read_line(judged_line(SOUND)).facts
    assert facts["component 1"] == "describe 3/6: a"
    assert facts["component 2"] == "mention 4/4: b"
    assert facts["total of the parts, percent"] == pytest.approx(70)
    assert BENCHMARK.read_line(judged_line("nothing")).facts["component 2"] == "mention -/4: b"


def test_a_total_that_is_not_that_of_its_parts_is_a_fact():
    line = changed(agrees=False)
    assert BENCHMARK.read_line(line).facts["the stated total is that of its parts"] is False


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"type": "easy"}, "type", id="type"),
        pytest.param({"type": {}}, "type", id="type-that-is-an-object"),
        pytest.param({"categories": "math"}, "categories", id="categories"),
        pytest.param({"weights": [6, "4"]}, "weights", id="weight"),
        pytest.param({"weights": [True, 4]}, "weights", id="weight-that-is-true"),
        pytest.param({"parts": []}, "parts", id="parts"),
        pytest.param({"parts": {"robust": 1}}, "robust", id="parts-of-a-reading"),
        pytest.param({"asked": "a"}, "asked", id="asked"),
        pytest.param({"image": 3}, "image", id="image"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, named):
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(changed(**fields))


@given(st.randoms(use_true_random=False), st.sampled_from(JUNK), st.sampled_from([LINES[0], *ODD]))
def test_no_line_upsets_the_reader(lots, junk, line):
    line = copy.deepcopy(line)
    spoil(line, lots, junk)
    for read in (BENCHMARK.read_line, BENCHMARK.reread, BENCHMARK.rerecord):
        assert outcome(read, line) != ""


@pytest.mark.parametrize("line", [*LINES[:10], *ODD, judged_line()])
def test_reading_again_gives_what_was_logged(line):
    sample = BENCHMARK.read_line(line)
    again = BENCHMARK.reread(line)
    for reading in READER_KINDS:
        before, after = sample.verdict(reading), again[reading]
        assert getattr(before, "points", before) == getattr(after, "points", after)
    assert BENCHMARK.rerecord(line) == line["coverage"]


def test_reading_again_looks_at_the_reply_and_not_at_the_stored_verdict():
    line = changed(
        replies=replies(SOUND),
        official={"score": 1},
        robust={"unscored": "unparsed"},
        parts={"official": {}, "robust": {}},
    )
    assert [BENCHMARK.reread(line)[name].points for name in READER_KINDS] == [70, 70]
    record = BENCHMARK.rerecord(line)
    assert record["official"]["score"] == record["robust"]["score"] == 70
    assert record["parts"]["official"] == record["parts"]["robust"] != {}


def test_officially_the_first_reply_counts_and_robustly_the_last():
    again = BENCHMARK.reread(changed(replies=replies(IMPOSSIBLE, SOUND)))
    assert (again["official"].points, again["robust"].points) == (130, 70)


def test_a_second_reply_that_would_not_be_asked_for_today_is_not_read():
    again = BENCHMARK.reread(changed(replies=replies(SOUND, IMPOSSIBLE)))
    assert [again[name].points for name in READER_KINDS] == [70, 70]


def test_a_reply_that_ran_into_its_limit_is_no_verdict():
    again = BENCHMARK.reread(changed(replies=replies(SOUND, finish="length")))
    assert {verdict.reason for verdict in again.values()} == {"cut_off"}


def test_what_never_had_a_reply_stays_as_it_is():
    down = Unscored("unavailable", "down")
    assert BENCHMARK.reread(judged_line()) == {"official": down, "robust": down}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(changed(drop=["replies"]), id="no-replies"),
        pytest.param(changed(replies=[]), id="a-verdict-and-no-reply"),
        pytest.param(changed(drop=["weights"]), id="no-weights"),
        pytest.param(changed(weights=[6]), id="too-few-weights"),
    ],
)
def test_without_what_it_was_read_from_a_verdict_cannot_be_read_again(line):
    assert BENCHMARK.reread(line) is None
    assert BENCHMARK.rerecord(line) == line["coverage"]


def test_every_category_and_type_has_a_number():
    names = {number.name for number in BENCHMARK.metrics}
    assert names == {"", "clean", *CATEGORIES, *TYPES}
    assert all(math.isclose(sum(number.weights.values()), 1) for number in BENCHMARK.metrics)


def panel_line(*texts_of_judges):
    """A line of a panel whose judges gave these replies, one or two each."""
    sample = Sample(
        id="1",
        instruction="Look.",
        type=TYPES[0],
        components=("a", "b"),
        weights=(6, 4),
        categories=CATEGORIES[:2],
    )
    members = []
    for number, texts in enumerate(texts_of_judges):
        replies = [JudgeReply(text=text, model=f"m{number}") for text in texts]
        result = JudgeResult(**dict(zip(("reply", "second_reply"), replies, strict=False)))
        members.append(
            MemberResult(
                judge=Signature(f"judge:{number}"), result=result, verdicts=grade(sample, result)
            )
        )
    panel = Panel(rule="mean", min_valid=1)
    judged = Judged(verdicts=combine(members, panel), members=tuple(members), panel=panel)
    logged = record_of(sample, judged, request.last_reply(sample, judged))
    return log_line_of({**logged, "image": None})


OTHER = "score of component 1: 6/6, score of component 2: 2/4, total score: 8/10. Fine."
PANEL_LINE = panel_line([IMPOSSIBLE, SOUND], [OTHER])


def test_the_second_replies_of_a_panels_judges_count_as_those_of_a_single_judge():
    sample = BENCHMARK.read_line(PANEL_LINE)
    assert (sample.official.points, sample.robust.points) == ((130 + 80) / 2, 75)
    assert [reply.text for reply in sample.replies] == [IMPOSSIBLE, SOUND, OTHER]
    assert metrics.counts([PANEL_LINE["coverage"]])["requested_twice"] == 1


def test_a_second_reply_that_would_not_be_asked_for_today_is_not_read_and_stays_logged():
    line = copy.deepcopy(PANEL_LINE)
    line["coverage"]["panel"]["members"][0]["replies"] = [
        asdict(JudgeReply(text=t, model="m")) for t in (SOUND, OTHER)
    ]
    assert BENCHMARK.reread(line)["official"].points == 75
    record = BENCHMARK.rerecord(line)
    assert [reply["text"] for reply in record["panel"]["members"][0]["replies"]] == [SOUND, OTHER]
    assert record["marks"][0]["total"] == [7, 10]


def test_a_panels_record_has_the_marks_of_each_judge_and_none_of_the_sample():
    record = PANEL_LINE["coverage"]
    assert [marks["components"] for marks in record["marks"]] == [
        [[3, 6], [4, 4]],
        [[6, 6], [2, 4]],
    ]
    assert not {"components", "total", "recomputed", "agrees"} & set(record)
    facts = BENCHMARK.read_line(PANEL_LINE).facts
    assert facts["component 1"] == f"{CATEGORIES[0]} 3/6, 6/6: a"
    assert record["parts"]["robust"] == {CATEGORIES[0]: 0.75, CATEGORIES[1]: 0.75}


def test_reading_a_panels_line_again_gives_what_was_logged():
    assert BENCHMARK.rerecord(PANEL_LINE) == PANEL_LINE["coverage"]


@given(st.randoms(use_true_random=False), st.sampled_from(JUNK))
def test_no_line_of_a_panel_upsets_the_reader(lots, junk):
    line = copy.deepcopy(PANEL_LINE)
    spoil(line["coverage"], lots, junk)
    for read in (BENCHMARK.read_line, BENCHMARK.reread, BENCHMARK.rerecord):
        assert outcome(read, line) != ""
