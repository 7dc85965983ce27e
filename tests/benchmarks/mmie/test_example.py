"""The bundled example is what its ``make.py`` writes, and shows what it is meant to show."""

import runpy
from pathlib import Path

import pytest

from mmie_tasks.answers.saved import read_answers
from mmie_tasks.benchmarks import model_answers
from mmie_tasks.benchmarks.mmie import request as requests
from mmie_tasks.benchmarks.mmie.data import dataset
from mmie_tasks.benchmarks.mmie.sample import MmieSample
from mmie_tasks.benchmarks.mmie.settings import MmieSettings
from mmie_tasks.record.facts import totals

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "mmie"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(model_answers, "_answer_folders", {})
    model_answers.add_answer_folder(EXAMPLE / "answers")


def test_the_example_is_what_make_writes(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    runpy.run_path(str(EXAMPLE / "make.py"))["main"](tmp_path / "again")
    written = [path for path in sorted((tmp_path / "again").rglob("*")) if path.is_file()]
    assert len(written) > 30
    for again in written:
        path = EXAMPLE / again.relative_to(tmp_path / "again")
        assert again.read_bytes() == path.read_bytes(), "run make.py"


def assembled_requests():
    answers = {one.id: one.answer for one in read_answers([EXAMPLE / "answers"]).answers}
    docs = dataset("all", {"MMIE_DATA": str(EXAMPLE / "data")})
    settings = MmieSettings(prompts=EXAMPLE / "prompts.json")
    return {
        doc["id"]: requests.prepared(MmieSample.from_doc(doc), [answers[doc["id"]]], settings)
        for doc in docs
    }


def test_the_example_has_every_shape_and_every_fate():
    requests = assembled_requests()
    assert {sample_id for sample_id, one in requests.items() if one.request is None} == {
        "PBL-3",
        "MSR-3",
    }
    reasons = [requests[sample_id].record.official.reason for sample_id in ("PBL-3", "MSR-3")]
    assert reasons == ["no_answer", "left_out"]
    assert {
        sample_id for sample_id, one in requests.items() if "truncated" in one.record.facts
    } == {"PBL-2"}
    assert len({one.record.facts["shape"] for one in requests.values()}) == 5
    noted = totals(one.record.facts for one in requests.values())
    assert not {"missing_images", "bad_images", "looks_unread"} & noted.keys()
