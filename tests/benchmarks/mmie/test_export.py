"""A run's samples as input of the official script."""

import hashlib
import json
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
from support.mmie_data import conversations_folder, draw

from mmie_tasks.benchmarks.mmie import export
from mmie_tasks.cli import main
from mmie_tasks.core.errors import DataBroken, DataMissing

LOG = "20260101_120000_samples_mmie.jsonl"


@pytest.fixture(autouse=True)
def surroundings(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    conversations_folder(tmp_path / "data")
    draw(tmp_path / "drawn.png")
    monkeypatch.setenv("MMIE_DATA", "data")


def line(sample_id, answer=(), **official):
    official = official or {"points": 4}
    verdicts = {"official": official, "robust": official}
    record = {"id": sample_id, "verdicts": verdicts, "answer": list(answer)}
    return {"doc_id": 0, "record": record}


def log(*lines, name=f"run/{LOG}"):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in lines), encoding="utf-8")
    return path


def exported(*arguments):
    return export.run_export([*arguments], {"MMIE_DATA": "data"})


def written(folder="official"):
    return json.loads(Path(folder, "data.json").read_text(encoding="utf-8"))


STEP = {"text": "Step.", "image": str(Path("drawn.png"))}


def test_a_sample_is_written_as_the_official_script_reads_it():
    log(line("SA-0", [STEP, {"text": None, "image": "gone/x.png", "problem": "missing"}]))
    output = exported("run", "-o", "official", "--model", "ours")
    assert output == "1 samples and 4 images written to `official`."
    (row,) = written()
    assert (row["id"], row["model"], row["category"]) == ("SA-0", "ours", "SA")
    assert row["question"] == [{"text": "Tale 0 begins.", "image": "images/0.png"}]
    assert [part["image"] for part in row["answer"]] == ["images/1.png", "x.png"]
    assert Path("official/images/1.png").read_bytes() == Path("drawn.png").read_bytes()
    assert row["gt_answer"][0]["text"] == "Step 1 of 0."


def test_what_has_no_answer_is_left_out_and_what_is_unscored_is_not():
    log(
        line("SA-0", reason="no_answer"),
        line("PBL-1", [STEP], reason="unavailable"),
        line("MSR-2", [{"text": "4", "image": None}], reason="left_out"),
    )
    output = exported("run", "-o", "official")
    assert "; 1 without an answer were left out" in output
    assert [row["id"] for row in written()] == ["PBL-1", "MSR-2"]


def test_images_that_changed_since_the_run_are_counted():
    judged = hashlib.sha256(Path("drawn.png").read_bytes()).hexdigest()
    log(line("SA-0", [{**STEP, "sha256": judged}]), line("PBL-1", [STEP]))
    assert "changed" not in exported("run", "-o", "same")
    draw(Path("drawn.png"), 7)
    assert "; 1 image of answers changed" in exported("run", "-o", "other")


def test_a_sample_that_is_not_in_the_data_stops_before_anything_is_written():
    log(line("SA-77"))
    with pytest.raises(DataBroken, match="SA-77"):
        exported("run", "-o", "official")
    assert not Path("official").exists()


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.usefixtures("no_network")
def test_without_data_on_this_machine_nothing_is_downloaded_and_the_ways_to_it_are_named():
    log(line("SA-0"))
    with pytest.raises(DataMissing, match=r"`MMIE_DATA`.*`mmie-tasks prefetch mmie`"):
        export.run_export(["run", "-o", "official"], {"MMIE_TASKS_CACHE": "cache"})
    assert not Path("official").exists()


@pytest.mark.usefixtures("no_network")
def test_data_that_was_downloaded_before_is_read_without_a_connection(tmp_path, monkeypatch):
    commit = "a" * 40
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))
    ref = tmp_path / "hub/datasets--MMIE--MMIE/refs/main"
    ref.parent.mkdir(parents=True)
    ref.write_text(commit)
    (tmp_path / f"assets/mmie-tasks/MMIE--MMIE/{commit}").mkdir(parents=True)
    Path("data").rename(tmp_path / f"assets/mmie-tasks/MMIE--MMIE/{commit}/data")
    log(line("SA-0", [STEP]))
    export.run_export(["run", "-o", "official"], {"MMIE_TASKS_CACHE": "cache"})
    assert [row["id"] for row in written()] == ["SA-0"]


def command(monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", "export", *words])
    main()


def test_the_command_says_what_it_did_and_what_is_wrong_in_words(monkeypatch, capsys):
    log(line("SA-0"))
    command(monkeypatch, "mmie", "run", "-o", "official")
    assert capsys.readouterr().out.startswith("1 samples")
    with pytest.raises(SystemExit, match="hint: "):
        command(monkeypatch, "mmie", "run", "-o", "official")
    for words in ([], ["milebench", "run"]):
        with pytest.raises(SystemExit, match="2"):
            command(monkeypatch, *words)
        assert "mmie-tasks export [-h] FORMAT" in capsys.readouterr().err
