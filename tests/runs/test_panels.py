"""Samples that several judges judged: their record, what is read of it, and the summary of a
run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mmie_tasks.record.verdict_row import as_row
from support.hostile import JUNK, outcome, spoil
from support.panels import MODELS, NOT_JUDGED, judged, mmie_line, signature

from mmie_tasks.benchmarks.mmie.benchmark import BENCHMARK
from mmie_tasks.core.verdict import Scored, Unscored
from mmie_tasks.record import log_line
from mmie_tasks.record.judgement import Judged
from mmie_tasks.record.record import BadRecord
from mmie_tasks.record.signature import Signature
from mmie_tasks.results.frames import LoadedRun
from mmie_tasks.results.rescore.logs import new_record
from mmie_tasks.runs.details import details_of
from mmie_tasks.runs.headline import headline_of
from mmie_tasks.runs.log_notes import notes_of
from mmie_tasks.runs.panels import judge_facts
from mmie_tasks.runs.run import Run, TaskRun


def run_of(*judgements: Judged) -> tuple[TaskRun, list[Mapping[str, object]]]:
    """A run of MMIE with these judgements, and its records."""
    lines = [mmie_line(judgement, f"SA-{n}") for n, judgement in enumerate(judgements)]
    samples = tuple(map(BENCHMARK.read_line, lines))
    return TaskRun(task="mmie", benchmark=BENCHMARK, log=Path(), samples=samples), [
        line["coverage"] for line in lines
    ]


def test_the_record_holds_every_judges_replies_and_verdicts_and_how_far_they_differ() -> None:
    record = json.loads(json.dumps(mmie_line(judged(4, 5, None))["coverage"]))
    assert record["replies"] == []
    assert record["official"]["points"] == 4.5
    panel = record["panel"]
    assert (panel["rule"], panel["min_valid"], panel["range"], panel["sd"]) == ("mean", 2, 1, 0.5)
    assert [member["judge"] for member in panel["members"]] == [
        f"judge:openai|model:{model}|t:0" for model in MODELS
    ]
    assert [len(member["replies"]) for member in panel["members"]] == [1, 1, 0]
    assert panel["members"][0]["official"]["score"] == 4
    assert panel["members"][2]["robust"] == {"unscored": "unavailable", "detail": "HTTP 503"}


def test_a_logged_panel_is_read_as_it_was_judged() -> None:
    judgement = judged(4, 6, None)
    line = json.loads(json.dumps(mmie_line(judgement)))
    sample = BENCHMARK.read_line(line)
    assert sample.official == Scored(5)
    assert [reply.model for reply in sample.replies] == ["gpt-4o", "gpt-4o-mini"]
    assert [member.judge for member in sample.members] == [
        member.judge for member in judgement.members
    ]
    assert [member.verdicts for member in sample.members] == [
        member.verdicts for member in judgement.members
    ]
    assert log_line.panel(line["coverage"]) == judgement.panel
    assert log_line.panel(mmie_line(NOT_JUDGED)["coverage"]) is None


def test_the_facts_of_a_sample_name_each_judges_points_and_their_difference() -> None:
    facts = judge_facts(BENCHMARK.read_line(mmie_line(judged(4, 5, None))))
    assert facts == {
        "judge gpt-4o": "4",
        "judge gpt-4o-mini": "5",
        "judge qwen": "no points: unavailable",
        "judges differ by": "1",
    }
    assert judge_facts(BENCHMARK.read_line(mmie_line(NOT_JUDGED))) == {}


@pytest.mark.parametrize(
    ("rule", "points"),
    [("mean", 4), ("median", 5), pytest.param("majority", 5, id="the-points-of-most-judges")],
)
def test_replies_are_read_again_and_combined_by_the_logged_rule(rule: str, points: float) -> None:
    line = mmie_line(judged(5, 2, 5, rule=rule))
    wrong = json.loads(json.dumps(line))
    wrong["coverage"]["official"] = {"points": 0}
    wrong["coverage"]["panel"]["members"][0]["official"] = {"score": 0}
    verdicts = BENCHMARK.reread(wrong)
    assert verdicts is not None
    assert verdicts["official"] == Scored(points)
    assert BENCHMARK.rerecord is not None
    renewed = json.loads(json.dumps(BENCHMARK.rerecord(wrong)))
    assert renewed == json.loads(json.dumps(line["coverage"]))


def test_a_panel_with_too_few_points_stays_unscored_when_its_replies_are_read_again() -> None:
    for judgement in (judged(4, None, "none"), judged(None, None, None)):
        line = mmie_line(judgement)
        verdicts = BENCHMARK.reread(line)
        assert verdicts is not None
        assert isinstance(verdicts["official"], Unscored)
        assert verdicts["official"] == judgement.verdicts.official


def test_without_a_judges_reply_its_points_cannot_be_read_again() -> None:
    line = mmie_line(judged(4, 5, 6))
    del line["coverage"]["panel"]["members"][1]["replies"]
    assert BENCHMARK.reread(line) is None
    assert log_line.replies(line["coverage"]) is None


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"rule": "best"}, "`rule`"),
        ({"min_valid": 0}, "`min_valid`"),
        ({"members": ["judge:a"]}, "`members`"),
        ({"members": [{"judge": "a"}]}, "`official`"),
        ({"members": [{"judge": 5, "official": {"score": 1}, "robust": {"score": 1}}]}, "`judge`"),
    ],
)
def test_a_panel_of_another_form_is_a_bad_record(change: dict[str, object], named: str) -> None:
    line = mmie_line(judged(4, 5, 6))
    line["coverage"]["panel"] |= change
    for read in (BENCHMARK.read_line, BENCHMARK.reread):
        with pytest.raises(BadRecord, match=named):
            read(line)


@given(
    st.randoms(use_true_random=False),
    st.sampled_from(JUNK),
    st.sampled_from([(4, 5, 6), (4, None, 5), (None, None, None)]),
)
def test_no_line_of_a_panel_upsets_the_readers(
    lots: Any, junk: object, points: tuple[object, ...]
) -> None:
    line = json.loads(json.dumps(mmie_line(judged(*points))))
    spoil(line["coverage"]["panel"], lots, junk)
    for read in (BENCHMARK.read_line, BENCHMARK.reread, BENCHMARK.rerecord):
        assert read is not None
        assert outcome(read, line) != ""


def test_a_panel_is_named_after_its_judges_and_rule() -> None:
    assert (
        Signature.parse(signature("median")).name == "panel of gpt-4o, gpt-4o-mini, qwen (median)"
    )
    assert Signature.parse(signature(models=("m", "m"))).name == "panel of m (1), m (2) (mean)"
    run, _ = run_of(judged(4, 5, 6))
    headline = headline_of(run)
    assert headline.judge == "panel of gpt-4o, gpt-4o-mini, qwen (mean)"
    assert f"judge: {headline.judge}, not the paper's" in headline.marks


def test_the_numbers_of_a_panel_are_those_of_a_judge_without_counts_of_whole_points() -> None:
    run, records = run_of(judged(3, 6, 3), judged(3, 6, None), judged(3, 6, "none"), NOT_JUDGED)
    details = details_of(run, records)
    assert details["parse_rate"] == pytest.approx(100 * 7 / 8)  # of the replies of all judges
    assert not [name for name in details if name.startswith(("points_", "judge"))]
    assert details.keys() == details_of(*run_of(NOT_JUDGED)).keys() | {"parse_rate"}


def test_the_last_lines_of_a_run_name_each_judges_failures_and_all_tokens() -> None:
    notes = list(notes_of(*run_of(judged(3, 6, 3), judged(3, 5, None), judged(3, 6, "none"))))
    assert "judge 2, gpt-4o-mini: points in 3 of 3 samples" in notes
    (third,) = [note for note in notes if note.startswith("judge 3, qwen")]
    assert (
        third == "judge 3, qwen: points in 1 of 3 samples; without: unavailable (1), unparsed (1)"
    )
    assert (
        "judges differ by 2.67 points on average, in 3 samples with points of two or more" in notes
    )
    (replies,) = [note for note in notes if note.startswith("replies:")]
    assert "80 tokens in, 8 out, 4.0000 USD" in replies


def test_a_table_of_samples_has_the_panels_points_and_no_single_reply() -> None:
    run, _ = run_of(judged(4, 5, None), judged(None, 3, 3))
    frame = LoadedRun(Run(name="r", date="", folder=Path(), tasks={"mmie": run})).samples()
    assert list(frame["official"]) == [4.5, 3]
    assert not [name for name in frame if name.startswith(("judge_", "judges_"))]
    assert set(frame["reply"]) == set(frame["second_reply"]) == {None}
    assert list(frame["input_tokens"]) == [20, 20]


def test_a_benchmark_that_makes_no_records_itself_has_the_judges_verdicts_renewed() -> None:
    line = mmie_line(judged(4, 5, None))
    expected = [member["official"] for member in line["coverage"]["panel"]["members"]]
    for member in line["coverage"]["panel"]["members"]:
        member["official"] = {"unscored": "unavailable", "detail": "HTTP 503"}
    record = new_record(replace(BENCHMARK, rerecord=None), line)
    assert record["official"] == as_row(Scored(4.5))
    panel = record["panel"]
    assert isinstance(panel, Mapping)
    assert [member["official"] for member in panel["members"]] == expected
