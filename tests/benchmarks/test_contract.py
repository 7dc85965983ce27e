"""What every benchmark promises to a run and to the results commands, on the bundled examples."""

from __future__ import annotations

import copy
import json
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.hostile import JUNK, outcome, spoil
from support.settings import change

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import BadRecord, Line, Record
from mmie_tasks.record.reply import JudgeReply, JudgeResult
from mmie_tasks.record.signature import Signature

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SELECTIONS = {"mia_bench": "", "milebench": "all", "mmie": "all", "opening": "all"}
ANSWERS = ["", "B", "A red kite.\n" * 999, MISSING, "3", '{"content": []}', "\ud800"]


@pytest.fixture(params=SELECTIONS)
def benchmark(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Benchmark:
    name = request.param
    (loaded,) = (entry.load() for entry in entries() if entry.name == name)
    monkeypatch.setenv(f"{name.upper()}_DATA", str(EXAMPLES / name / "data"))
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "openai:m,base_url=http://127.0.0.1:9/v1,cache=off")
    if "prompts" in loaded.settings_type.model_fields:
        change(monkeypatch, loaded, prompts=EXAMPLES / name / "prompts.json")
    return loaded


def docs(benchmark: Benchmark) -> list[Mapping[str, Any]]:
    samples = benchmark.documents(SELECTIONS[benchmark.name], os.environ)
    benchmark.check_data(samples)
    return list(samples)


def test_a_question_has_texts_and_files(benchmark: Benchmark) -> None:
    for doc in docs(benchmark):
        content = benchmark.question(doc, {})
        assert content
        assert all(isinstance(part, str) or part.is_file() for part in content)
        (turn,) = benchmark.doc_to_messages(doc)
        assert turn["role"] == "user"
        assert len(benchmark.doc_to_visual(doc)) == sum(isinstance(p, Path) for p in content)


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_any_answer_makes_a_record_that_is_read_as_it_was_written(
    benchmark: Benchmark, answer: str
) -> None:
    doc = docs(benchmark)[0]
    prepared = benchmark.prepared(doc, [answer])
    record = prepared.record
    assert record.id == doc["id"]
    assert isinstance(record.official, Unscored) or prepared.request is None
    assert Record.of_line(line_of(record)) == record
    table = benchmark.table(doc)
    assert set(table.rows(record)) == {"record", *table.names}
    if prepared.request is None:  # there is no reply to read again
        assert benchmark.regraded(record).official == record.official


REPLIES = [
    *("", "### Score\n4", "component 1: 4/4, total score: 4/4.", "no verdict", "\ud800", "9" * 500),
    *('{"Correctness": {"Score": 7}}', "component 1: 99/4, total score: 99/4.", "[]"),
]
ANSWER = "B"


def scored_lines(benchmark: Benchmark) -> list[dict[str, Any]]:
    """Lines of a log: an answer to the first sample with each reply, or its score by rule."""
    prepared = benchmark.prepared(docs(benchmark)[0], [ANSWER])
    record = prepared.record
    if prepared.request is None:
        return [line_of(record)]
    lines = []
    for text in REPLIES:
        result = JudgeResult(reply=JudgeReply(text=text, model="m"))
        verdicts = benchmark.grade(record.sample, result)
        judgement = Judgement(judge=Signature(), result=result, verdicts=verdicts)
        lines.append(line_of(record.judged([judgement])))
    return lines


def line_of(record: Record) -> dict[str, Any]:
    return {"record": json.loads(json.dumps(record.logged))}


def again(benchmark: Benchmark, line: Line) -> object:
    return benchmark.regraded(Record.of_line(line))


def test_a_line_is_scored_again_as_it_was_logged(benchmark: Benchmark) -> None:
    for line in scored_lines(benchmark):
        assert again(benchmark, line) == Record.of_line(line)


def test_scoring_again_looks_at_the_reply_or_answer_and_not_at_the_stored_verdict(
    benchmark: Benchmark,
) -> None:
    for line in scored_lines(benchmark):
        stored = copy.deepcopy(line)
        stored["record"]["verdicts"] = {"official": {"points": 0.125}, "robust": {"points": 0.125}}
        assert again(benchmark, stored) == Record.of_line(line)


def test_what_was_scored_and_is_not_in_the_log_cannot_be_scored_again(benchmark: Benchmark) -> None:
    record = Record.of_line(scored_lines(benchmark)[0]).scored(
        Verdicts(official=Scored(1), robust=Scored(1))
    )
    record = record.model_copy(update={"judgements": ()})
    if benchmark.judge is None:  # the log has the answer
        assert benchmark.regraded(record) == Record.of_line(scored_lines(benchmark)[0])
        return
    with pytest.raises(BadRecord, match="does not hold the reply or answer"):
        benchmark.regraded(record)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_spoiled_line_is_read_or_is_a_bad_record(benchmark: Benchmark, junk: object) -> None:
    for line in scored_lines(benchmark):
        for attempt in range(20):
            spoiled = copy.deepcopy(line)
            spoil(spoiled, random.Random(attempt), junk)  # noqa: S311
            assert outcome(Record.of_line, spoiled) != ""
            record = spoiled["record"]
            if isinstance(record, dict) and record.get("sample") == line["record"].get("sample"):
                assert outcome(lambda one: again(benchmark, one), spoiled) != ""


def test_the_signature_names_task_version_and_data(benchmark: Benchmark) -> None:
    signature = benchmark.signature(docs(benchmark)[0])
    assert signature.benchmark["task"] == f"{benchmark.name}@{benchmark.version}"
    assert signature.benchmark["data"]
    assert ("paper_judge" in signature.benchmark) == (benchmark.judge is not None)
