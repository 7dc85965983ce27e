"""A logged run is judged again: by another judge, or where its judge failed."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.loopback import Sent, error
from support.mmie_data import draw
from support.mmie_judge import WORDS, by_category, gives, text_of
from support.mmie_seam import KEY, TABLE, N, evaluate, printed, samples
from support.runner import CommandResult, Workplace

from mmie_tasks.results.commands import agreement

pytestmark = pytest.mark.slow
SETTINGS = {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY}
REFUSED = 2  # samples of N


def refuses_steps(body: Body) -> str | Sent:
    return error(400) if "Rate the steps." in text_of(body) else by_category(body)


@pytest.fixture
def run(workplace: Workplace, judge: JudgeServer) -> Workplace:
    """A run whose judge has refused some samples. The cache of its replies is gone.

    The pictures of the answers are beside the saved answers, not in the working folder.
    """
    given = workplace.folder / "given"
    given.mkdir()
    for name in ("answers.json", "drawn"):
        (workplace.folder / name).rename(given / name)
    judge.says(refuses_steps)
    model = ("--model", "predictions", "--model_args", "path=given")
    result = evaluate(workplace, *model, url=judge.url)
    assert result.status == 0, result.output
    assert len(judge) == N
    assert scored(workplace, "out") == N - REFUSED
    shutil.rmtree(workplace.folder / "cache")
    judge.says(by_category)
    return workplace


def rejudge(workplace: Workplace, *words: str) -> CommandResult:
    return workplace.run("mmie-tasks", "rejudge", *words, **SETTINGS)


def scored(workplace: Workplace, output: str) -> int:
    records = [line["record"] for line in samples(workplace, output=output)]
    return sum("points" in record["verdicts"]["official"] for record in records)


def signatures(workplace: Workplace, output: str) -> set[str]:
    return {signature_of(line["record"]) for line in samples(workplace, output=output)}


def results(folder: Path) -> dict[str, Any]:
    (path,) = folder.rglob("*_results.json")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_what_failed_is_asked_again_and_nothing_else(run: Workplace, judge: JudgeServer) -> None:
    result = rejudge(run, "out", "--failed")
    assert result.status == 0, result.output
    assert all("Rate the steps." in text_of(body) for body in judge.asked[N:])
    assert len(judge) == N + REFUSED
    assert TABLE.items() <= printed(result).items(), result.output
    assert signatures(run, "out-filled") == signatures(run, "out")
    (folder,) = (run.folder / "out").iterdir()
    assert [path.name for path in (run.folder / "out-filled").iterdir()] == [folder.name]
    result = rejudge(run, "out-filled", "--failed")
    assert (result.status, "Nothing failed" in result.output) == (0, True), result.output
    assert not (run.folder / "out-filled-filled").exists()


def test_an_unreadable_reply_is_not_for_ever(workplace: Workplace, judge: JudgeServer) -> None:
    judge.says(lambda body: "Hm." if "Rate the steps." in text_of(body) else by_category(body))
    for unreadable in (False, True):  # the second run has all replies from the cache
        result = evaluate(workplace, url=judge.url)
        assert result.status == 0, result.output
        line = f"{REFUSED} unreadable replies came from the cache"
        assert (line in result.output) == unreadable
        time.sleep(1)  # the runner names logs by the second
    assert len(judge) == N
    judge.says(by_category)
    result = rejudge(workplace, "out", "--failed")
    assert result.status == 0, result.output
    assert all("Rate the steps." in text_of(body) for body in judge.asked[N:])
    assert len(judge) == N + REFUSED
    assert scored(workplace, "out-filled") == N
    assert "unreadable repl" not in result.output


def test_the_saved_replies_are_read_again_and_nobody_is_asked(
    run: Workplace, judge: JudgeServer
) -> None:
    (log,) = (run.folder / "out").rglob("*_samples_mmie.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    scored_lines = [line for line in lines if "points" in line["record"]["verdicts"]["official"]]
    scored_lines[0]["record"]["verdicts"]["official"]["points"] = (
        0  # as an older reader might have read it
    )
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    result = rejudge(run, "out")
    assert result.status == 0, result.output
    assert len(judge) == N
    assert "no judge was asked" in result.output
    assert "mmie: 1 verdict changed." in result.output
    assert f"| {scored_lines[0]['record']['id']} " in result.output
    assert not (run.folder / "out-filled").exists()


def test_another_judge_gets_each_answer_once(run: Workplace, judge: JudgeServer) -> None:
    judge.models = ("judge-model", "other")
    words = {name: text.replace("Rate", "Grade") for name, text in WORDS.items()}
    (run.folder / "grade.json").write_text(json.dumps(words), encoding="utf-8")
    other = f"openai:other,base_url={judge.url},prompts=grade.json"
    judge.says(gives(4))
    result = rejudge(run, "out", "--judge", other)
    assert result.status == 0, result.output
    assert {body["model"] for body in judge.asked[N:]} == {"other"}
    assert all(text_of(body).startswith("Grade the ") for body in judge.asked[N:])
    assert len(judge) == 2 * N
    assert scored(run, "out-by-other") == N


def test_a_run_whose_images_are_gone_is_judged_only_if_they_are_to_be_counted(
    run: Workplace, judge: JudgeServer
) -> None:
    (run.folder / "given" / "drawn").rename(run.folder / "moved")
    result = rejudge(run, "out", "--failed")
    assert result.status == 1, result.output
    assert "missing=count" in result.output
    assert len(judge) == N
    result = rejudge(run, "out", "--failed", "--model_args", "missing=count")
    assert "12 of 12 images of answers missing" in result.output
    result = rejudge(run, "out", "--failed", "--model_args", "images=moved")
    assert TABLE.items() <= printed(result).items(), result.output


def test_the_limit_is_that_of_the_run(workplace: Workplace, judge: JudgeServer) -> None:
    judge.says(lambda _body: "Hm.")
    evaluate(workplace, "--limit", "2", url=judge.url)
    judge.says(by_category)
    result = rejudge(workplace, "out", "--failed", "--output_path", "again")
    assert result.status == 0, result.output
    assert results(workplace.folder / "again")["config"]["limit"] == 2
    assert len(judge) == 4


def test_of_a_panel_only_the_judge_that_failed_is_asked_again(
    workplace: Workplace, judge: JudgeServer
) -> None:
    judge.models = ("steady", "moody")
    judge.says(lambda body: (refuses_steps if body["model"] == "moody" else by_category)(body))
    panel = (
        word
        for model in judge.models
        for word in ("--judge", f"openai:{model},base_url={judge.url}")
    )
    prompts = ("--judge_args", "prompts=words.json")
    result = evaluate(workplace, *panel, *prompts, command=("mmie-tasks", "eval"))
    assert result.status == 0, result.output
    assert scored(workplace, "out") == N - REFUSED
    shutil.rmtree(workplace.folder / "cache")
    judge.says(by_category)
    result = rejudge(workplace, "out", "--failed")
    assert result.status == 0, result.output
    assert [body["model"] for body in judge.asked[2 * N :]] == ["moody"] * REFUSED
    assert scored(workplace, "out-filled") == N


def test_an_image_that_was_overwritten_is_named_and_its_answer_is_another_one(
    run: Workplace, judge: JudgeServer
) -> None:
    draw(run.folder / "given/drawn/0-b.png", 99)
    result = rejudge(run, "out", "--failed")
    assert result.status == 0, result.output
    assert result.output.count("1 image of answers changed since the run") == 1
    assert len(judge) == N + REFUSED + 1
    folders = (str(run.folder / output) for output in ("out", "out-filled"))
    compared = json.loads(agreement([*folders, "--json"], {}))
    [raters] = [part for part in compared["parts"] if part["title"] == "Raters"]
    assert any("1 sample with different answers" in note for note in raters["notes"])
