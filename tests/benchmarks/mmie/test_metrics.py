"""The record of a sample, and MMIE's own counts and notes about a run."""

import json

import pytest
from mmie_tasks.benchmarks.mmie.record import MmieRecord, RequestFacts

from mmie_tasks.benchmarks.mmie.metrics import METRICS, SCALE, counts, notes
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

TABLE = RunnerTable(metrics=METRICS, scale=SCALE)


def verdicts_of(points, robust=None):
    return Verdicts(official=Scored(points), robust=Scored(points if robust is None else robust))


def record(verdicts, facts=None, judge_tokens=0, category="PBL", field="Education"):
    """The record of a sample that a judge with one reply gave these verdicts."""
    reply = JudgeReply(text="4", model="m", usage=Usage(input_tokens=judge_tokens))
    result = JudgeResult(reply=reply)
    judgement = Judgement(judge=Signature(), result=result, verdicts=verdicts)
    judged = Judged.by([judgement])
    facts = facts or RequestFacts()
    return MmieRecord.of(judged, id=f"{category}-1", category=category, field=field, facts=facts)


def rows(verdicts, table=TABLE, **sample):
    return table.rows(record(verdicts, **sample))


def records(n=1, verdicts=None, judge_tokens=0, **facts):
    return [record(verdicts or verdicts_of(4), RequestFacts(**facts), judge_tokens)] * n


def test_a_sample_counts_for_its_own_category_and_field_only():
    table = rows(verdicts_of(3, 4.5))
    assert {name for name, row in table.items() if row} == {
        *("record", "coverage", "official", "robust", "official_PBL", "official_education")
    }
    assert table["official"] == {"id": "PBL-1", "points": 3, "score": 50.0}
    assert table["official_PBL"] == table["official_education"] == table["official"]
    assert table["robust"]["score"] == 75.0


def test_the_record_has_everything_that_is_needed_to_score_again():
    facts = RequestFacts(typed={"<image>": 2}, shape="parts")
    verdicts = Verdicts(official=Scored(4, "4"), robust=Unscored("unparsed", "two verdicts"))
    written = record(verdicts, facts, judge_tokens=5)
    read = MmieRecord.model_validate(json.loads(json.dumps(written.model_dump())))
    assert read == written
    assert (read.facts, read.official, read.robust) == (facts, verdicts.official, verdicts.robust)
    assert (read.id, read.category, read.field) == ("PBL-1", "PBL", "Education")
    assert read.judge_tokens == 5


PICTURE_COUNTS = ("unplaced", "drawn", "failed", "unused")


@pytest.mark.parametrize(
    ("facts", "count", "line"),
    [
        pytest.param({"dropped": True}, {"dropped": 1}, None, id="dropped"),
        pytest.param(
            {"bad_images": 2},
            {"bad_images": 2},
            "unusable images: 2, in 1 samples",
            id="bad images",
        ),
        pytest.param(
            {"truncated": True},
            {"truncated": 1},
            "answers cut by the limit on images: 1",
            id="truncated",
        ),
        pytest.param(
            {"typed": {"<s>": 3, "</s>": 0}},
            {"typed_controls": 1},
            "control strings of the judge in texts: <s> (3)",
            id="control strings",
        ),
        pytest.param({"judge_tokens": 4096}, {}, None, id="as long as the judge's window"),
        pytest.param(
            {"judge_tokens": 4097},
            {"over_4096": 1},
            "requests over 4,096 tokens of the judge: 1 of 1",
            id="longer than the judge's window",
        ),
        pytest.param(
            {"unfilled_placeholders": 2}, {}, "placeholders without an image: 2", id="placeholders"
        ),
        pytest.param(
            {"unread": {"caption": 2, "audio": 1}},
            {},
            "texts and images of answers that were not read: caption (2), audio (1)",
            id="unread",
        ),
        pytest.param(
            {"looks_unread": True},
            {"looks_unread": 1},
            "looks like JSON or an image reference: 1 answer",
            id="looks unread",
        ),
        pytest.param(
            {"unplaced": 3},
            {"pictures_unplaced": 1},
            "pictures without a place: 1 answer",
            id="without a place",
        ),
        pytest.param(
            {"drawn": 25, "not_drawn": {"refused": 2, "late": 1}},
            {"pictures_drawn": 25, "pictures_failed": 3},
            "pictures drawn: 25; not drawn: refused (2), late (1); answers without a "
            "picture they ask for: 1",
            id="not drawn",
        ),
    ],
)
def test_what_occurs_in_requests_is_counted_and_has_a_line_and_zeros_have_none(facts, count, line):
    usual = records(10, shape="text")
    lines = list(notes([*usual, *records(**facts, shape="text")]))[1:]
    assert lines == ([line] if line else [])
    names = ("dropped", "missing_images", "bad_images", "truncated", "typed_controls", "over_4096")
    zeros = dict.fromkeys(
        (*names, "looks_unread", *(f"pictures_{what}" for what in PICTURE_COUNTS)), 0
    )
    assert counts([*usual, *records(**facts)]) == {**zeros, **count, "parse_rate": 100}


def test_what_a_protocol_could_not_use_is_counted_and_named():
    run = [
        *records(2, drawn=1, unused={"empty step": 1}),
        *records(drawn=0, unused={"pictures over the limit": 4}),
    ]
    assert list(notes(run))[1:] == [
        "pictures drawn: 2",
        "of the writer not used: pictures over the limit (4), empty step (2)",
    ]
    assert counts(run)["pictures_unused"] == 6


def test_the_shapes_of_answers_and_the_images_are_noted():
    facts = {"shape": "parts", "answer_images": 3, "shown_images": 2}
    [line] = notes([*records(10), *records(**facts)])
    assert line == (
        "answers: none (10), parts (1); 3 images in them; 2 images in the requests to the judge, "
        "with the questions'"
    )


@pytest.mark.parametrize(
    ("n_good", "n_bad", "warns"), [(19, 1, False), (18, 1, True)], ids=["95 percent", "below"]
)
def test_few_readable_replies_are_warned_of(n_good, n_bad, warns):
    unparsed, no_reply = Verdicts.unscored("unparsed", ""), Verdicts.unscored("no_answer", "")
    several = [*records(n_good), *records(n_bad, unparsed), *records(1, no_reply)]
    assert counts(several)["parse_rate"] == 100 * n_good / (n_good + n_bad)
    assert any(line.startswith("WARNING: only 94.74 %") for line in notes(several)) is warns


@pytest.mark.parametrize(
    ("verdicts", "rate"),
    [
        pytest.param(Verdicts.unscored("unparsed", ""), 0, id="unparsed"),
        pytest.param(Verdicts.unscored("cut_off", ""), 0, id="cut off"),
        pytest.param(Verdicts.unscored("unavailable", ""), None, id="no reply"),
    ],
)
def test_only_a_reply_can_be_readable_or_not(verdicts, rate):
    assert counts(records(verdicts=verdicts)).get("parse_rate") == rate
