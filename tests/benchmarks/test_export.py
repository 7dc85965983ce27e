"""Exports: which samples of which run, and what the official scripts of MMIE and OpenING read."""

import hashlib
import json
import socket
import sys
from pathlib import Path

import huggingface_hub
import pytest
from support.mmie_data import conversations_folder, draw
from support.opening_data import reply

from mmie_tasks.benchmarks import registry
from mmie_tasks.benchmarks.export_run import exported_run
from mmie_tasks.benchmarks.mmie.export import run_export
from mmie_tasks.benchmarks.opening.export import run_export as run_export_of_opening
from mmie_tasks.cli import main
from mmie_tasks.core.errors import AnswersUnusable, DataBroken, DataMissing

LOG = "20260101_120000_samples_mmie.jsonl"
OPENING_LOG = "20260101_120000_samples_opening.jsonl"


@pytest.fixture(autouse=True)
def work(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    conversations_folder(tmp_path / "data")
    draw(tmp_path / "drawn.png")
    monkeypatch.setenv("MMIE_DATA", "data")


def line(sample_id, answer=(), reason=None, **record):
    verdict = {"reason": reason} if reason else {"points": 4}
    verdicts = {"official": verdict, "robust": verdict}
    fields = {"id": sample_id, "verdicts": verdicts, "answer": list(answer), **record}
    return {"doc_id": 0, "record": fields}


def log(*lines, name=f"run/{LOG}"):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in lines), encoding="utf-8")
    return path


# Which samples of which run


def exported(*arguments):
    return exported_run("mmie", [*arguments, "-o", "x"], description="", output="")


def records(run="run"):
    return exported(run).records


def test_of_several_logs_of_a_task_the_newest_and_those_of_its_parts_count(monkeypatch):
    log(line("SA-0"), line("SA-1"), name="run/20240101_000000_samples_mmie.jsonl")
    log(line("SA-3"), name="run/20250101_000000_samples_mmie.jsonl")
    log(line("SA-1"))
    log(line("SA-2"), name="run/20250101_000000_samples_mmie_msr.jsonl")
    log(line("SA-4"), name="run/20250101_000000_samples_mmie_x_hard.jsonl")
    monkeypatch.setattr(registry, "_plugins", lambda _path: [("mmie_x", "mmie_x.benchmark:X")])
    assert set(records()) == {"SA-1", "SA-2", "SA-3"}


def test_a_sample_of_two_tasks_may_have_its_reply_from_the_cache():
    for name, cached in (("mmie", False), ("mmie_msr", True)):
        result = {"reply": {"text": "5", "model": "m", "cached": cached}}
        verdicts = line("SA-1")["record"]["verdicts"]
        judgement = {"judge": {}, "result": result, "verdicts": verdicts}
        judged = line("SA-1", judgements=[judgement])
        log(judged, name=f"run/20250101_000000_samples_{name}.jsonl")
    (record,) = records().values()
    assert [reply.text for reply in record.replies] == ["5"]


def test_a_last_line_that_was_cut_off_is_left_out_with_a_warning(logs):
    path = log(line("SA-0"))
    path.write_text(path.read_text() + '{"doc_id": 1, "cov')
    assert list(records()) == ["SA-0"]
    assert "line 2, the last, is cut off" in logs[0]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([], "no samples of mmie", id="empty"),
        pytest.param([{"doc_id": 0, "bypass": 999}], "line 1: no record under", id="predict-only"),
        pytest.param(
            [line("A"), line("A", [{"text": "a"}])], "another answer or reply to A", id="two"
        ),
    ],
)
def test_lines_that_are_not_samples_of_one_run_are_an_error(lines, expected):
    log(*lines)
    with pytest.raises(AnswersUnusable, match=expected):
        records()


def test_a_folder_has_exactly_one_run_of_the_benchmark():
    log(line("SA-0"), name=f"runs/other/{OPENING_LOG}")
    with pytest.raises(AnswersUnusable, match="0 runs of mmie"):
        records("runs")
    log(line("SA-0"), name=f"runs/a/{LOG}")
    assert list(records("runs")) == ["SA-0"]
    log(line("SA-0"), name=f"runs/b/{LOG}")
    with pytest.raises(AnswersUnusable, match="2 runs of mmie"):
        records("runs")


def test_a_run_has_the_name_that_is_given_or_that_of_its_tested_model():
    log(line("SA-0"), name=f"out/my-model-2.5/{LOG}")
    path = str(log(line("SA-0"), name=f"other/{LOG}"))
    results = json.dumps({"model_name": "org/another"})
    Path("other/20260101_120000_results.json").write_text(results)
    assert [exported(run).model for run in ("out", path)] == ["my-model-2.5", "another"]
    assert exported(path, "--model", "A").model == "A"


# MMIE

STEP = {"text": "Step.", "image": "drawn.png"}


def export(*more, output="official", **environment):
    return run_export(["run", "-o", output, *more], environment or {"MMIE_DATA": "data"})


def written():
    return json.loads(Path("official/data.json").read_text(encoding="utf-8"))


def test_a_sample_is_written_as_the_official_script_reads_it():
    log(line("SA-0", [STEP, {"text": None, "image": "gone/x.png", "problem": "missing"}]))
    assert export("--model", "ours") == "1 samples and 4 images written to `official`."
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
    assert "; 1 without an answer were left out" in export()
    assert [row["id"] for row in written()] == ["PBL-1", "MSR-2"]


def test_images_that_changed_since_the_run_are_counted():
    judged = hashlib.sha256(Path("drawn.png").read_bytes()).hexdigest()
    log(line("SA-0", [{**STEP, "sha256": judged}]), line("PBL-1", [STEP]))
    assert "changed" not in export(output="same")
    draw(Path("drawn.png"), 7)
    assert "; 1 image of answers changed" in export(output="other")


def test_a_sample_that_is_not_in_the_data_stops_before_anything_is_written():
    log(line("SA-77"))
    with pytest.raises(DataBroken, match="SA-77"):
        export()
    assert not Path("official").exists()


def test_data_is_read_where_it_was_downloaded_and_never_downloaded(tmp_path, monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_ASSETS_CACHE", str(tmp_path / "assets"))
    log(line("SA-0", [STEP]))
    with pytest.raises(DataMissing, match=r"`MMIE_DATA`.*`mmie-tasks prefetch mmie`"):
        export(MMIE_TASKS_CACHE="cache")
    assert not Path("official").exists()
    ref = tmp_path / "hub/datasets--MMIE--MMIE/refs/main"
    ref.parent.mkdir(parents=True)
    ref.write_text("a" * 40)
    folder = tmp_path / f"assets/mmie-tasks/MMIE--MMIE/{'a' * 40}"
    folder.mkdir(parents=True)
    Path("data").rename(folder / "data")
    export(MMIE_TASKS_CACHE="cache")
    assert [row["id"] for row in written()] == ["SA-0"]


def test_the_command_says_what_it_did_and_what_is_wrong_in_words(monkeypatch, capsys):
    def command(*words):
        monkeypatch.setattr(sys, "argv", ["mmie-tasks", "export", *words])
        main()

    log(line("SA-0"))
    command("mmie", "run", "-o", "official")
    assert capsys.readouterr().out.startswith("1 samples")
    with pytest.raises(SystemExit, match="hint: "):
        command("mmie", "run", "-o", "official")
    for words in ([], ["milebench", "run"]):
        with pytest.raises(SystemExit, match="2"):
            command(*words)
        assert "mmie-tasks export [-h] FORMAT" in capsys.readouterr().err


# OpenING


def judged(uid, *replies, judges=1):
    answered = ({"text": text, "model": "m"} for text in replies)
    judgement = {
        "judge": {"judges": [{"judge": "a"}]},
        "result": dict(zip(("reply", "second_reply"), answered, strict=False)),
        "verdicts": line(uid)["record"]["verdicts"],
    }
    return line(uid, judgements=[judgement] * judges)


def test_the_replies_that_openings_summary_can_read_are_written():
    wrapped = json.dumps({"scores": json.loads(reply(7))})  # the summary drops it
    lines = [
        judged("0101001", reply(7)),
        judged("0101002", "no", reply(8)),  # asked twice
        judged("0101003", wrapped),
        judged("0101004", "7"),  # it would end the summary
        judged("0101005"),
    ]
    log(*lines, name=f"a/{OPENING_LOG}")
    assert "3 of 5 samples of A" in run_export_of_opening(["a", "-o", ".", "--model", "A"], {})
    entries = json.loads(Path("gpt-score_results.json").read_text(encoding="utf-8"))
    assert entries == [
        {"data_id": f"010100{n}", "model": {"id": "0", "name": "A"}, "score": json.loads(text)}
        for n, text in enumerate((reply(7), reply(8), wrapped), 1)
    ]


def test_a_run_of_several_judges_cannot_be_exported_for_opening():
    log(judged("0101001", reply(7), judges=2), name=f"a/{OPENING_LOG}")
    with pytest.raises(AnswersUnusable, match="several judges"):
        run_export_of_opening(["a", "-o", "."], {})
