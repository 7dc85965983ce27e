"""Benchmarks that override only what they must: one with a judge, one scored by rule."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest
from PIL import Image
from support.judgements import result_of

from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.core.errors import DataBroken
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.judges.base import JudgeRequest
from mmie_tasks.judges.session import BenchmarkJudge
from mmie_tasks.record.metrics import Metric, Scale
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


class Asking(ByRule):
    """Asks what it is told to."""

    def __init__(self, content, metrics=ByRule.metrics):
        super().__init__()
        self.content, self.metrics = content, metrics

    def question(self, doc, options):
        return [doc["image"], "?"] if self.content is KeyError else self.content


@pytest.mark.parametrize(
    ("benchmark", "more", "message"),
    [
        (ByRule(), {"id": None}, "A sample of by_rule has no `id`"),
        (ByRule(), {"id": "7"}, "has the `id` `7` of another"),
        (ByRule(), {"kind": None}, "`groups` of the sample `8` raises TypeError"),
        (ByRule(), {"kind": [5]}, "`groups` of the sample `8` is no text"),
        (Asking([], [Metric.of_group("size", "s", "Small")]), {}, "`Small` averages .* `size`"),
        (Asking("What?"), {}, "of the sample `7` is a str, not a list"),
        (Asking([7]), {}, "has a part of the type int"),
        (Asking([Path("no.png")]), {}, "names the file `no.png`, which does not exist"),
        (Asking(["What?", __file__.replace(".py", ".png")]), {}, ""),
        (Asking([Path(__file__)]), {}, ""),
        (Asking(KeyError), {}, ""),
    ],
)
def test_samples_that_cannot_be_asked_end_a_run_before_it_generates(benchmark, more, message):
    docs = [LOGGED, {**LOGGED, "id": 8, **more}]
    with pytest.raises(DataBroken, match=message) if message else nullcontext():
        benchmark.check_data(docs)


def test_the_name_of_an_image_file_as_a_text_is_an_error(tmp_path):
    file = tmp_path / "a.png"
    file.touch()
    with pytest.raises(DataBroken, match="the name of a file as a text"):
        Asking([str(file)]).check_data([LOGGED])


@pytest.mark.parametrize(
    ("score", "reason", "detail"),
    [
        (lambda: Verdicts(official=Scored(3), robust=Scored(1)), "off_scale", "3 points"),
        (lambda: True, "not_scorable", "TypeError: `score` returned bool, not `Verdicts`"),
        (lambda: 1 / 0, "not_scorable", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_score_that_is_none_leaves_its_sample_unscored(monkeypatch, score, reason, detail):
    monkeypatch.setattr(ByRule, "score", lambda _self, _sample, _answer: score())
    record = Record.of_line({"record": ByRule().process_results(DOC, ["a kite"])["record"]})
    assert (record.id, record.official) == ("7", Unscored(reason, detail))


@pytest.mark.parametrize(
    ("gold", "text"),
    [("a", "a"), (4, "4"), (["a", {"text": "b", "image": None}, None], "a\nb"), (None, "")],
)
def test_a_gold_answer_is_a_text_a_number_or_parts(gold, text):
    assert ByRule().doc_to_target({"gold": gold}) == text


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
