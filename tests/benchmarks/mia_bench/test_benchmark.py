"""What MIA-Bench says of its logged samples: as in the runner's table, and read again."""

import copy
import json
import math

import pytest
from mmie_tasks.benchmarks.mia_bench.record import MiaRecord
from support.logged_runs import mia_lines
from support.signatures import signature_of

from mmie_tasks.benchmarks.mia_bench import metrics
from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.mia_bench.sample import CATEGORIES, TYPES, Sample
from mmie_tasks.core.verdict import Unscored
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.segment import Segment
from mmie_tasks.record.signature import Signature

LINES = list(mia_lines(80))
SOUND = "score of component 1: 3/6, score of component 2: 4/4, total score: 7/10. Fine."
IMPOSSIBLE = "score of component 1: 9/6, score of component 2: 4/4, total score: 13/10. Fine."


def changed(line=LINES[0], **fields):
    line = copy.deepcopy(line)
    line["record"].update(fields)
    return line


def with_replies(*texts, line=LINES[0], **fields):
    """The line with other replies of its judge."""
    replies = [{"text": text, "model": "m", **fields} for text in texts]
    result = dict(zip(("reply", "second_reply"), replies, strict=False))
    line = copy.deepcopy(line)
    line["record"]["judgements"][0]["result"] = result
    return line


def regraded(line):
    return BENCHMARK.regraded(BENCHMARK.read_record(line), line)


def grade(of, result):
    return BENCHMARK.grade({"categories": of.categories, "weights": of.weights}, result)


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
    failure = None if texts else Unscored("unavailable", "down")
    pairs = zip(("reply", "second_reply"), replies, strict=False)
    result = JudgeResult(**dict(pairs), failure=failure)
    verdicts = grade(sample, result)
    judgement = Judgement(judge=Signature(), result=result, verdicts=verdicts)
    return line_of(sample, Judged.by([judgement]), contradictory=contradictory)


def line_of(sample, judged, contradictory=False):
    record = MiaRecord.of(
        judged,
        id=sample.id,
        type=sample.type,
        categories=sample.categories,
        weights=sample.weights,
        components=sample.components,
        contradictory=contradictory,
        image="",
        signature=Signature(judges=tuple({"judge": "a"} for _ in judged.judgements)),
    )
    logged = json.loads(json.dumps(record.model_dump()))
    return {"filtered_resps": "A boat.", "input": "Look.", "record": logged}


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
    assert BENCHMARK.read_line(line).properties["contradictory"] is True


def test_the_image_comes_before_the_instruction():
    line = changed(image="boat.png")
    assert BENCHMARK.read_line(line).question == (
        Segment(image="boat.png"),
        Segment(text=line["input"]),
    )


def test_each_component_is_shown_with_its_mark_and_what_it_asks():
    properties = BENCHMARK.read_line(judged_line(SOUND)).properties
    assert properties["component 1"] == "describe 3/6: a"
    assert properties["component 2"] == "mention 4/4: b"
    assert properties["total of the components, percent"] == pytest.approx(70)
    assert BENCHMARK.read_line(judged_line("nothing")).properties["component 2"] == "mention -/4: b"


def test_a_total_that_is_not_that_of_its_components_is_shown():
    line = judged_line(SOUND.replace("7/10", "9/10"))
    assert (
        BENCHMARK.read_line(line).properties["the stated total is that of its components"] is False
    )


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        pytest.param({"type": "easy"}, "type", id="type"),
        pytest.param({"type": {}}, "type", id="type-that-is-an-object"),
        pytest.param({"categories": "math"}, "categories", id="categories"),
        pytest.param({"weights": [6, "four"]}, "weights", id="weight"),
        pytest.param({"weights": [0, 4]}, "weights", id="weight-of-0"),
        pytest.param({"weights": [6]}, "differ in number", id="too-few-weights"),
        pytest.param({"shares": []}, "shares", id="shares"),
        pytest.param({"shares": {"robust": 1}}, "robust", id="shares-of-a-score"),
        pytest.param({"components": "a"}, "components", id="components"),
        pytest.param({"image": 3}, "image", id="image"),
    ],
)
def test_a_field_of_the_wrong_kind_is_named(fields, named):
    with pytest.raises(BadRecord, match=named):
        BENCHMARK.read_line(changed(**fields))


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
    judgements = []
    for number, texts in enumerate(texts_of_judges):
        replies = [JudgeReply(text=text, model=f"m{number}") for text in texts]
        result = JudgeResult(**dict(zip(("reply", "second_reply"), replies, strict=False)))
        judgements.append(
            Judgement(
                judge=signature_of(f"judge:{number}"), result=result, verdicts=grade(sample, result)
            )
        )
    return line_of(sample, Judged.by(judgements))


OTHER = "score of component 1: 6/6, score of component 2: 2/4, total score: 8/10. Fine."
PANEL_LINE = panel_line([IMPOSSIBLE, SOUND], [OTHER])


def test_the_second_replies_of_a_panels_judges_count_as_those_of_a_single_judge():
    sample = BENCHMARK.read_line(PANEL_LINE)
    assert (sample.official.points, sample.robust.points) == ((130 + 80) / 2, 75)
    assert [reply.text for reply in sample.replies] == [IMPOSSIBLE, SOUND, OTHER]
    assert metrics.counts([BENCHMARK.read_record(PANEL_LINE)])["requested_twice"] == 1


def test_a_second_reply_of_a_panels_judge_that_would_not_be_asked_for_today_is_not_read():
    record = regraded(with_replies(SOUND, OTHER, line=PANEL_LINE))
    assert record.official.points == 75
    assert [reply.text for reply in record.judgements[0].result.replies] == [SOUND, OTHER]


def test_a_panels_sample_shows_the_marks_of_each_judge():
    assert (
        BENCHMARK.read_line(PANEL_LINE).properties["component 1"] == f"{CATEGORIES[0]} 3/6, 6/6: a"
    )
    shares = BENCHMARK.read_record(PANEL_LINE).shares["robust"]
    assert shares == {CATEGORIES[0]: 0.75, CATEGORIES[1]: 0.75}


def test_reading_a_panels_line_again_gives_what_was_logged():
    assert regraded(PANEL_LINE).model_dump() == BENCHMARK.read_record(PANEL_LINE).model_dump()
