"""What MIA-Bench says of its logged samples: as in the runner's table, and read again."""

import copy
import json
import math

import pytest
from support.logged_runs import mia_lines
from support.signatures import signature_from

from mmie_tasks.benchmarks.mia_bench import metrics
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, MiaSample
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.signature import Signature

LINES = list(mia_lines(80))
SOUND = "score of component 1: 3/6, score of component 2: 4/4, total score: 7/10. Fine."
IMPOSSIBLE = "score of component 1: 9/6, score of component 2: 4/4, total score: 13/10. Fine."


def with_replies(*texts, line=LINES[0], **fields):
    """The line with other replies of its judge."""
    replies = [{"text": text, "model": "m", **fields} for text in texts]
    result = dict(zip(("reply", "second_reply"), replies, strict=False))
    line = copy.deepcopy(line)
    line["record"]["judgements"][0]["result"] = result
    return line


def regraded(line):
    return BENCHMARK.regraded(Record.of_line(line))


def grade(of, result):
    return BENCHMARK.grade({"categories": of.categories, "weights": of.weights}, result)


def judged_line(*texts, categories=("describe", "mention"), index=0):
    """A line as the task makes it of one reply or two; of none where there are no texts."""
    return panel_line(texts, categories=categories, index=index)


def panel_line(*texts_of_judges, categories=("describe", "mention"), index=0):
    """A line of a panel whose judges gave these replies, one or two each."""
    sample = MiaSample(
        id=str(index),
        instruction="Look.",
        type=TYPES[index % 5],
        components=("a", "b"),
        weights=(6, 4),
        categories=categories,
    )
    judgements = []
    for number, texts in enumerate(texts_of_judges):
        replies = [JudgeReply(text=text, model=f"m{number}") for text in texts]
        failure = None if texts else Unscored("unavailable", "down")
        pairs = zip(("reply", "second_reply"), replies, strict=False)
        result = JudgeResult(**dict(pairs), failure=failure)
        judge = signature_from(f"judge:{number}")
        judgements.append(Judgement(judge=judge, result=result, verdicts=grade(sample, result)))
    record = Record(
        id=sample.id,
        verdicts=NOT_JUDGED,
        sample={"categories": list(categories), "weights": [6, 4]},
        signature=Signature(judges=tuple({"judge": "a"} for _ in judgements)),
    ).judged(judgements)
    facts = metrics.reply_facts(sample, record)
    return {"record": json.loads(json.dumps({**record.logged, "facts": facts}))}


ODD = [
    judged_line(IMPOSSIBLE, SOUND, index=100),
    judged_line("a: 9/6, b: 4/4, c: 13/10. Off.", index=101),  # officially more than full marks
    judged_line("no verdict", index=102),
    judged_line(SOUND, categories=("math", "math"), index=103),
]


def facts_of(line):
    return Record.of_line(line).facts


def test_official_points_beyond_full_marks_stay_as_the_official_script_has_them():
    assert Record.of_line(ODD[1]).official.points == pytest.approx(130)


def test_each_component_is_shown_with_its_mark_and_what_it_asks():
    facts = facts_of(judged_line(SOUND))
    assert facts["component_1"] == "describe 3/6: a"
    assert facts["component_2"] == "mention 4/4: b"
    assert facts["component_total"] == pytest.approx(70)
    assert facts_of(judged_line("nothing"))["component_2"] == "mention -/4: b"
    assert facts_of(judged_line())["component_2"] == "mention -/4: b"


def test_a_total_that_is_not_that_of_its_components_and_a_second_request_are_counted():
    lines = judged_line(SOUND), judged_line(SOUND.replace("7/10", "9/10")), ODD[0]
    counts = [{k: v for k, v in facts_of(line).items() if isinstance(v, int)} for line in lines]
    assert counts == [{}, {"unsound_totals": 1}, {"requested_twice": 1}]


def test_officially_the_first_reply_counts_and_robustly_the_last():
    record = regraded(with_replies(IMPOSSIBLE, SOUND))
    assert (record.official.points, record.robust.points) == (130, 70)


def test_a_second_reply_that_would_not_be_asked_for_today_is_not_read():
    record = regraded(with_replies(SOUND, IMPOSSIBLE))
    assert (record.official.points, record.robust.points) == (70, 70)
    assert [reply.text for reply in record.replies] == [SOUND, IMPOSSIBLE]


def test_a_reply_that_ran_into_its_limit_is_no_verdict():
    record = regraded(with_replies(SOUND, finish="length"))
    assert {record.official.reason, record.robust.reason} == {"cut_off"}


def test_every_category_and_type_has_a_number():
    names = {number.name for number in BENCHMARK.metrics}
    assert names == {"", "clean", *CATEGORIES, *TYPES}
    assert all(math.isclose(sum(number.weights.values()), 1) for number in BENCHMARK.metrics)


OTHER = "score of component 1: 6/6, score of component 2: 2/4, total score: 8/10. Fine."
PANEL_LINE = panel_line([IMPOSSIBLE, SOUND], [OTHER])


def test_the_second_replies_of_a_panels_judges_count_as_those_of_a_single_judge():
    record = Record.of_line(PANEL_LINE)
    assert (record.official.points, record.robust.points) == ((130 + 80) / 2, 75)
    assert [reply.text for reply in record.replies] == [IMPOSSIBLE, SOUND, OTHER]
    assert record.facts["requested_twice"] == 1


def test_a_panels_sample_shows_the_marks_of_each_judge():
    record = Record.of_line(PANEL_LINE)
    assert record.facts["component_1"] == "describe 3/6, 6/6: a"
    assert record.verdicts.shares["robust"] == {"describe": 0.75, "mention": 0.75}
