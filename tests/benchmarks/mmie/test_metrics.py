"""MMIE's groups, what is noted of its judge's replies, and the warning about a run."""

import pytest

from mmie_tasks.benchmarks.mmie.metrics import METRICS, SCALE, counts, groups, judge_facts, notes
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.core.verdict import Scored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import NOT_JUDGED, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult, Usage
from mmie_tasks.record.rows import RunnerTable
from mmie_tasks.record.signature import Signature

TABLE = RunnerTable(metrics=METRICS, scale=SCALE)
SAMPLE = MmieSample(id="PBL-1", category="PBL", field=" Education ", question=(), gold=())


def record(verdicts=None, judge_tokens=0):
    """The record of a sample that a judge with one reply gave these verdicts."""
    reply = JudgeReply(text="4", model="m", usage=Usage(input_tokens=judge_tokens))
    verdicts = verdicts or Verdicts(official=Scored(3), robust=Scored(4.5))
    judgement = Judgement(judge=Signature(), result=JudgeResult(reply=reply), verdicts=verdicts)
    of_sample = {kind: (name,) for kind, name in groups(SAMPLE).items()}
    return Record(id="PBL-1", groups=of_sample, verdicts=NOT_JUDGED).judged([judgement])


def test_a_sample_counts_for_its_own_category_and_field_only():
    table = TABLE.rows(record())
    assert {name for name, row in table.items() if row} == {
        *("record", "coverage", "official", "robust", "official_PBL", "official_education")
    }
    assert table["official"] == {"id": "PBL-1", "points": 3, "score": 50.0}
    assert table["official_PBL"] == table["official_education"] == table["official"]
    assert table["robust"]["score"] == 75.0


def test_the_length_of_the_request_is_noted_and_whether_it_exceeds_the_judges_window():
    assert judge_facts(Record(id="1", verdicts=NOT_JUDGED)) == judge_facts(record()) == {}
    assert judge_facts(record(judge_tokens=4096)) == {"judge_tokens": 4096.0}
    assert judge_facts(record(judge_tokens=4097)) == {"judge_tokens": 4097.0, "over_4096": 1}


@pytest.mark.parametrize("reason", ["unparsed", "cut_off"])
@pytest.mark.parametrize(
    ("n_good", "n_bad", "warns"), [(19, 1, False), (18, 1, True)], ids=["95 percent", "below"]
)
def test_few_readable_replies_are_warned_of(n_good, n_bad, warns, reason):
    unread, no_reply = Verdicts.unscored(reason, ""), Verdicts.unscored("unavailable", "")
    several = [record()] * n_good + [record(unread)] * n_bad + [record(no_reply)]
    assert counts(several) == {"parse_rate": 100 * n_good / (n_good + n_bad)}
    assert counts([record(unread)]) == {"parse_rate": 0}
    assert counts([record(no_reply)]) == {}
    assert any(line.startswith("WARNING: only 94.74 %") for line in notes(several)) is warns


def test_answers_that_the_judge_saw_in_part_are_counted():
    cut = record().model_copy(update={"facts": {"truncated": 1}})
    (line,) = notes([cut, record(), cut])
    assert line.startswith("answers judged without what follows the third image")
    assert line.endswith(": 2")
