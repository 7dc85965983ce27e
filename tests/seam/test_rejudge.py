"""A logged run is judged again: by another judge, or where its judge failed. Each test has a cache
of its own, and all look at the same run.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.loopback import Sent, error
from support.mmie_data import draw
from support.mmie_judge import WORDS, by_category, gives, text_of
from support.mmie_seam import KEY, TABLE, N, create_workplace, evaluate, printed, samples
from support.runner import CommandResult, Workplace

SETTINGS = {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY}
FAILED = 2  # samples of N: one was refused, and one has an unreadable reply


def fails_on_steps(body: Body) -> str | Sent:
    if "Step 1 of 1." in text_of(body) or "Tale 1 " in text_of(body):
        return error(400)
    return "Hm." if "Tale 4 " in text_of(body) else by_category(body)


@dataclass(frozen=True, slots=True)
class Run:
    """A run whose judge has failed on some samples, with the judge, which now replies to all."""

    workplace: Workplace
    judge: JudgeServer

    def rejudge(self, *words: str, cache: str) -> CommandResult:
        return self.workplace.run(
            "mmie-tasks", "rejudge", "out", *words, **SETTINGS, XDG_CACHE_HOME=cache
        )

    def scored(self, output: str) -> int:
        records = [line["record"] for line in samples(self.workplace, output=output)]
        return sum("points" in record["verdicts"]["official"] for record in records)

    def signatures(self, output: str) -> set[str]:
        return {signature_of(line["record"]) for line in samples(self.workplace, output=output)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """The pictures of the answers are beside the saved answers, not in the working folder."""
    workplace = create_workplace(tmp_path_factory.mktemp("rejudge"))
    given = workplace.folder / "given"
    given.mkdir()
    for name in ("answers.json", "drawn"):
        (workplace.folder / name).rename(given / name)
    model = ("--model", "predictions", "--model_args", "path=given")
    with JudgeServer(fails_on_steps, key=KEY) as judge:
        result = evaluate(workplace, *model, url=judge.url)
        assert result.status == 0, result.output
        shutil.rmtree(workplace.folder / "cache")
        judge.says(by_category)
        yield Run(workplace, judge)


def test_what_failed_is_asked_again_and_nothing_else(run: Run) -> None:
    assert run.scored("out") == N - FAILED
    asked = len(run.judge)
    result = run.rejudge("--failed", cache="first")
    assert result.status == 0, result.output
    assert all("Rate the steps." in text_of(body) for body in run.judge.asked[asked:])
    assert len(run.judge) == asked + FAILED
    assert TABLE.items() <= printed(result).items(), result.output
    assert run.signatures("out-filled") == run.signatures("out")
    folders = [
        [one.name for one in (run.workplace.folder / name).iterdir()]
        for name in ("out", "out-filled")
    ]
    assert folders[0] == folders[1]
    words = ("mmie-tasks", "rejudge", "out-filled", "--failed")
    result = run.workplace.run(*words, **SETTINGS, XDG_CACHE_HOME="first")
    assert (result.status, "Nothing failed" in result.output) == (0, True), result.output
    assert not (run.workplace.folder / "out-filled-filled").exists()


def test_another_judge_gets_each_answer_once(run: Run) -> None:
    run.judge.models, asked = ("judge-model", "other"), len(run.judge)
    words = {name: text.replace("Rate", "Grade") for name, text in WORDS.items()}
    (run.workplace.folder / "grade.json").write_text(json.dumps(words), encoding="utf-8")
    run.judge.says(gives(4))
    result = run.rejudge(
        "--judge", f"openai:other,base_url={run.judge.url},prompts=grade.json", cache="second"
    )
    run.judge.says(by_category)
    assert result.status == 0, result.output
    assert {body["model"] for body in run.judge.asked[asked:]} == {"other"}
    assert all(text_of(body).startswith("Grade the ") for body in run.judge.asked[asked:])
    assert len(run.judge) == asked + N
    assert run.scored("out-by-other") == N


def test_images_that_are_gone_or_overwritten_are_named(run: Run) -> None:
    given, moved = run.workplace.folder / "given" / "drawn", run.workplace.folder / "moved"
    asked = len(run.judge)
    given.rename(moved)
    result = run.rejudge("--failed", "--output_path", "again", cache="third")
    assert result.status == 1, result.output
    assert "missing=count" in result.output
    assert len(run.judge) == asked
    moved.rename(given)
    draw(given / "0-b.png", 99)
    result = run.rejudge("--failed", "--output_path", "again", cache="third")
    assert result.status == 0, result.output
    assert result.output.count("1 image of answers changed since the run") == 1
    assert len(run.judge) == asked + FAILED + 1  # the overwritten image makes it another answer


def test_the_saved_replies_are_read_again_and_no_judge_is_asked(run: Run) -> None:
    asked = len(run.judge)
    (log,) = (run.workplace.folder / "out").rglob("*_samples_mmie.jsonl")
    lines = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    scored_lines = [line for line in lines if "points" in line["record"]["verdicts"]["official"]]
    scored_lines[0]["record"]["verdicts"]["official"]["points"] = (
        0  # as an older reader might have read it
    )
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    result = run.rejudge(cache="fourth")
    assert result.status == 0, result.output
    assert len(run.judge) == asked
    assert "mmie: 1 verdict changed." in result.output
    assert f"| {scored_lines[0]['record']['id']} " in result.output


def test_of_a_panel_only_the_judge_that_failed_is_asked_again(
    workplace: Workplace, judge: JudgeServer
) -> None:
    judge.models = ("steady", "moody")
    judge.says(lambda body: (fails_on_steps if body["model"] == "moody" else by_category)(body))
    panel = (
        word
        for model in judge.models
        for word in ("--judge", f"openai:{model},base_url={judge.url}")
    )
    prompts = ("--judge_args", "prompts=words.json", "--limit", "3")
    result = evaluate(workplace, *panel, *prompts, command=("mmie-tasks", "eval"))
    assert result.status == 0, result.output
    shutil.rmtree(workplace.folder / "cache")
    judge.says(by_category)
    asked = len(judge)
    result = workplace.run("mmie-tasks", "rejudge", "out", "--failed", **SETTINGS)
    assert result.status == 0, result.output
    assert [body["model"] for body in judge.asked[asked:]] == ["moody"]
    assert Run(workplace, judge).scored("out-filled") == 3
