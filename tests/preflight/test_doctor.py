"""The whole command on the bundled examples: no network, no GPU, no key."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint, version
from pathlib import Path

import pytest
from support.golden import GOLDEN
from support.judge_server import JudgeServer
from support.transformers_5 import needs_transformers_5

from mmie_tasks.cli import main
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.judges import names
from mmie_tasks.judges.base import Judge, JudgeOptions
from mmie_tasks.preflight.checks import Finding, examine
from mmie_tasks.preflight.doctor import parser

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = GOLDEN / "internvl" / "checkpoint"
KEY = "sk-thisisnotarealkey"
PROMPTS = f"prompts={EXAMPLES / 'mmie' / 'prompts.json'}"


@pytest.fixture(autouse=True)
def _examples(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Data and words of the examples, and caches of their own."""
    settings = {
        "MMIE_DATA": EXAMPLES / "mmie" / "data",
        "MIA_BENCH_DATA": EXAMPLES / "mia_bench" / "data",
        "MILEBENCH_DATA": EXAMPLES / "milebench" / "data",
        "MMIE_TASKS_CACHE": tmp_path / "cache",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("MMIE_TASKS_JUDGE", raising=False)


def run(*arguments: str) -> list[Finding]:
    return list(examine(parser().parse_args(arguments), os.environ))


def report(*arguments: str) -> tuple[int, dict[str, list[Finding]]]:
    """Whether there is a problem, and the findings by subject."""
    findings = run(*arguments)
    by_subject: dict[str, list[Finding]] = {}
    for finding in findings:
        by_subject.setdefault(finding.subject, []).append(finding)
    return int(any(finding.is_problem for finding in findings)), by_subject


def problems(by_subject: dict[str, list[Finding]]) -> list[str]:
    return [
        subject
        for subject, findings in by_subject.items()
        for finding in findings
        if finding.is_problem
    ]


def test_a_benchmark_with_all_assets_has_no_problem() -> None:
    status, findings = report(
        *("--tasks", "mia_bench", "--judge", "replay"),
        *("--judge_args", f"path={EXAMPLES / 'mia_bench' / 'replies.jsonl'}"),
    )
    assert (status, problems(findings)) == (0, [])
    assert "no image is missing" in findings["mia_bench: data"][0].text
    assert "unchanged" in findings["mia_bench: judge prompt"][0].text
    assert "`replay`, named by `--judge`, can be" in findings["mia_bench: judge"][0].text
    assert not any(subject.startswith(("mmie:", "milebench")) for subject in findings)


def test_a_benchmark_that_is_scored_by_rule_needs_no_judge() -> None:
    status, findings = report("--tasks", "milebench_DocVQA")
    assert status == 0
    for name in ("mmie-tasks", "lmms-eval"):
        assert findings[name][0].message == version(name)
    assert ": 58 samples of 29 datasets" in findings["milebench: data"][0].text
    assert "scored by rule" in findings["milebench: judge"][0].text


@needs_transformers_5
def test_the_judge_in_process_is_checked_and_not_loaded() -> None:
    judge = f"mmie_score:{TINY},{PROMPTS}"
    status, findings = report("--tasks", "mmie", "--judge", judge)
    assert (status, problems(findings)) == (0, [])
    assert "rope su" in findings["mmie_score: files"][0].text
    assert "by transformers" in findings["mmie_score: device"][0].text


@pytest.mark.parametrize(
    ("tasks", "judge", "is_checked"),
    [
        pytest.param("mmie", (), True, id="default-judge"),
        pytest.param("mia_bench", ("--judge", f"mmie_score:{TINY}"), True, id="chosen-judge"),
        pytest.param("mmie", ("--judge", "openai:m"), False, id="judge-on-a-server"),
        pytest.param("milebench", ("--judge", f"mmie_score:{TINY}"), False, id="no-judge"),
    ],
)
def test_gpus_are_checked_only_for_a_judge_in_this_process(
    tasks: str, judge: tuple[str, ...], is_checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MMIE_SCORE_MODEL", str(TINY))
    _, findings = report("--tasks", tasks, *judge)
    assert any(subject.startswith("GPU") for subject in findings) == is_checked


@needs_transformers_5
def test_missing_images_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = shutil.copytree(EXAMPLES / "mmie" / "data", tmp_path / "data")
    shutil.rmtree(data / "images")
    monkeypatch.setenv("MMIE_DATA", str(data))
    status, findings = report("--tasks", "mmie", "--judge", f"mmie_score:{TINY}")
    assert (status, problems(findings)) == (1, ["mmie: data"])
    assert "images of MMIE's questions are missing" in findings["mmie: data"][0].text
    assert findings["mmie: data"][0].hint


def test_a_pinned_file_that_is_missing_offline_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENING_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    status, findings = report("--tasks", "opening", "--judge", "replay")
    (data,) = findings["opening: data"]
    assert (status, data.is_problem) == (1, True)
    assert "HF_HUB_OFFLINE" in data.text
    assert "OPENING_DATA" in data.hint


def test_a_server_is_contacted_and_a_key_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    with JudgeServer(key="another") as server:
        args = f"base_url={server.url},cache=off"
        findings = run("--tasks", "mmie", "--judge", "openai:m", "--judge_args", args)
    text = str(findings)
    assert "HTTP 401" in text
    assert KEY not in text


@needs_transformers_5
def test_every_judge_of_a_panel_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    with JudgeServer() as server, JudgeServer(key="another") as closed:
        judges = [f"openai:m,base_url={url}" for url in (server.url, closed.url)]
        judges.append(f"mmie_score:{TINY},{PROMPTS}")
        status, findings = report(
            "--tasks", "mmie", *(word for judge in judges for word in ("--judge", judge))
        )
        assert (server.checks, closed.checks) == (1, 1)
    assert (status, problems(findings)) == (1, ["mmie: judge 2"])
    assert findings["mmie: judge 1"][0].message.startswith(
        "`openai`, named by `--judge`, can be used: "
    )
    assert not findings["mmie: judge 3"][0].is_problem
    assert "mmie_score: files" in findings


def test_a_missing_prompt_is_reported_once_and_the_judge_is_still_checked() -> None:
    options = f"path={EXAMPLES / 'mmie' / 'replies.jsonl'},prompts=/nowhere.json"
    _, findings = report("--tasks", "mmie", "--judge", "replay", "--judge_args", options)
    assert problems(findings) == ["mmie: judge prompts"]


def test_prompts_that_cannot_be_downloaded_do_not_hide_a_missing_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for name in ("JUDGE_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    _, findings = report("--tasks", "mmie", "--judge", "openai:m")
    assert problems(findings) == ["mmie: judge prompts", "mmie: judge"]
    assert "HF_HUB_OFFLINE" in findings["mmie: judge prompts"][0].text
    assert "needs a key" in findings["mmie: judge"][0].text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["--judge", "nobody"], "no judge `nobody`", id="judge"),
        pytest.param(["--judge_args", "x=1"], "needs `--judge`", id="options-alone"),
        pytest.param(
            ["--tasks", "mmie_saa"], r"[\s\S]*hint: there is `mmie_sa`", id="nearest-task"
        ),
        pytest.param(["--judge", "openai:m,base_ulr=x"], "did you mean `base_url`", id="nearest"),
    ],
)
def test_an_invalid_option_is_an_error_before_any_check(arguments: list[str], text: str) -> None:
    with pytest.raises(SettingWrong, match=text):
        run(*arguments)


class BrokenJudge(Judge):
    """A judge of another package that fails wherever `where` says."""

    signature = "judge:broken"

    class Options(JudgeOptions):
        where: str

    def __init__(self, options: Options, _environment: object) -> None:
        self.where = options.where
        if self.where == "factory":
            raise KeyError("sides")

    def check(self, max_images: int = 0) -> None:
        if self.where == "check":
            raise ValueError("no side is up")

    def ask(self, _requests: object) -> Iterator[None]:
        yield from ()


@pytest.mark.parametrize(
    ("where", "text"),
    [("check", "ValueError: no side is up"), ("factory", "KeyError: 'sides'")],
    ids=str,
)
def test_whatever_a_judge_of_another_package_raises_is_a_finding_like_others(
    monkeypatch: pytest.MonkeyPatch, where: str, text: str
) -> None:
    entry = EntryPoint("broken", f"{__name__}:BrokenJudge", names.ENTRY_POINTS)
    monkeypatch.setattr(names, "entry_points", lambda **_group: [entry])
    status, findings = report(
        "--tasks", "mmie,mia_bench", "--judge", f"broken:where={where},{PROMPTS}"
    )
    assert status == 1
    assert problems(findings) == ["mia_bench: judge", "mmie: judge"]
    assert text in findings["mmie: judge"][0].text
    assert findings["mmie: judge"][0].hint
    assert not findings["mmie: data"][0].is_problem


def test_an_invalid_judge_in_the_environment_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "nobody")
    _, findings = report("--tasks", "mmie")
    assert "no judge `nobody`" in findings["mmie: judge"][0].text
    monkeypatch.setenv("MMIE_TASKS_JUDGE", "replay mmei=openai")
    _, findings = report("--tasks", "mmie")
    assert "`mmei`, which is not a benchmark" in findings["MMIE_TASKS_JUDGE"][0].text


def test_the_command_ends_with_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mmie_tasks.core.log.plain_logs", lambda _level: None)
    monkeypatch.setenv("MILEBENCH_DATA", "/nowhere")
    monkeypatch.setattr(sys, "argv", ["mmie-tasks", "doctor", "--tasks", "milebench"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    assert "problem  milebench: data: " in capsys.readouterr().out


def test_saved_answers_are_matched_as_score_takes_them(tmp_path: Path) -> None:
    answers = EXAMPLES / "mmie" / "answers"
    words = ("--tasks", "mmie", "--judge", "replay", "--limit", "4", "--model", "m", "-o", "out")
    saved = tmp_path / "a,b;c.json"
    saved.write_text((answers / "answers.json").read_text(encoding="utf-8"), encoding="utf-8")
    all_here, none_here = (
        f"mmie: answers 4 of 4, images {count}" for count in ("2 of 2", "0 of 2")
    )
    for more in ((answers,), (saved, "--images", answers)):
        findings = run(*words, *map(str, more))
        assert (findings[-1].text, findings[-1].is_problem) == (all_here, False)
    finding = run(*words, str(saved))[-1]
    assert finding.text.startswith(none_here)
    assert finding.is_problem
    assert "--images FOLDER" in finding.hint
    finding = run(*words, str(saved), "--missing", "count")[-1]
    assert (finding.text, finding.is_problem) == (none_here, False)
    assert run(*words, "nowhere.json")[-1].is_problem


def test_a_task_without_an_answer_to_each_sample_is_a_problem(tmp_path: Path) -> None:
    saved = tmp_path / "a.json"
    saved.write_text('{"MSR-4": "A fox.", "x": "B"}', encoding="utf-8")
    finding = run(str(saved), "--tasks", "mmie", "--judge", "replay")[-1]
    assert finding.text.startswith("mmie: answers 1 of 11, images 0 of 0; 1 have an id")
    assert finding.is_problem
    assert "`x`" in finding.text
    assert "--missing count" in finding.hint
