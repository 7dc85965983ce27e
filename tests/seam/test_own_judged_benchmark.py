"""The judged benchmark of another package in ``examples/``: installed, judged, and read again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.mmie_seam import printed
from support.runner import CommandResult, Workplace

from mmie_tasks import __version__
from mmie_tasks.extend import Record, Signature

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE = EXAMPLES / "own_judged_benchmark"
GUIDE = (EXAMPLES.parent / "docs" / "extend.md").read_text(encoding="utf-8")
POINTS = {"harbour": 5, "bowl": 1, "snowman": 4}
PART = ("--limit", "3", "--offset", "2")
PERCENT = {"coverage": 100, "official": 66.6667, "official_scene": 90, "official_object": 20}
ANSWERS: dict[str, str] = json.loads((EXAMPLE / "answers.json").read_text(encoding="utf-8"))


def reply(body: dict[str, Any]) -> str:
    """The reply to a request that shows one picture beside one sentence."""
    text, picture = body["messages"][0]["content"]
    assert picture["image_url"]["url"].startswith("data:image/png;base64,")
    (sample_id,) = [sample_id for sample_id, answer in ANSWERS.items() if answer in text["text"]]
    return f"It names 1 thing.\nScore: {POINTS[sample_id]}"


@pytest.fixture(scope="module")
def server() -> Iterator[JudgeServer]:
    with JudgeServer(reply) as running:
        yield running


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    workplace = Workplace(folder=tmp_path_factory.mktemp("own_judged_benchmark"))
    workplace.install(EXAMPLE)
    return workplace


def evaluate(workplace: Workplace, output: str, judge: str, *more: str) -> CommandResult:
    answers = ("--model", "predictions", "--model_args", f"path={EXAMPLE / 'answers.json'}")
    options = ("--tasks", "captions", "--output_path", output, "--log_samples", "--judge", judge)
    return workplace.run("mmie-tasks", "eval", *answers, *options, *more)


@pytest.fixture(scope="module")
def result(workplace: Workplace, server: JudgeServer) -> CommandResult:
    """A run of some samples."""
    return evaluate(workplace, "out", f"openai:judge-model,base_url={server.url}", *PART)


def test_every_answer_is_judged_beside_its_picture(
    result: CommandResult, server: JudgeServer
) -> None:
    assert PERCENT.items() <= printed(result, "Captions").items(), result.output
    assert len(server.asked) == 3


def test_the_log_holds_replies_and_signature(workplace: Workplace, result: CommandResult) -> None:
    assert result.status == 0, result.output
    (path,) = (workplace.folder / "out").rglob("*_samples_captions.jsonl")
    lines = path.read_text("utf-8").splitlines()
    records = [json.loads(line)["record"] for line in lines]
    assert {record["id"]: record["verdicts"]["official"]["points"] for record in records} == POINTS
    replies = [record["judgements"][0]["result"]["reply"]["text"] for record in records]
    assert all(reply.startswith("It names 1 thing.") for reply in replies)
    signature = Signature(
        judges=({"judge": "openai", "model": "judge-model", "t": "0", "host": "127.0.0.1"},),
        benchmark={"paper_judge": "no", "reader": "official+robust", "task": "captions@1-A"},
        package=__version__,
    )
    assert {Record.model_validate(record).signature for record in records} == {signature}
    assert "judge: judge-model at 127.0.0.1, not the paper's" in result.output


def test_limit_and_offset_are_named_when_a_run_ends_and_from_its_log(
    workplace: Workplace, result: CommandResult
) -> None:
    mark = "3 samples (--limit 3 --offset 2)"
    assert mark in result.output
    assert mark in workplace.run("mmie-tasks", "table", "out").output


def text_block(after: str) -> str:
    """The first block of output in the guide after a text."""
    return GUIDE.partition(after)[2].partition("```text\n")[2].partition("```")[0]


def test_the_guide_shows_what_doctor_and_a_run_print(workplace: Workplace) -> None:
    output = workplace.run("mmie-tasks", "doctor", "--tasks", "captions").output
    assert text_block("mmie-tasks doctor") in output
    replay = f"replay:path={EXAMPLE / 'replies.jsonl'}"  # if it fails, record them again
    output = evaluate(workplace, "replayed", replay).output
    for block in text_block("mmie-tasks score").split("\n\n"):
        assert block in output
