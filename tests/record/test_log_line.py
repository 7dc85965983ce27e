"""The record of a sample that any benchmark may log, read back."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import pytest
from mmie_tasks.record.verdict_row import as_row

from mmie_tasks.core.verdict import NO_PROBABILITIES, Scored, Unscored, Verdict, Verdicts
from mmie_tasks.record import log_line
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.signature import Signature

REPLY = JudgeReply(text="Score: 4", model="m")
AGAIN = JudgeReply(text="Score: 3", model="m")
UNSCORED = as_row(Unscored("no_answer", "the request failed"))


def line(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": "a",
        "category": "scene",
        "official": as_row(Scored(4, "4")),
        "robust": as_row(Unscored("unparsed", "no score")),
        "images": ["a.png"],
        "replies": [asdict(REPLY)],
        "signature": "judge:m",
        **changes,
    }
    present = {name: value for name, value in record.items() if value is not ...}
    return {
        "input": "What is it?",
        "target": "a kite",
        "filtered_resps": "a bird",
        "coverage": present,
    }


def grade(result: JudgeResult) -> Verdicts:
    def read(reply: str) -> Verdict:
        return Scored(float(reply.rpartition(" ")[2]))

    return Verdicts(official=result.first_verdict(read), robust=result.verdict(read))


def test_a_record_with_the_standard_fields_is_a_sample() -> None:
    sample = log_line.sample(line(), 5, groups=("category",))
    assert (sample.id, str(sample.signature), sample.groups) == (
        "a",
        "judge:m",
        {"category": ("scene",)},
    )
    assert (sample.official, sample.robust) == (Scored(4, "4"), Unscored("unparsed", "no score"))
    assert sample.replies == (REPLY,)
    assert [(part.text, part.image) for part in sample.question] == [
        ("What is it?", None),
        (None, "a.png"),
    ]
    assert [part.text for part in (*sample.gold, *sample.answer)] == ["a kite", "a bird"]


EVERY_FORM = [
    log_line.RecordForm(),
    log_line.RecordForm(rows_have_id=True, differ=True, parts=True),
    log_line.RecordForm(points_key="points", expected=True, differ=True),
]


@pytest.mark.parametrize("several", [False, True], ids=["one judge", "several judges"])
@pytest.mark.parametrize("form", EVERY_FORM, ids=["plain", "with parts", "points"])
def test_what_is_written_of_a_sample_is_read_again(
    form: log_line.RecordForm, several: bool
) -> None:
    verdicts = Verdicts(
        official=Scored(4, "4"),
        robust=Scored(3.5, "3.5"),
        expected=Scored(3.75),
        entropy_bits=0.5,
        parts={"official": {"shape": 0.5}},
    )
    member = Judgement(
        judge=Signature("judge:m"), result=JudgeResult(reply=REPLY), verdicts=verdicts
    )
    members = (member, member) if several else (member,)
    panel = Panel(rule="mean", min_valid=2) if several else None
    judged = Judged(verdicts=verdicts, members=members, panel=panel)
    written = log_line.sample_record(
        "a", judged, "judge:m", form=form, sample_fields={"category": "scene"}
    )
    record = json.loads(json.dumps(written))
    sample = log_line.sample(log_line.with_record({}, record), 5, groups=("category",))
    assert (sample.id, str(sample.signature), sample.names("category")) == (
        "a",
        "judge:m",
        ("scene",),
    )
    assert (sample.official, sample.robust) == (verdicts.official, verdicts.robust)
    assert sample.expected == (verdicts.expected if form.expected else NO_PROBABILITIES)
    assert sample.entropy_bits == (0.5 if form.expected else None)
    assert sample.replies == (REPLY,) * len(members)
    assert [replace(read.verdicts, parts=verdicts.parts) for read in sample.members] == (
        [verdicts, verdicts] if several else []
    )
    assert log_line.panel(record) == panel
    shares = log_line.component_shares(record)
    assert shares == {"official": {"shape": 0.5} if form.parts else {}, "robust": {}}
    assert record.get("differ", True) is True


@pytest.mark.parametrize("form", EVERY_FORM, ids=["plain", "with parts", "points"])
def test_a_rewritten_record_has_its_keys_in_the_same_order(form: log_line.RecordForm) -> None:
    verdicts = grade(JudgeResult(reply=REPLY))
    member = Judgement(judge=Signature(), result=JudgeResult(reply=AGAIN), verdicts=verdicts)
    judged = Judged(verdicts=verdicts, members=(member,))
    written = log_line.sample_record("a", judged, "", form=form, sample_fields={})
    renewed = log_line.rerecord(written, grade, 5, form)
    assert list(renewed) == list(written)
    changed = {name for name in written if renewed[name] != written[name]}
    assert {"official", "robust"} <= changed <= {"official", "robust", "expected"}
    assert list(log_line.rescored(renewed, "2", changed=True)) == [*written, "rescored"]


def test_a_record_may_have_an_expected_score() -> None:
    sample = log_line.sample(line(expected=as_row(Scored(3.5), entropy_bits=0.8)), 5)
    assert (sample.expected, sample.entropy_bits) == (Scored(3.5), 0.8)
    assert log_line.sample(line(), 5).expected == NO_PROBABILITIES


def test_a_benchmark_without_judge_images_or_gold_needs_less() -> None:
    logged = line(replies=..., images=..., signature=...)
    del logged["target"]
    sample = log_line.sample(logged, 5)
    assert (sample.replies, sample.gold, sample.groups) == ((), (), {})
    assert str(sample.signature) == ""


def test_digits_of_a_reply_are_read_also_in_the_form_of_older_logs() -> None:
    reply = replace(REPLY, digits=(-0.5, None, *[-2.25] * 8))
    older = {**asdict(REPLY), "digits": [{"offset": 7, "logprobs": list(reply.digits or ())}]}
    for logged in (asdict(reply), json.loads(json.dumps(asdict(reply))), older):
        assert log_line.replies({"replies": [logged]}) == (reply,)


def test_a_digit_without_probabilities_in_an_older_log_has_none_of_its_own() -> None:
    ones: list[float | None] = [-1.0] * 10
    logged = {**asdict(REPLY), "text": "5 of 6", "digits": [{"offset": 5, "logprobs": ones}]}
    (reply,) = log_line.replies({"replies": [logged]})
    assert reply.digits == (*[None] * 10, *ones)


@pytest.mark.parametrize("offset", [-1, 6, 8, True, None, "7"])
@pytest.mark.parametrize(
    "logprobs", [[-1.0] * 9, [1.0] * 10, [math.nan] * 10, ["-1"] * 10, "0123456789", None]
)
def test_digits_that_are_impossible_are_left_out(offset: object, logprobs: object) -> None:
    for digit in (
        {"offset": offset, "logprobs": [-1.0] * 10},
        {"offset": 7, "logprobs": logprobs},
        offset,
    ):
        for digits in ([digit], digit, logprobs if logprobs is not None else [True] * 10):
            assert log_line.replies({"replies": [{**asdict(REPLY), "digits": digits}]}) == (REPLY,)


@pytest.mark.parametrize("name", ["id", "official", "robust", "category"])
@pytest.mark.parametrize("value", [..., 7], ids=["missing", "number"])
def test_a_missing_or_odd_field_is_a_bad_record(name: str, value: object) -> None:
    with pytest.raises(BadRecord, match=name):
        log_line.sample(line(**{name: value}), 5, groups=("category",))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {"official": Scored(4), "robust": Scored(4)}, id="one-reply"),
        pytest.param(
            {"replies": [asdict(REPLY), asdict(AGAIN)]},
            {"official": Scored(4), "robust": Scored(3)},
            id="two-replies",
        ),
        pytest.param(
            {"replies": [], "official": UNSCORED, "robust": UNSCORED},
            dict.fromkeys(("official", "robust"), Unscored("no_answer", "the request failed")),
            id="not-judged",
        ),
        pytest.param({"replies": []}, None, id="a-score-without-its-reply"),
        pytest.param(
            {"replies": ..., "official": UNSCORED, "robust": UNSCORED}, None, id="no-replies-logged"
        ),
        pytest.param({"replies": [{"text": None}]}, None, id="a-reply-without-text"),
    ],
)
def test_saved_replies_are_read_again(
    changes: dict[str, Any], expected: dict[str, Verdict] | None
) -> None:
    assert log_line.reread(line(**changes), grade, 5) == expected
