"""``doctor --model interleaved --model_args``: writer, drawer, words and numbers."""

from __future__ import annotations

import pytest
from support.judge_server import JudgeServer
from support.mmie_data import conversations_folder

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.interleaved.protocols import STEP
from mmie_tasks.preflight.arguments import doctor_parser
from mmie_tasks.preflight.doctor import examine
from mmie_tasks.runner.pair_check import check_pair, workload

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("MMIE_DATA", str(conversations_folder(tmp_path / "data")))
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    for name in ("OPENAI_API_KEY", "OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)


def findings(model_args, *tasks):
    return [
        (finding.subject, finding.status, finding.message)
        for finding in check_pair(model_args, tasks)
    ]


def test_a_pair_that_works_is_shown_with_its_words_and_numbers():
    with (
        JudgeServer("A.", check=None, closes=True) as writer,
        JudgeServer(models=("image-model",)) as drawer,
    ):
        address = writer.url.replace("://", "://me:secret@")
        found = findings(
            f"lvlm=openai:model=judge-model;base_url={address},"
            f"t2i=images:image-model;base_url={drawer.url};price=0.5"
        )
        assert not len(drawer)
        assert not len(writer)
    assert {status for _, status, _ in found} == {"ok"}, found
    assert f"at {writer.url}" in found[0][2]
    assert [subject for subject, *_ in found] == ["writer", "drawer", "mmie: words"]
    words = found[-1][2]
    assert STEP.instruction(2) in words
    assert "begins." in words
    assert "6 requests to the writer and at most 8 pictures" in words
    assert "at most 4.00 USD" in words


@pytest.mark.parametrize(
    ("model_args", "subject", "words"),
    [
        pytest.param("lvlm=dummmy,t2i=self", "model interleaved", "dummmy", id="arguments"),
        pytest.param("lvlm=openai:model=m,t2i=self", "writer", "needs a key", id="key"),
        pytest.param(
            f"lvlm=openai:model=m;base_url={NOWHERE},t2i=self",
            "writer",
            "not reachable",
            id="server",
        ),
        pytest.param(
            f"lvlm=dummy,t2i=images:m;base_url={NOWHERE}", "drawer", "not reachable", id="drawer"
        ),
        pytest.param("lvlm=dummy,t2i=diffusers:/nowhere", "drawer", "model_index.json", id="files"),
    ],
)
def test_what_a_run_would_fail_of_is_a_problem(model_args, subject, words):
    found = findings(model_args, "mia_bench")  # a task without words
    problems = [finding for finding in found if finding[1] == "problem"]
    assert [finding[0] for finding in problems] == [subject]
    assert words in problems[0][2]


def test_words_of_a_task_without_data_are_a_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("MMIE_DATA", str(tmp_path / "none"))
    (*_, words) = check_pair("lvlm=dummy,t2i=self", ["mmie_sa"])
    assert (words.subject, words.status) == ("mmie_sa: words", "problem")
    assert str(tmp_path / "none") in words.message
    assert "MMIE_DATA" in words.hint


def test_prices_that_nobody_named_are_not_known():
    assert workload([1, 2], lambda limit: limit, None) == (
        "2 requests to the writer and at most 3 pictures; price not known"
    )
    assert workload([1], lambda limit: limit, 0).endswith("; no picture is paid for")


@pytest.mark.parametrize("words", [["openai", "--model_args", "model=m"], ["qwen2_5_vl"]])
def test_doctor_checks_no_other_model(words):
    with pytest.raises(SettingWrong):
        examine(doctor_parser().parse_args(["--model", *words]), {}, lambda *_: [])
