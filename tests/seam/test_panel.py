"""Several judges in one run, through lmms-eval itself: three on a loopback server, one of which
often fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.loopback import Sent, error
from support.mmie_judge import Body, by_category, gives, text_of
from support.mmie_seam import KEY, N, create_workplace, evaluate, printed, results, samples
from support.runner import CommandResult, Workplace

MODELS = ("strict", "generous", "flaky")


def number_of(body: Body) -> int:
    """The number of the sample that a request is about."""
    (number,) = [
        n
        for n in range(N)
        if any(start in text_of(body) for start in (f"Tale {n} ", f"How much is {n} "))
    ]
    return number


def reply(body: Body) -> str | Sent:
    """Points by category; a point more of `generous`, which fails on sample 1. `flaky` fails on odd
    samples.
    """
    number, points = number_of(body), int(by_category(body).rpartition("\n")[2])
    match body["model"]:
        case "strict":
            return gives(points)
        case "generous":
            return error(400, code="content_filter") if number == 1 else gives(min(6, points + 1))
    return error(400, code="content_filter") if number % 2 else gives(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelRun:
    """A run that ended, with its folder, its server and the number of requests that it sent."""

    workplace: Workplace
    server: JudgeServer
    result: CommandResult
    requests: int


def evaluate_panel(workplace: Workplace, server: JudgeServer, output: str) -> CommandResult:
    judges = [
        word for model in MODELS for word in ("--judge", f"openai:{model},base_url={server.url}")
    ]
    settings = ("--judge_args", "min_coverage=0.5,prompts=words.json")
    return evaluate(
        workplace, *(*judges, *settings, "--output_path", output), command=("mmie-tasks", "eval")
    )


@pytest.fixture(scope="module")
def panel_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PanelRun]:
    workplace = create_workplace(tmp_path_factory.mktemp("panel"))
    with JudgeServer(reply, key=KEY, models=MODELS) as server:
        result = evaluate_panel(workplace, server, "out")
        yield PanelRun(workplace=workplace, server=server, result=result, requests=len(server))


def lines_of(run: PanelRun, output: str) -> list[dict[str, Any]]:
    return samples(run.workplace, output=output)


def points_of(lines: list[dict[str, Any]]) -> list[float | None]:
    """The official points of each sample, 0 to 6, rounded; None without."""
    official = [line["record"]["verdicts"]["official"].get("points") for line in lines]
    return [points if points is None else round(points, 2) for points in official]


def test_every_sample_with_enough_judges_is_scored_and_no_other(panel_run: PanelRun) -> None:
    lines = lines_of(panel_run, "out")
    assert points_of(lines) == [3, None, 6, 3.5, 4, 6], panel_run.result.output
    values = printed(panel_run.result)
    assert values["coverage"] == pytest.approx(83.3333)
    assert values["official"] == pytest.approx(75.0)
    assert lines[1]["record"]["verdicts"]["official"]["reason"] == "refused"
    assert panel_run.requests == 3 * N


def test_the_end_of_the_run_and_the_results_file_count_the_failures_of_each_judge(
    panel_run: PanelRun,
) -> None:
    assert "judge 1, strict: points in 6 of 6 samples" in panel_run.result.output
    assert (
        "judge 3, flaky: points in 3 of 6 samples; without: refused (3)" in panel_run.result.output
    )
    assert "panel of strict, generous, flaky (median)" in panel_run.result.output
    message = results(panel_run.workplace)
    details = message["mmie_tasks"]["mmie"]
    assert not [name for name in details if name.startswith("judge")]
    assert message["usage"]["by_source"]["judge"]["n_api_calls"] == 14


def test_the_same_command_sends_only_the_requests_that_have_no_reply(panel_run: PanelRun) -> None:
    before = len(panel_run.server)
    result = evaluate_panel(panel_run.workplace, panel_run.server, "second")
    assert points_of(lines_of(panel_run, "second")) == [3, None, 6, 3.5, 4, 6], result.output
    sent = [(body["model"], number_of(body)) for body in panel_run.server.asked[before:]]
    assert sorted(sent) == [("flaky", 1), ("flaky", 3), ("flaky", 5), ("generous", 1)]
    members = panel_run.workplace.run("mmie-tasks", "agreement", "out").output
    assert all(f"| {model} " in members for model in MODELS), members
