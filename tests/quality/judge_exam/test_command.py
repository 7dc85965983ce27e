"""``mmie-tasks judge-exam`` with judges on a loopback server."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.logged_runs import mmie_lines, write_run
from support.loopback import error
from support.opening_folder import ALWAYS_FIRST, FAIR, shown_answers, write_opening

from mmie_tasks.cli import load_command
from mmie_tasks.core.errors import MmieTasksError
from mmie_tasks.judges.base import JudgeMisconfigured
from mmie_tasks.quality.judge_exam.command import run

Exam = Callable[..., str]


@pytest.fixture
def exam(exam_of: Exam, server: JudgeServer) -> Exam:
    server.says(FAIR)
    return exam_of


def grade_of(output: str) -> dict[str, Any]:
    return dict(json.loads(output)["grade"])


def values(output: str, *names: str) -> list[float | None]:
    return [grade_of(output)[name]["value"] for name in names]


def test_a_fair_judge_agrees_with_people_in_both_orders(exam: Exam, server: JudgeServer) -> None:
    output = exam("--json")
    assert values(output, "agreement", "flips", "first_answer") == [100, 0, 50]
    assert [share["value"] for share in grade_of(output)["by_order"].values()] == [100, 100]
    assert grade_of(output)["coverage"] == 100
    assert len(server.asked) == 24


def test_every_pair_is_shown_in_both_orders_with_its_pictures_unchanged(
    exam: Exam, server: JudgeServer, folder: Path
) -> None:
    exam()
    shown = [shown_answers(body) for body in server.asked]
    assert len({*shown}) == 24
    assert {(second, first) for first, second in shown} == {*shown}
    sent = {uri for pair in shown for answer in pair for uri in answer.pictures}
    files = [path.read_bytes() for path in folder.rglob("*.jpg")]
    assert len(files) == 36
    assert sent == {
        f"data:image/jpeg;base64,{base64.b64encode(content).decode()}" for content in files
    }


def test_a_larger_limit_asks_only_what_is_missing(exam: Exam, server: JudgeServer) -> None:
    few = json.loads(exam("--limit", "5", "--json"))
    assert (few["set"]["pairs"], few["grade"]["asked"], len(server.asked)) == (5, 10, 10)
    assert json.loads(exam("--json"))["grade"]["asked"] == 24
    assert len(server.asked) == 24
    exam("--limit", "8")
    assert len(server.asked) == 24


def test_failed_requests_lower_the_coverage_and_not_the_agreement(
    exam: Exam, server: JudgeServer
) -> None:
    replies = iter(range(24))
    server.says(lambda body: FAIR(body) if next(replies) % 2 else error(400, code="content_filter"))
    output = json.loads(exam("--json"))
    grade = output["grade"]
    assert grade["coverage"] == 50
    assert grade["agreement"]["value"] == 100
    assert grade["agreement"]["n"] == 12
    assert sum(output["without_verdict"].values()) == 12
    assert all(reason.startswith("refused: ") for reason in output["without_verdict"])
    server.says(FAIR)
    assert grade_of(exam("--json"))["coverage"] == 100
    assert len(server.asked) == 36


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_a_judge_without_any_verdict_is_an_error_with_the_reasons_and_has_no_grade(
    exam: Exam, server: JudgeServer, environment: dict[str, str], words: list[str]
) -> None:
    server.says("I like both.")
    reasons = (
        r"no verdict on 24 comparisons: unparsed \(24\)\. The first: unparsed: the last line is "
        r"not a"
    )
    with pytest.raises(JudgeMisconfigured, match=rf"{reasons}[\s\S]*hint: "):
        exam(*words)
    assert not list(Path(environment["MMIE_TASKS_CACHE"]).glob("judge_exams/*"))


def test_the_cost_limit_ends_an_exam_with_the_replies_that_were_paid(
    exam: Exam, server: JudgeServer
) -> None:
    output = json.loads(
        exam("--json", judge_args="price_in=2.5,price_out=10,max_cost=0.004,max_concurrency=1")
    )
    assert 0 < output["grade"]["judged"] < 24
    assert output["grade"]["judged"] == len(server.asked)
    assert {reason.partition(":")[0] for reason in output["without_verdict"]} == {"budget"}


@pytest.mark.slow
def test_an_interrupted_exam_is_resumed_without_a_second_request(
    exam: Exam, server: JudgeServer, folder: Path, environment: dict[str, str]
) -> None:
    server.delay_s = 0.1
    judge = f"openai:judge-model,base_url={server.url},max_concurrency=1"
    options = ["--folder", str(folder)]
    command = [sys.executable, "-m", "mmie_tasks", "judge-exam", judge, *options]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True
    )
    while len(server) < 6:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "the same command asks for the rest" in errors
    assert "Traceback" not in errors
    assert len(server) < 24
    server.delay_s = 0
    assert values(exam("--json"), "agreement") == [100]
    bodies = [json.dumps(body) for body in server.asked]
    assert len({*bodies}) == 24
    assert len(bodies) <= 24 + 1  # only what was in flight is sent twice


def test_text_names_cost_set_licence_and_signatures(
    exam: Exam, capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    output = " ".join(exam().split())
    before = capsys.readouterr().err
    assert "12 pairs of 12, each in both orders: 24 requests at most" in before
    assert "licence: " in before
    assert str(folder) in before
    # 100 tokens in and 10 out, at 2.5 and 10 US dollars per million
    assert re.search(r"Per 1,000 comparisons: US dollars 0\.35, seconds \d+\.\d\.", output)
    assert " judge: judge:openai|model:judge-model|t:0|host:127.0.0.1" in output
    assert re.search(
        r" exam: "
        r"set:opening\|pairs:12,[0-9a-f]{12}\|method:compare\|prompt:compare-1,[0-9a-f]{12},max_tokens=",
        output,
    )
    assert "Licence: none" in output
    assert "| task 01 |" in output


def test_pairs_without_their_pictures_are_counted_and_not_asked(
    server: JudgeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    server.says(FAIR)
    incomplete = write_opening(tmp_path / "opening")
    next(incomplete.rglob("*.jpg")).unlink()
    judge = f"openai:judge-model,base_url={server.url}"
    output = run([judge, "--folder", str(incomplete)], environment)
    assert isinstance(output, str)
    assert "- 1 published pair left out: their answers are not in the folder." in output
    assert len(server.asked) == 22


def test_the_grade_is_kept_below_the_judges_signature_without_secrets(
    exam: Exam, environment: dict[str, str]
) -> None:
    printed = exam("--json", judge_args="api_key_env=OPENAI_API_KEY")
    [file] = Path(environment["MMIE_TASKS_CACHE"]).glob("judge_exams/*/*.json")
    assert file.read_text() == f"{printed}\n"
    assert "secret" not in file.read_text()
    exam("--limit", "3")
    assert len(list(file.parent.iterdir())) == 2
    exam(judge_args="temperature=1")
    assert len(list(file.parents[1].iterdir())) == 2


def test_the_table_of_a_run_shows_the_grade_of_its_judge(
    exam: Exam, server: JudgeServer, environment: dict[str, str], tmp_path: Path
) -> None:
    server.says(ALWAYS_FIRST)
    exam()
    judge = "judge:openai|model:judge-model|t:0|host:127.0.0.1"
    write_run(tmp_path / "out", "mmie", mmie_lines(12, judge=judge))
    text = load_command("table")([str(tmp_path / "out")], environment)
    assert re.search(
        r"Judge of MMIE: judge-model agrees with people on 50\.00 .* of 12 pairs "
        r"\(OpenING, comparing, follows order: first\)",
        text,
    )


def test_published_verdicts_are_graded_without_a_request(
    tmp_path: Path, folder: Path, environment: dict[str, str], server: JudgeServer
) -> None:
    people = folder / "Interleaved_Arena" / "judge_modelAB_results.json"
    rows = json.loads(people.read_text())
    rows[0]["winner"] = {"A": "B", "B": "A"}[rows[0]["winner"]]
    published = tmp_path / "my-judge_modelAB_results.json"
    published.write_text(json.dumps(rows))
    words = ["--verdicts", str(published), "--folder", str(folder)]
    assert values(run([*words, "--json"], environment), "agreement") == [
        pytest.approx(100 * 11 / 12)
    ]
    assert "\njudge: verdicts:my-judge_modelAB_results.json," in run(words, environment)
    assert not server.asked
    assert not Path(environment["MMIE_TASKS_CACHE"], "judge_exams").exists()


COMPARE = ("--method", "compare", "--folder", "VERDICTS")
NOBODY = ("--method", "nobody", "--folder", "VERDICTS")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["openai:m", "--verdicts", "x.json"], "got both a judge and `--verdicts`", id="both"
        ),
        pytest.param(
            ["mmie_score", *COMPARE], "`mmie_score` gives points and does not compare", id="points"
        ),
        pytest.param(["JUDGE", *NOBODY], "There is no method `nobody`", id="method"),
        pytest.param(
            ["--verdicts", "x.json", *COMPARE], "`--method` has no effect", id="method-of-published"
        ),
        pytest.param(
            ["JUDGE"], "OpenING's answers are read from a local folder only", id="no-folder"
        ),
        pytest.param(
            ["JUDGE", "--folder", "VERDICTS"],
            "no answers to ask a judge about",
            id="verdicts-alone",
        ),
    ],
)
def test_bad_input_is_an_error_with_a_hint_before_any_request(
    words: list[str], message: str, folder: Path, server: JudgeServer, tmp_path: Path
) -> None:
    verdicts = folder / "Interleaved_Arena" / "judge_modelAB_results.json"
    replaced = {"JUDGE": f"openai:m,base_url={server.url}", "VERDICTS": str(verdicts)}
    with pytest.raises(MmieTasksError, match=rf"{message}[\s\S]*hint: "):
        run([*(replaced.get(word, word) for word in words)], {"MMIE_TASKS_CACHE": str(tmp_path)})
    assert not server.asked
