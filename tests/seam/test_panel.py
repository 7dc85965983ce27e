"""Several judges in one run, through lmms-eval itself: three on a loopback server, one of which
often fails.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from support.judge_server import JudgeServer
from support.loopback import Sent, error
from support.mmie_judge import Body, by_category, gives, text_of
from support.mmie_seam import (
    KEY,
    JudgedRun,
    N,
    create_workplace,
    evaluate,
    printed,
    results,
    samples,
)

from mmie_tasks.results.commands import agreement

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


@pytest.fixture(scope="module")
def panel_run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedRun]:
    workplace = create_workplace(tmp_path_factory.mktemp("panel"))
    with JudgeServer(reply, key=KEY, models=MODELS) as server:
        words = [
            w for model in MODELS for w in ("--judge", f"openai:{model},base_url={server.url}")
        ]
        words += ["--judge_args", "min_coverage=0.5,prompts=words.json"]
        result = evaluate(workplace, *words, command=("mmie-tasks", "eval"))
        assert len(server) == 3 * N
        yield JudgedRun(workplace=workplace, judge=server, result=result)


def points_of(lines: list[dict[str, Any]]) -> list[float | None]:
    """The official points of each sample, 0 to 6, rounded; None without."""
    official = [line["record"]["verdicts"]["official"].get("points") for line in lines]
    return [points if points is None else round(points, 2) for points in official]


def test_every_sample_with_enough_judges_is_scored_and_no_other(panel_run: JudgedRun) -> None:
    lines = samples(panel_run.workplace)
    assert points_of(lines) == [3, None, 6, 3.5, 4, 6], panel_run.result.output
    values = printed(panel_run.result)
    assert values["coverage"] == pytest.approx(83.3333)
    assert values["official"] == pytest.approx(75.0)
    assert lines[1]["record"]["verdicts"]["official"]["reason"] == "refused"


def test_the_end_of_the_run_and_the_results_file_count_the_failures_of_each_judge(
    panel_run: JudgedRun,
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


def test_of_a_panel_only_the_judges_that_failed_are_asked_again(panel_run: JudgedRun) -> None:
    server, asked = panel_run.judge, len(panel_run.judge)
    shutil.rmtree(panel_run.workplace.folder / "cache")
    server.says(gives(4))
    words = ("mmie-tasks", "rejudge", "out", "--failed")
    result = panel_run.workplace.run(*words, MMIE_DATA="data", OPENAI_API_KEY=KEY)
    again = [("flaky", 1), ("flaky", 3), ("flaky", 5), ("generous", 1)]
    assert sorted((body["model"], number_of(body)) for body in server.asked[asked:]) == again
    assert points_of(samples(panel_run.workplace, output="out-filled")) == [3, 4, 6, 4, 4, 6]
    assert result.status == 0, result.output


def test_the_judges_of_a_panel_are_compared(panel_run: JudgedRun) -> None:
    table = agreement([str(panel_run.workplace.folder / "out")], {})
    assert all(f"| {model} " in table for model in MODELS), table
