"""The whole command on the bundled examples: no network, no GPU, no key."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest
from support.golden import GOLDEN
from support.judge_server import JudgeServer
from support.judges import WordJudge
from support.transformers_5 import needs_transformers_5

from mmie_tasks.benchmarks.mia_bench.benchmark import BENCHMARK
from mmie_tasks.benchmarks.task_files import read_task_files
from mmie_tasks.cli import main
from mmie_tasks.core.errors import DataMissing, SettingWrong
from mmie_tasks.hub.asset import Asset, Check, DownloadPlan
from mmie_tasks.judges import names
from mmie_tasks.preflight.checks import asset_findings, check_task_file, examine
from mmie_tasks.preflight.doctor import parser
from mmie_tasks.preflight.finding import Finding, checked

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = GOLDEN / "internvl" / "checkpoint"
KEY = "sk-thisisnotarealkey"
PROMPTS = f"prompts={EXAMPLES / 'mmie' / 'prompts.json'}"
IN_PROCESS = ("--judge", f"mmie_score:{TINY},{PROMPTS}")


@pytest.fixture(autouse=True)
def _examples(monkeypatch, tmp_path):
    """Data and words of the examples, and caches of their own."""
    for name in ("mmie", "mia_bench", "milebench"):
        monkeypatch.setenv(f"{name.upper()}_DATA", str(EXAMPLES / name / "data"))
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    for name in ("MMIE_TASKS_JUDGE", "JUDGE_API_KEY", "OPENAI_API_KEY", "OPENING_DATA"):
        monkeypatch.delenv(name, raising=False)


def run(*arguments):
    """The first finding on each subject, or its problem."""
    findings = list(examine(parser().parse_args(arguments), os.environ))
    by_subject = {one.subject: one for one in reversed(findings)}
    return by_subject | {one.subject: one for one in findings if one.hint}


def problems(findings):
    return sorted(subject for subject, finding in findings.items() if finding.hint)


def test_a_benchmark_with_all_assets_has_no_problem():
    replies = f"path={EXAMPLES / 'mia_bench' / 'replies.jsonl'}"
    findings = run("--tasks", "mia_bench", "--judge", "replay", "--judge_args", replies)
    assert problems(findings) == []
    assert findings["lmms-eval"].message == version("lmms-eval")
    assert "no image is missing" in findings["mia_bench: data"].text
    assert "unchanged" in findings["mia_bench: judge prompt"].text
    assert "`replay`, named by `--judge`, can be" in findings["mia_bench: judge"].text
    assert not any(subject.startswith(("mmie:", "milebench")) for subject in findings)


def test_a_benchmark_that_is_scored_by_rule_needs_no_judge():
    findings = run("--tasks", "milebench_DocVQA", *IN_PROCESS)
    assert problems(findings) == []
    assert ": 58 samples of 29 datasets" in findings["milebench: data"].text
    assert "scored by rule" in findings["milebench: judge"].text
    assert "GPU" not in findings


@needs_transformers_5
def test_the_judge_in_process_is_checked_with_its_gpus_and_not_loaded():
    findings = run("--tasks", "mmie", *IN_PROCESS)
    assert problems(findings) == []
    assert "rope su" in findings["mmie_score: files"].text
    assert "by transformers" in findings["mmie_score: device"].text
    assert "GPU" in findings


def test_missing_images_are_counted(tmp_path, monkeypatch):
    data = shutil.copytree(EXAMPLES / "mmie" / "data", tmp_path / "data")
    shutil.rmtree(data / "images")
    monkeypatch.setenv("MMIE_DATA", str(data))
    finding = run("--tasks", "mmie", "--judge", "replay")["mmie: data"]
    assert "images of MMIE's questions are missing" in finding.text
    assert finding.hint


def test_each_judge_of_a_panel_is_contacted_and_no_key_is_printed(monkeypatch):
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    with JudgeServer() as server, JudgeServer(key="another") as closed:
        judges = (f"openai:m,base_url={one.url},{PROMPTS}" for one in (server, closed))
        findings = run("--tasks", "mmie", *(word for one in judges for word in ("--judge", one)))
        assert (server.checks, closed.checks) == (1, 1)
    assert problems(findings) == ["mmie: judge 2"]
    assert findings["mmie: judge 1"].message.startswith("`openai`, named by `--judge`, can be used")
    assert "HTTP 401" in findings["mmie: judge 2"].message
    assert KEY not in str(findings)


def test_missing_prompts_are_reported_once_and_do_not_hide_a_missing_key():
    findings = run("--tasks", "mmie", "--judge", "openai:m,prompts=/nowhere.json")
    assert problems(findings) == ["mmie: judge", "mmie: judge prompts"]
    assert "needs a key" in findings["mmie: judge"].text


def test_a_pinned_file_that_is_missing_offline_is_a_problem(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    data = run("--tasks", "opening", "--judge", "replay")["opening: data"]
    assert "HF_HUB_OFFLINE" in data.text
    assert "OPENING_DATA" in data.hint


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--judge", "nobody"], "no judge `nobody`", id="judge"),
        pytest.param(["--tasks", "mmie_saa"], r"[\s\S]*hint: there is `mmie_sa`", id="task"),
        pytest.param(["a.json"], "need their tasks", id="answers-without-tasks"),
    ],
)
def test_an_invalid_option_is_an_error_before_any_check(arguments, text):
    with pytest.raises(SettingWrong, match=text):
        run(*arguments)


@pytest.mark.parametrize("method", ["check", "__init__"])
def test_whatever_a_judge_of_another_package_raises_is_a_finding(monkeypatch, method):
    def fails(*_arguments, **_options):
        raise KeyError("sides")

    entry = EntryPoint("word", "support.judges:WordJudge", names.ENTRY_POINTS)
    monkeypatch.setattr(names, "entry_points", lambda **_group: [entry])
    monkeypatch.setattr(WordJudge, method, fails)
    findings = run("--tasks", "mmie,mia_bench", "--judge", f"word:word=a,{PROMPTS}")
    assert problems(findings) == ["mia_bench: judge", "mmie: judge"]
    assert "KeyError: 'sides'" in findings["mmie: judge"].text


def test_an_invalid_judge_in_the_environment_is_a_problem(monkeypatch):
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "nobody")
    assert "no judge `nobody`" in run("--tasks", "mmie")["mmie: judge"].text
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "replay mmei=openai")
    assert "`mmei`, which is not a bench" in run("--tasks", "mmie")["MMIE_TASKS_JUDGE"].text


def test_the_command_has_a_status_and_shows_an_example_in_one_line(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)
    answers = tmp_path / "a.csv"
    answers.write_text("id,answer\n1,B\n")
    monkeypatch.setattr(sys, "argv", ["", "doctor", str(answers), "--tasks", "milebench"])
    with pytest.raises(SystemExit) as ended:
        main()
    printed = capsys.readouterr().out
    example = '{"id": "ID", "answer": "Fold it. <image> Cut it. <image>", "images": ["1.png", "2'
    assert ended.value.code == 1
    for words in ("\nproblem  answers: ", f"\n         {example}", "Problems: 1."):
        assert words in printed


# Saved answers


WORDS = ("--tasks", "mmie", "--judge", "replay", "--model", "m", "-o", "out")


def test_saved_answers_are_matched_as_score_takes_them(tmp_path):
    answers = EXAMPLES / "mmie" / "answers"
    saved = shutil.copy(answers / "answers.json", tmp_path / "a,b;c.json")
    all_here = "answers 4 of 4, images 4 of 4"
    elsewhere = f"{all_here}; 4 found in `{answers / 'images'}`"
    for more, message in (((answers,), all_here), ((saved, "--images", answers), elsewhere)):
        finding = run(*WORDS, "--limit", "4", *map(str, more))["mmie"]
        assert finding == Finding("mmie", message)
    missing = "answers 4 of 4, images 0 of 4; 2 in Markdown missing"
    finding = run(*WORDS, "--limit", "4", str(saved))[f"mmie: {missing}"]
    assert "--images FOLDER" in finding.hint
    finding = run(*WORDS, "--limit", "4", str(saved), "--missing", "count")["mmie"]
    assert finding == Finding("mmie", missing)
    assert run(*WORDS, "nowhere.json")["answers"].hint
    without_key = run(*WORDS, "--limit", "4", str(answers), "--t2i", "images:gpt-image-2")
    assert without_key["drawer"].hint


def test_a_missing_answer_is_a_problem_and_a_line_that_was_cut_off_is_named(tmp_path):
    saved = tmp_path / "a.jsonl"
    saved.write_text('{"id": "MSR-4", "answer": "A."}\n{"id": "x", "answer": "B"}\n{"id": "MS')
    findings = run(str(saved), *WORDS)
    (subject,) = (subject for subject in findings if subject.startswith("mmie: answers 1 of 11"))
    assert subject.endswith("images 0 of 0")
    assert "10 of 11 samples of `mmie`" in findings[subject].message
    assert "--missing count" in findings[subject].hint
    assert findings["answers"].message.endswith("line 3, the last, is cut off and was left out")


# Assets and task files


def asset(name, *checks, is_here=True):
    return Asset(
        name=name,
        source="MMIE",
        folder=Path("/"),
        is_here=lambda: is_here,
        plan=lambda: DownloadPlan(source="MMIE", size_bytes=3 * 2**20),
        fetch=lambda: "is here",
        checks=checks,
    )


def test_a_shared_check_runs_once_and_only_if_all_its_assets_are_here():
    check = Check(subject="data", describe=lambda: "2 samples.")
    one, other = asset("data, part 0", check), asset("data, part 1", check)
    assert list(asset_findings([one, other])) == [Finding("data", "2 samples")]
    here, missing = asset_findings([one, asset("data, part 1", check, is_here=False)])
    assert here == Finding("data, part 0", "MMIE is here")
    assert missing == Finding("data, part 1", "MMIE: to fetch: 3.0 MiB, by the first run")


def test_the_checks_of_an_asset_end_with_the_first_problem():
    def fails():
        raise DataMissing("Two images are missing.", hint="download them")

    checks = [Check(subject=name, describe=fails) for name in ("files", "memory")]
    problem = Finding("files", "Two images are missing", "download them")
    assert list(asset_findings([asset("checkpoint", *checks)])) == [problem]
    with pytest.raises(ZeroDivisionError):  # not ours, and not hidden
        list(checked("data", lambda: str(1 // 0)))


TASK = """
task: sketch
process_results: !function {function}
metric_list:
  - metric: {metric}
"""


@pytest.mark.parametrize(
    ("function", "metric", "named"),
    [
        pytest.param("mmie_tasks.benchmarks.mmie.benchmark.percent", "robust", "", id="right"),
        pytest.param("own.score", "robust", "", id="a-file-next-to-it"),
        pytest.param("mmie_tasks.benchmarks.mmie.benchmark.pct", "official", "`pct`", id="name"),
        pytest.param("no.such.module.percent", "official", "ModuleNotFoundError", id="module"),
        pytest.param("broken.score", "official", "ZeroDivisionError", id="broken-file"),
        pytest.param("own.score", "official_speed", "`official_speed`", id="metric"),
    ],
)
def test_a_task_file_that_cannot_run_is_named(tmp_path, function, metric, named):
    (tmp_path / "own.py").write_text("def score(): ...", encoding="utf-8")
    (tmp_path / "broken.py").write_text("1 / 0", encoding="utf-8")
    text = TASK.format(function=function, metric=metric)
    (tmp_path / "_shared").write_text(text, encoding="utf-8")
    (tmp_path / "sketch.yaml").write_text("include: _shared\ntask: sketch", encoding="utf-8")
    file = read_task_files(tmp_path)["sketch"]
    findings = list(checked("sketch", lambda: check_task_file(file, BENCHMARK)))
    assert len(findings) == bool(named)
    assert all(named.strip("`") in finding.message for finding in findings)
