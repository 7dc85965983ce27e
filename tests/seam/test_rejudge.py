"""A logged run is judged again: by another judge, or where its judge failed. Both look at one run,
with a cache of their own.
"""

from __future__ import annotations

import json
import re
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

from mmie_tasks.runner.rejudge import run as rejudge

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


def test_images_that_are_gone_end_the_run_before_a_judge_is_asked(run: Run) -> None:
    drawn, moved = run.workplace.folder / "given" / "drawn", run.workplace.folder / "moved"
    requests = len(run.judge.log)
    drawn.rename(moved)
    result = run.rejudge("--failed", cache="first")
    moved.rename(drawn)
    assert result.status == 1, result.output
    assert "missing=count" in result.output
    assert len(run.judge.log) == requests  # not even a check


def test_what_failed_or_changed_is_asked_again_and_nothing_else(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.scored("out") == N - FAILED
    asked, folder = len(run.judge), run.workplace.folder
    draw(folder / "given" / "drawn" / "0-b.png", 99)  # which makes it another answer
    result = run.rejudge("--failed", cache="first")
    assert result.status == 0, result.output
    assert result.output.count("1 image of answers changed since the run") == 1
    texts = [text_of(body) for body in run.judge.asked[asked:]]
    assert sorted(re.findall("Tale [0-9]", "".join(texts))) == ["Tale 0", "Tale 1", "Tale 4"]
    assert len(texts) == FAILED + 1
    assert TABLE.items() <= printed(result).items(), result.output
    assert run.signatures("out-filled") == run.signatures("out")
    names = [[one.name for one in (folder / name).iterdir()] for name in ("out", "out-filled")]
    assert names[0] == names[1]
    environment = {**SETTINGS, "XDG_CACHE_HOME": str(folder / "first")}
    assert rejudge([str(folder / "out-filled"), "--failed"], environment) == 0
    assert "Nothing failed" in capsys.readouterr().out
    assert not (folder / "out-filled-filled").exists()


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
