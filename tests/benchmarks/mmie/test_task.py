"""The functions the YAML names, without the runner's evaluator and with a judge of ours."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest
from PIL import Image
from support.judgements import result_of
from support.logged_records import signature_of
from support.mmie_data import conversations_folder, in_file_order
from support.mmie_judge import surround
from support.settings import change

from mmie_tasks.benchmarks.mmie import benchmark, data
from mmie_tasks.core.errors import DataMissing
from mmie_tasks.drawing import protocol
from mmie_tasks.hub.run_images import ImageOpener


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    surround(monkeypatch, tmp_path)
    monkeypatch.setenv("MMIE_DATA", str(conversations_folder(tmp_path / "data")))
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "openai:nobody,base_url=http://127.0.0.1:9/v1,cache=off")
    monkeypatch.setattr(benchmark.BENCHMARK, "opener", ImageOpener())


@pytest.fixture
def docs():
    """The samples in the order of the file."""
    return in_file_order(benchmark.process_docs(SimpleNamespace(config_name="all")))


def test_the_tested_model_is_shown_the_question_with_its_images_in_their_places(docs):
    (turn,) = benchmark.doc_to_messages(docs[2], {"pre_prompt": "<", "post_prompt": ">"})
    first, image, last = turn["content"]
    assert (first["text"], last["text"]) == ("<Tale 2 begins.\n", "\nHow much is 2 and 2?>")
    assert isinstance(image["url"], Image.Image)


def test_wrappers_that_take_text_and_images_apart_get_a_mark_at_the_place_of_each_file(docs):
    assert benchmark.doc_to_text(docs[2]) == "Tale 2 begins.\n<image>\nHow much is 2 and 2?"
    labelled = benchmark.doc_to_text(docs[2], {"image_token": "[image {n}]"})
    assert labelled == "Tale 2 begins.\n[image 1]\nHow much is 2 and 2?"
    assert len(benchmark.doc_to_visual(docs[2])) == 1
    assert benchmark.doc_to_target(docs[2]) == "4"
    Path(docs[2]["question"][0]["image"]).unlink()
    assert benchmark.doc_to_text(docs[2]) == "Tale 2 begins.\nHow much is 2 and 2?"
    assert benchmark.doc_to_visual(docs[2]) == []


@pytest.mark.parametrize(("selection", "name"), data.TASKS.items())
def test_the_samples_of_a_selection_name_their_task(selection, name):
    docs = benchmark.process_docs(SimpleNamespace(config_name=selection))
    assert set(docs["task"]) == {name}


def test_the_step_task_asks_for_the_images_that_the_judge_can_see_and_its_signature_says_so(docs):
    steps = in_file_order(benchmark.process_docs(SimpleNamespace(config_name="step")))
    asked = protocol.instruction(2)
    for doc, limit in zip(steps.select(range(3)), (2, 2, 0), strict=True):  # SA, PBL, MSR
        assert benchmark.BENCHMARK.picture_limit(doc) == limit
        assert benchmark.doc_to_text(doc).endswith(asked) is bool(limit)
    assert asked not in benchmark.doc_to_text(docs[0])
    of_step, of_all = (str(benchmark.BENCHMARK.signature(d[0])) for d in (steps, docs))
    assert f"|answers:{protocol.SIGNATURE}" in of_step
    assert "|answers:" not in of_all


def test_missing_images_stop_the_run_unless_they_are_to_be_counted(docs, monkeypatch):
    benchmark.BENCHMARK.check_data(docs)
    Path(docs[0]["question"][0]["image"]).unlink()
    with pytest.raises(DataMissing, match=r"1 images of MMIE's questions .* sample SA-0"):
        benchmark.BENCHMARK.check_data(docs)
    change(monkeypatch, benchmark.BENCHMARK, missing_images="count")
    benchmark.BENCHMARK.check_data(docs)
    record = benchmark.BENCHMARK.prepared(docs[0], ["a"]).record
    assert record.facts["missing_images"] == 1


def test_a_judge_or_words_that_nobody_checked_cost_the_scores_only(docs, monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "nobody:nothing")
    rows = dict(benchmark.process_results(docs[0], ["Plain."]).items())
    assert rows["official"]["unscored"] == "unavailable"
    change(monkeypatch, benchmark.BENCHMARK, prompts=Path("nowhere.json"))
    rows = benchmark.process_results(docs[0], ["Plain."])
    assert rows["official"]["unscored"] == "unavailable"
    assert signature_of(rows["record"]).startswith("judge:unknown|why:")


def test_a_reply_that_ran_into_its_limit_is_read_officially_only():
    verdicts = benchmark.grade(result_of("### Score\n4", finish="length"))
    assert (verdicts.official.points, verdicts.robust.reason) == (4, "cut_off")


def test_the_floor_of_coverage_is_a_setting_that_the_signature_names(docs, monkeypatch):
    rows = [{"points": 4.0, "score": 66.7}, {"points": 3.0, "score": 50.0}, {"unscored": "refused"}]
    assert math.isnan(benchmark.percent(rows))
    assert benchmark.percent([{**row, "min_coverage": 0.5} for row in rows]) == 58.33
    assert "min_coverage" not in str(benchmark.BENCHMARK.signature(docs[0]))
    change(monkeypatch, benchmark.BENCHMARK, min_coverage=0.5)
    assert "|min_coverage:0.5|pkg:" in str(benchmark.BENCHMARK.signature(docs[0]))
    assert "min_coverage" not in benchmark.BENCHMARK.provenance(docs[0])
    rows = benchmark.process_results(docs[0], ["[NO_ANSWER] x"])
    assert rows["official"]["min_coverage"] == 0.5
