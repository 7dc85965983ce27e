"""Benchmarks that override only what they must: one with a judge, one scored by rule."""

import json

import pytest
from PIL import Image
from support.judgements import result_of

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.metrics import Scale
from mmie_tasks.record.record import Record

DOC = {"id": 7, "kind": "scene", "gold": "a kite", "image": Image.new("RGB", (9, 9))}
LOGGED = {name: value for name, value in DOC.items() if name != "image"}


class ByRule(Benchmark):
    name = title = "by_rule"
    scale = Scale(full_marks=1, unit="points, 0 or 1", percent=lambda mean: 100 * mean)

    def question(self, doc, options):
        return ["What is it?"]

    def groups(self, sample):
        return {"kind": sample["kind"], "letter": ("a", "k")}

    def score(self, sample, answer):
        verdict = Scored(float(answer == sample["gold"]), answer)
        return Verdicts(official=verdict, robust=verdict)


class ByJudge(ByRule):
    name = title = "by_judge"
    judge = BenchmarkJudge("by_judge", "openai:m")
    scale = Scale(full_marks=5, unit="points, 0 to 5", percent=lambda mean: 20 * mean)

    def request(self, doc, answer):
        return JudgeRequest(parts=(answer,), max_tokens=9)

    def read(self, reply):
        return Scored(float(reply)) if reply.lstrip("-").isdigit() else Unscored("unparsed")


def logged(record):
    """The record as it is read from a log."""
    return Record.of_line({"record": json.loads(json.dumps(record.logged))})


def test_the_record_has_groups_question_answer_facts_and_what_json_has_of_the_sample():
    class Noting(ByRule):
        def facts(self, doc, record):
            return {"points": record.official.points}

    rows = Noting().process_results(DOC, ["<think>Hm.</think>a kite"])
    assert set(rows) == {"record", "coverage", "official", "robust"}
    record = Record.of_line({"record": rows["record"]})
    assert (record.id, record.sample) == ("7", LOGGED)
    assert record.groups == {"kind": ("scene",), "letter": ("a", "k")}
    shown = (*record.question, *record.gold, *record.answer)
    assert [segment.text for segment in shown] == ["What is it?", "a kite", "a kite"]
    assert record.official == Scored(1, "a kite")
    assert record.facts == {"thinking": 1, "points": 1}


def test_samples_without_an_id_and_wrong_groups_end_a_run_before_it_generates():
    ByRule().check_data([DOC])
    with pytest.raises(DataBroken, match="have no `id`"):
        ByRule().check_data([{"kind": "scene"}])
    with pytest.raises(KeyError, match="kind"):
        ByRule().check_data([{"id": 7}])


def test_an_answer_is_scored_again_from_the_sample_in_its_record():
    record = logged(ByRule().prepared(DOC, ["a kite"]).record)
    changed = record.model_copy(update={"sample": {**record.sample, "gold": "a bird"}})
    assert ByRule().regraded(changed).official == Scored(0, "a kite")


@pytest.mark.parametrize(
    "answer", ["[NO_ANSWER] x", "<think>a</think>[ERROR] b", "<thi<think>a</think>nk>a kite"]
)
def test_an_answer_in_a_log_is_not_read_a_second_time(answer):
    record = ByRule().prepared(DOC, [answer]).record
    assert ByRule().regraded(logged(record)) == record


def test_an_answer_to_an_image_that_could_not_be_opened_is_unscored(tmp_path):
    class Shown(ByRule):
        def question(self, doc, options):
            return [tmp_path / "none.png"]

    benchmark = Shown()
    benchmark.doc_to_visual(DOC)
    rows = benchmark.process_results(DOC, ["a kite"])
    assert rows["official"] == {"id": "7", "unscored": "bad_image"}


@pytest.mark.parametrize(
    ("results", "reason"),
    [(["[NO_ANSWER] x"], "no_answer"), (["a", "b"], "not_text"), ([None], "not_text")],
)
@pytest.mark.parametrize("kind", [ByRule, ByJudge])
def test_what_is_not_an_answer_is_unscored(kind, results, reason):
    prepared = kind().prepared(DOC, results)
    assert prepared.request is None
    assert (prepared.record.official.reason, prepared.record.robust.reason) == (reason, reason)


def test_a_judge_gets_an_answer_without_its_thinking():
    prepared = ByJudge().prepared(DOC, ["<think>Hm.</think>It flies."])
    assert prepared.request == JudgeRequest(parts=("It flies.",), max_tokens=9)


class TwoReaders(ByJudge):
    def read_robust(self, reply):
        return Scored(float(reply.split("/")[0]))


class OpenEnded(ByJudge):
    scale = Scale(full_marks=5, unit="points", percent=lambda mean: mean, open_ended=True)


@pytest.mark.parametrize(
    ("kind", "replies", "official", "robust"),
    [
        pytest.param(ByJudge, ("4",), Scored(4), Scored(4), id="one-reply"),
        pytest.param(ByJudge, ("x", "3"), Unscored("unparsed"), Scored(3), id="first-and-last"),
        pytest.param(ByJudge, ("8", "3"), "off_scale", Scored(3), id="more-than-full-marks"),
        pytest.param(ByJudge, ("-1",), "off_scale", "off_scale", id="negative"),
        pytest.param(TwoReaders, ("4/5",), Unscored("unparsed"), Scored(4), id="two-readers"),
        pytest.param(OpenEnded, ("8",), Scored(8), Scored(8), id="open-ended"),
    ],
)
def test_official_is_the_first_reply_and_robust_the_last(kind, replies, official, robust):
    graded = kind().grade({}, result_of(*replies))
    for verdict, expected in ((graded.official, official), (graded.robust, robust)):
        is_reason = isinstance(expected, str)
        assert (verdict.reason if is_reason else verdict) == expected
