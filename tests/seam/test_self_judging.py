"""A tested model and a judge on one server, in runs of lmms-eval."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.judge_server import Body, JudgeServer
from support.logged_records import signature_of
from support.mmie_judge import gives, text_of
from support.mmie_seam import KEY, evaluate, samples
from support.runner import CommandResult, Workplace


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    def replies(body: Body) -> str:
        return gives(3) if text_of(body).startswith("Rate the") else "A cat."

    with JudgeServer(replies, key=KEY) as server:
        yield server


def test_a_judge_that_is_the_tested_model_is_marked_wherever_the_score_is(
    workplace: Workplace, server: JudgeServer
) -> None:
    result = run(workplace, server, "judge-model")
    assert result.status == 0, result.output
    first = (
        f"judge judge-model at {server.url}, from `OPENAI_BASE_URL`, which the tested model uses "
        "too"
    )
    assert result.output.count(first) == 1
    mark = "judge and tested model are one: judge-model at 127.0.0.1"
    assert mark in result.output.partition("mmie-tasks: scores in percent")[2]
    (signature,) = {signature_of(line["record"]) for line in samples(workplace)}
    assert "|judges_itself:judge-model at 127.0.0.1|" in signature
    assert mark in workplace.run("mmie-tasks", "table", "out").output
    workplace.run("mmie-tasks", "report", "out", "-o", "report.html")
    assert mark in (workplace.folder / "report.html").read_text(encoding="utf-8")
    asked = len(server)
    words = ("rejudge", "out", "--failed", "--model_args", "missing=stop")
    again = workplace.run("mmie-tasks", *words, **variables(server))
    assert mark in again.output, again.output
    assert len(server) == asked  # the logged replies are found under the server's address


def run(workplace: Workplace, server: JudgeServer, judge: str) -> CommandResult:
    options = ("--model", "openai", "--model_args", "model=judge-model,max_retries=1")
    judge_pairs = ("--launcher_args", f"name=openai,model={judge},prompts=words.json")
    return evaluate(workplace, *options, *judge_pairs, "--limit", "2", **variables(server))


def variables(server: JudgeServer) -> dict[str, str]:
    return {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}
