"""What every benchmark promises to a run and to the results commands, on the bundled examples."""

import copy
import json
import os
import random
import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.hostile import JUNK, outcome, spoil
from support.judgements import result_of
from support.settings import change

from mmie_tasks.answers.failures import MISSING
from mmie_tasks.benchmarks.registry import entries
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.core.verdict import Scored, Unscored, Verdicts
from mmie_tasks.record.judgement import Judgement
from mmie_tasks.record.record import BadRecord, Record
from mmie_tasks.record.signature import Signature

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SELECTIONS = {"mia_bench": "", "milebench": "DocVQA", "mmie": "all", "opening": "all"}
ANSWERS = ["", "B", "A red kite.\n" * 999, MISSING, "3", '{"content": []}', "\ud800"]


@pytest.fixture(params=SELECTIONS)
def benchmark(request, monkeypatch, tmp_path):
    name = request.param
    (loaded,) = (entry.load() for entry in entries() if entry.name == name)
    monkeypatch.setenv(f"{name.upper()}_DATA", str(EXAMPLES / name / "data"))
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "openai:m,base_url=http://127.0.0.1:9/v1,cache=off")
    if "prompts" in loaded.settings_type.model_fields:
        change(monkeypatch, loaded, prompts=EXAMPLES / name / "prompts.json")
    return loaded


def docs(benchmark):
    samples = benchmark.documents(SELECTIONS[benchmark.name], os.environ)
    benchmark.check_data(samples)
    return list(samples)


def test_a_question_has_texts_and_files(benchmark):
    for doc in docs(benchmark):
        content = benchmark.question(doc, {})
        assert content
        assert all(isinstance(part, str) or part.is_file() for part in content)
        (turn,) = benchmark.doc_to_messages(doc)
        assert turn["role"] == "user"
        assert len(benchmark.doc_to_visual(doc)) == sum(isinstance(p, Path) for p in content)


def test_missing_data_is_named_and_ends_the_process(benchmark, monkeypatch, tmp_path):
    variable, selection = f"{benchmark.name.upper()}_DATA", SELECTIONS[benchmark.name]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "notes.txt").touch()
    for folder, content in (("none", variable), ("data", "notes.txt")):
        path = tmp_path / folder
        monkeypatch.setenv(variable, str(path))
        with pytest.raises(DataMissing) as missing:
            benchmark.documents(selection, os.environ)
        assert all(text in missing.value.message for text in (str(path), content))
        with pytest.raises(SystemExit, match=str(path)):
            benchmark.process_docs(SimpleNamespace(config_name=selection))


def test_a_missing_image_of_a_question_is_named(benchmark, monkeypatch, tmp_path, logs):
    data = shutil.copytree(EXAMPLES / benchmark.name / "data", tmp_path / "data")
    monkeypatch.setenv(f"{benchmark.name.upper()}_DATA", str(data))
    samples = benchmark.documents(SELECTIONS[benchmark.name], os.environ)
    images = [part for doc in samples for part in benchmark.question(doc, {})]
    missing = next(image for image in images if isinstance(image, Path))
    missing.unlink()
    if benchmark.name == "opening":  # all of its pictures may be missing
        benchmark.check_data(samples)
        assert any("1 pictures of 1 questions" in line and str(missing) in line for line in logs)
        return
    with pytest.raises(DataMissing, match=rf"\b1 (of the \d+ )?images .*{missing}"):
        benchmark.check_data(samples)


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_any_answer_makes_a_record_that_is_read_as_it_was_written(benchmark, answer):
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


def scored_lines(benchmark):
    """Lines of a log: an answer to the first sample with each reply, or its score by rule."""
    prepared = benchmark.prepared(docs(benchmark)[0], [ANSWER])
    record = prepared.record
    if prepared.request is None:
        return [line_of(record)]
    lines = []
    for text in REPLIES:
        result = result_of(text)
        verdicts = benchmark.grade(record.sample, result)
        judgement = Judgement(judge=Signature(), result=result, verdicts=verdicts)
        lines.append(line_of(record.judged([judgement])))
    return lines


def line_of(record):
    return {"record": json.loads(json.dumps(record.logged))}


def again(benchmark, line):
    return benchmark.regraded(Record.of_line(line))


def test_a_line_is_scored_again_from_its_reply_or_answer_whatever_verdict_is_stored(benchmark):
    stored = {"official": {"points": 0.125}, "robust": {"points": 0.125}}
    for line in scored_lines(benchmark):
        expected = Record.of_line(line)
        assert again(benchmark, line) == expected
        assert again(benchmark, {"record": line["record"] | {"verdicts": stored}}) == expected


def test_what_was_scored_and_is_not_in_the_log_cannot_be_scored_again(benchmark):
    line = Record.of_line(scored_lines(benchmark)[0])
    record = line.scored(Verdicts(official=Scored(1), robust=Scored(1)))
    record = record.model_copy(update={"judgements": ()})
    if benchmark.judge is None:  # the log has the answer
        assert benchmark.regraded(record) == line
        return
    with pytest.raises(BadRecord, match="does not hold the reply or answer"):
        benchmark.regraded(record)


@pytest.mark.parametrize("junk", JUNK, ids=repr)
def test_a_spoiled_line_is_read_or_is_a_bad_record(benchmark, junk):
    for line in scored_lines(benchmark):
        for attempt in range(20):
            spoiled = copy.deepcopy(line)
            spoil(spoiled, random.Random(attempt), junk)  # noqa: S311
            assert outcome(Record.of_line, spoiled) != ""
            record = spoiled["record"]
            if isinstance(record, dict) and record.get("sample") == line["record"].get("sample"):
                assert outcome(lambda one: again(benchmark, one), spoiled) != ""


def test_the_signature_names_task_version_and_data_and_answers_may_have_pictures(benchmark):
    fields = benchmark.signature(docs(benchmark)[0]).benchmark
    assert fields["task"] == f"{benchmark.name}@{benchmark.version}"
    assert str(fields["data"]).startswith("sha256:")
    assert ("paper_judge" in fields) == (benchmark.judge is not None)
    has_pictures = benchmark.name in ("mmie", "opening")
    assert (benchmark.has_picture_answers, benchmark.has_export) == (has_pictures, has_pictures)


@pytest.mark.parametrize("name", ["mia_bench", "mmie", "opening"])
def test_an_example_is_what_its_program_writes(name, monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.syspath_prepend(str(EXAMPLES / name))
    runpy.run_path(str(EXAMPLES / name / "make.py"))["main"](tmp_path / "again")
    written = [path for path in (tmp_path / "again").rglob("*") if path.is_file()]
    assert len(written) > 10
    for path in written:
        bundled = EXAMPLES / name / path.relative_to(tmp_path / "again")
        assert bundled.is_file()
        if path.suffix in (".json", ".jsonl"):  # the bytes of images depend on their encoder
            assert bundled.read_bytes() == path.read_bytes(), "run make.py"
