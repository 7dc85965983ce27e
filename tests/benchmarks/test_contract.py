"""What every benchmark promises to a run and to the results commands, on the bundled examples."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.settings import change

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.benchmarks.benchmark import Benchmark
from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.verdict import Unscored

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
    assert type(record) is benchmark.record
    assert record.id == doc["id"]
    assert isinstance(record.official, Unscored) or prepared.request is None
    line = {"record": json.loads(json.dumps(record.model_dump())), "filtered_resps": answer}
    assert benchmark.read_record(line) == record
    table = benchmark.table(doc)
    assert set(table.rows(record)) == {"record", *table.names}
    if prepared.request is None:  # there is no reply to read again
        assert benchmark.regraded(record, line).official == record.official


def test_the_signature_names_task_version_and_data(benchmark: Benchmark) -> None:
    signature = benchmark.signature(docs(benchmark)[0])
    assert signature.benchmark["task"] == f"{benchmark.name}@{benchmark.version}"
    assert signature.benchmark["data"]
    assert ("paper_judge" in signature.benchmark) == (benchmark.judge is not None)
