"""What a command line names and cannot be used ends the run before the runner is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mmie_tasks.benchmarks.registry import benchmark_of_task
from mmie_tasks.core.errors import AnswersUnusable, DataMissing, MmieTasksError, SettingWrong
from mmie_tasks.judges.choice import ChosenJudges
from mmie_tasks.runner.command_inputs import check_command_line

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
LOG = "20261101_000000_samples_{}.jsonl"


def log_line(sample_id: str) -> str:
    line = {"doc_id": 0, "resps": [["A"]], "filtered_resps": ["A"], "coverage": {"id": sample_id}}
    return json.dumps(line) + "\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with saved answers."""
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "scores.json").write_text('{"accuracy": 0.5}')
    (tmp_path / "plain.jsonl").write_text('{"id": "1", "answer": "A"}\n')
    for task in ("mia_bench", "milebench_DocVQA", "mme"):
        (tmp_path / "out" / task).mkdir(parents=True)
        (tmp_path / "out" / task / LOG.format(task)).write_text(log_line("1"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(words: str, **environment: str) -> None:
    data = {
        "MIA_BENCH_DATA": str(EXAMPLES / "mia_bench" / "data"),
        "MILEBENCH_DATA": str(EXAMPLES / "milebench" / "data"),
        "MMIE_TASKS_CACHE": "cache",
        "HF_HUB_OFFLINE": "1",
    }
    check_command_line(words.split(), {**data, **environment}, {})


SAVED = "--model predictions --model_args path={} --tasks {}"
NOWHERE = "/not/there"


@pytest.mark.parametrize(
    ("words", "error", "names"),
    [
        pytest.param(
            SAVED.format("nowhere", "mia_bench"), AnswersUnusable, ["nowhere"], id="no-such-path"
        ),
        pytest.param(
            SAVED.format("empty.jsonl", "mia_bench"), AnswersUnusable, ["empty.jsonl"], id="empty"
        ),
        pytest.param(
            SAVED.format("scores.json", "theirs"), AnswersUnusable, ["scores.json"], id="no-answers"
        ),
        pytest.param(
            SAVED.format("out/mia_bench", "theirs,milebench_DocVQA"),
            AnswersUnusable,
            ["None of the 1 ", "`milebench_DocVQA`", "`mia_bench`", "--tasks mia_bench"],
            id="log-of-another-benchmark",
        ),
        pytest.param("--tasks opening", SettingWrong, ["--model NAME"], id="no-model"),
        pytest.param(
            "eval --model qwen2_5_vl --task opening",
            DataMissing,
            ["HF_HUB_OFFLINE", "OPENING_DATA"],
            id="offline-without-data",
        ),
    ],
)
def test_inputs_that_cannot_be_used_are_refused(
    words: str, error: type[MmieTasksError], names: list[str]
) -> None:
    with pytest.raises(error) as refusal:
        check(words)
    assert all(name in str(refusal.value) for name in names)


@pytest.mark.parametrize("tasks", ["milebench", "mme,milebench_DocVQA"])
def test_a_folder_of_data_that_does_not_exist_is_refused(tasks: str) -> None:
    with pytest.raises(DataMissing, match=f"`MILEBENCH_DATA` is `{NOWHERE}`"):
        check(f"--model qwen2_5_vl --tasks {tasks}", MILEBENCH_DATA=NOWHERE)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param("eval", id="wizard"),
        pytest.param("tasks list", id="another-command"),
        pytest.param("--model theirs --tasks opening --help", id="help"),
        pytest.param("--model theirs --tasks opening -h", id="short-help"),
        pytest.param("--model theirs --tasks opening --predict_only", id="no-judge-prompts-needed"),
        pytest.param("--model theirs --tasks opening -x", id="short-predict-only"),
        pytest.param("--model theirs --tasks opening --predict", id="abbreviated-option"),
        pytest.param(
            "--model theirs --tasks opening --include_path .", id="own-task-files-may-come-first"
        ),
        pytest.param("--model theirs --tasks opening --config runs.yaml", id="options-in-a-file"),
        pytest.param(
            "--model theirs --tasks opening_*,opening.yaml,opening_own",
            id="pattern-file-and-own-task",
        ),
        pytest.param("--model theirs --tasks mia_bench", id="data-is-here"),
        pytest.param(SAVED.format("out/mia_bench", "milebench*,theirs"), id="log-for-a-pattern"),
        pytest.param(SAVED.format("out/milebench_DocVQA", "milebench"), id="log-of-a-smaller-task"),
        pytest.param(SAVED.format("plain.jsonl", "mia_bench"), id="answers-without-a-task"),
        pytest.param(SAVED.format(".", "mia_bench,milebench"), id="logs-of-all-tasks"),
        pytest.param(
            SAVED.format("out/mme", "mia_bench"), id="log-of-a-task-that-may-be-the-users"
        ),
    ],
)
def test_what_may_work_is_left_to_the_runner(words: str) -> None:
    check(words)


@pytest.mark.parametrize(
    "variables",
    [
        pytest.param({"MMIE_TASKS_OVERRIDE": "0"}, id="built-in-tasks-of-the-same-name"),
        pytest.param({"LMMS_EVAL_PLUGINS": "theirs"}, id="plugin-of-the-runner"),
        pytest.param({"RANK": "1"}, id="not-the-first-process"),
        pytest.param({"HF_HUB_OFFLINE": "0"}, id="data-can-be-downloaded"),
    ],
)
def test_the_environment_may_leave_the_data_to_the_runner(variables: dict[str, str]) -> None:
    check("--model theirs --tasks opening", **variables)


def test_a_folder_with_the_name_of_a_task_has_task_files(folder: Path) -> None:
    (folder / "opening").mkdir()
    with pytest.raises(SettingWrong, match="`opening`"):
        check("--model theirs --tasks opening")
    (folder / "opening" / "theirs.yaml").touch()
    check("--model theirs --tasks opening")


def test_mmie_tasks_refuses_before_it_imports_the_runner(tmp_path: Path) -> None:
    code = """
import sys
from mmie_tasks.cli import main
sys.argv[1:] = "eval --model predictions --model_args path=nowhere --tasks mia_bench".split()
try:
    main()
finally:
    print(sys.modules.keys() & {"lmms_eval", "torch", "datasets"})
"""
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (1, "set()\n")
    assert "`nowhere`" in ended.stderr


@pytest.mark.parametrize("is_ours", [True, False], ids=["mmie-tasks", "lmms-eval"])
def test_prompts_that_a_setting_names_need_no_download(is_ours: bool) -> None:
    mmie = benchmark_of_task("mmie")
    assert mmie is not None
    before = mmie.settings

    def check_with(prompts: str) -> None:
        data = {"MMIE_DATA": str(EXAMPLES / "mmie" / "data"), "HF_HUB_OFFLINE": "1"}
        words = ["--model", "theirs", "--tasks", "mmie"]
        words += [] if is_ours else ["--launcher_args", f"name=replay,prompts={prompts}"]
        chosen = {"": ChosenJudges(settings={"prompts": prompts})}
        check_command_line(words, data, chosen if is_ours else {})

    check_with(str(EXAMPLES / "mmie" / "prompts.json"))
    with pytest.raises(DataMissing, match=NOWHERE):
        check_with(NOWHERE)
    assert mmie.settings is before
