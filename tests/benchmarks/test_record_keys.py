"""The keys of the records of every benchmark, in their order, which logs keep."""

import json

import pytest

from mmie_tasks.benchmarks.mia_bench import sample as mia
from mmie_tasks.benchmarks.mia_bench.record import sample_record as mia_record
from mmie_tasks.benchmarks.milebench import sample as mile
from mmie_tasks.benchmarks.milebench.record import sample_record as mile_record
from mmie_tasks.benchmarks.mmie import sample as mmie
from mmie_tasks.benchmarks.mmie.record import RequestFacts
from mmie_tasks.benchmarks.mmie.record import sample_record as mmie_record
from mmie_tasks.benchmarks.opening import sample as opening
from mmie_tasks.benchmarks.opening.record import StepFacts
from mmie_tasks.benchmarks.opening.record import sample_record as opening_record
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.record.judgement import Judged, Judgement
from mmie_tasks.record.panel import Panel
from mmie_tasks.record.reply import JudgeResult
from mmie_tasks.record.signature import Signature

VERDICTS = Verdicts(
    official=Scored(4, "4"),
    robust=Unscored("unparsed", "no score"),
    expected=Scored(3.5),
    entropy_bits=1.0,
)
MEMBER = Judgement(judge=Signature("judge:a"), result=JudgeResult(), verdicts=VERDICTS)
SINGLE = Judged(verdicts=VERDICTS, members=(MEMBER,))
PANEL = Judged(verdicts=VERDICTS, members=(MEMBER, MEMBER), panel=Panel(rule="mean", min_valid=1))


def mmie_of(judged):
    sample = mmie.Sample(id="SA-1", category="SA", field="Art", question=(), gold=())
    return mmie_record(sample, judged, RequestFacts(), (), "")


def opening_of(judged):
    sample = opening.Sample(id="1", topic="travel", subtask="a", question=(), gold=())
    return opening_record(sample, judged, StepFacts(), (), "")


def mia_of(judged):
    sample = mia.Sample(
        id="1",
        instruction="Say what is seen.",
        type=mia.TYPES[0],
        components=("say",),
        weights=(10,),
        categories=mia.CATEGORIES[:1],
    )
    reply = "" if judged.panel is None else ("", "")
    return mia_record(sample, judged, reply, image="a.png", signature="", results=())


def milebench_of(judged):
    dataset = mile.DATASETS[0]
    sample = mile.Sample(
        dataset=dataset,
        sample_id="1",
        rule=mile.rule_of(dataset, "open-ended"),
        instruction="Look.",
        context="",
        images=("a.png",),
        gold="a kite",
        choices=(),
    )
    return mile_record(sample, judged.verdicts, "")


@pytest.mark.parametrize(
    ("record_of", "judged", "keys"),
    [
        pytest.param(
            mmie_of,
            SINGLE,
            "id index category field official robust expected differ facts question gold signature "
            "answer replies",
            id="mmie",
        ),
        pytest.param(
            opening_of,
            PANEL,
            "id topic subtask official robust differ parts facts question gold signature answer "
            "replies panel",
            id="opening, several judges",
        ),
        pytest.param(
            mia_of,
            SINGLE,
            "id type categories weights contradictory asked instruction official robust components "
            "total recomputed agrees differ parts image signature answer_sha256 facts replies",
            id="mia_bench",
        ),
        pytest.param(
            mia_of,
            PANEL,
            "id type categories weights contradictory asked instruction official robust marks "
            "differ parts image signature answer_sha256 facts replies panel",
            id="mia_bench, several judges",
        ),
        pytest.param(
            milebench_of,
            SINGLE,
            "id dataset task rule level gold choices images official robust differ signature facts",
            id="milebench",
        ),
    ],
)
def test_a_record_has_these_keys_in_this_order(record_of, judged, keys):
    assert list(record_of(judged)) == keys.split()


@pytest.mark.parametrize(
    ("record_of", "rows"),
    [
        pytest.param(
            mmie_of,
            {
                "official": {"points": 4, "reading": "4"},
                "robust": {"unscored": "unparsed", "detail": "no score"},
                "expected": {"points": 3.5, "entropy_bits": 1.0},
            },
            id="mmie: points",
        ),
        pytest.param(
            opening_of,
            {
                "official": {"score": 4, "reading": "4"},
                "robust": {"unscored": "unparsed", "detail": "no score"},
            },
            id="opening: score",
        ),
        pytest.param(
            mia_of,
            {
                "official": {"id": "1", "score": 4, "reading": "4"},
                "robust": {"id": "1", "unscored": "unparsed", "detail": "no score"},
            },
            id="mia_bench: with the sample's id",
        ),
        pytest.param(
            milebench_of,
            {
                "official": {"score": 4, "reading": "4"},
                "robust": {"unscored": "unparsed", "detail": "no score"},
            },
            id="milebench: score",
        ),
    ],
)
def test_the_verdicts_of_a_record_have_these_rows(record_of, rows):
    record = record_of(SINGLE)
    assert json.dumps({name: record[name] for name in rows}) == json.dumps(rows)
    assert [name for name in ("official", "robust", "expected") if name in record] == list(rows)
