"""MIA-Bench through lmms-eval itself, on the bundled samples, with a loopback judge."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.judge_server import JudgeServer
from support.mia_judge import full_marks, image_of, stormy
from support.mmie_seam import KEY, printed, results, samples
from support.runner import CommandResult, Workplace

from mmie_tasks.results.run import open_runs

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mia_bench"
DATA, ANSWERS = EXAMPLE / "data", EXAMPLE / "answers"


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    workplace = Workplace(folder=tmp_path)
    workplace.install_stub_model()
    return workplace


@pytest.fixture
def server() -> Iterator[JudgeServer]:
    with JudgeServer(full_marks, key=KEY) as server:
        yield server


def evaluate(
    workplace: Workplace,
    *more: str,
    url: str = "",
    command: tuple[str, ...] = ("lmms-eval",),
    processes: int = 1,
    **variables: str,
) -> CommandResult:
    judge = ("--launcher_args", f"name=openai,model=judge-model,base_url={url}") if url else ()
    model = () if "--model" in more else ("--model", "predictions")
    args = () if model == () else ("--model_args", f"path={ANSWERS}")
    return workplace.run(
        *command,
        *(*model, *args, "--tasks", "mia_bench", "--output_path", "out", "--log_samples"),
        *(*judge, *more),
        processes=processes,
        MIA_BENCH_DATA=str(DATA),
        OPENAI_API_KEY=KEY,
        **variables,
    )


def everything_written(workplace: Workplace) -> str:
    """The text of all files of a run, including its cache."""
    files = [path for path in workplace.folder.rglob("*") if path.is_file()]
    return "".join(path.read_bytes().decode("utf-8", "replace") for path in files)


COLUMNS = ["id", "score", "robust", "unscored", "question", "answer", "reply"]
FULL = {"official": 97.5, "robust": 100.0, "coverage": 100.0, "differ": 1.0}
"""What full marks for all eight samples print; one of them is worth 8 points of 10."""


def test_replies_of_a_judge_server_give_the_table_the_log_and_the_usage(
    workplace: Workplace, server: JudgeServer
) -> None:
    result = evaluate(workplace, url=server.url)
    assert FULL.items() <= printed(result, "MIA-Bench").items(), result.output
    pictures = {path.read_bytes() for path in (DATA / "images").iterdir()}
    assert {image_of(body) for body in server.asked} == pictures
    assert len(server) == 8
    logged = samples(workplace, "mia_bench")
    scores = {line["id"]: line["score"] for line in logged}
    assert scores == {**dict.fromkeys("01234567", 1.0), "6": 0.8}
    assert [*logged[0]][:7] == COLUMNS
    assert [line["official"] for line in logged] == [line["score"] for line in logged]
    assert all("score of component 1" in json.dumps(line["record"]) for line in logged)
    results_file = results(workplace)
    signature = results_file["configs"]["mia_bench"]["metadata"]["signature"]
    assert "judge:openai|model:judge-model|t:0" in signature
    assert "paper_judge:no" in signature
    assert signature in result.output
    assert results_file["usage"]["by_source"]["judge"]["n_api_calls"] == 8
    assert KEY not in everything_written(workplace) + result.output


def test_a_wrong_key_stops_the_run_before_the_model_generates(
    workplace: Workplace, server: JudgeServer
) -> None:
    server.key = "another"
    result = evaluate(workplace, "--model", "stub", url=server.url)
    assert result.status == 1, result.output
    assert "401" in result.output
    assert "hint: " in result.output
    assert "stub: generating" not in result.output
    assert "Traceback" not in result.output
    assert KEY not in result.output


def test_a_predict_only_run_needs_no_judge_and_is_scored_later(
    workplace: Workplace, server: JudgeServer
) -> None:
    server.key = "another"
    options = ("--model", "stub", "--model_args", "pretrained=org/stub-7b", "--predict_only")
    result = evaluate(workplace, *options, url=server.url)
    assert "stub: generating 8 answers" in result.output, result.output
    assert len(server) == 0
    server.key = KEY
    command = shlex.split(result.output.rstrip().splitlines()[-1])
    assert command[:2] == ["mmie-tasks", "eval"]
    result = evaluate(workplace, *command[2:], url=server.url, command=("mmie-tasks", "eval"))
    assert FULL.items() <= printed(result, "MIA-Bench").items(), result.output
    assert re.search("^mia_bench +stub-7b ", result.output, re.MULTILINE)
    (folder,) = (workplace.folder / "out").iterdir()
    names = {json.loads(path.read_text())["model_name"] for path in folder.glob("*_results.json")}
    assert (folder.name, names) == ("org__stub-7b", {"org/stub-7b"})
    (run,) = open_runs([str(workplace.folder / "out")])
    assert run.name == "stub-7b"


def test_options_of_our_command_choose_the_judge_and_a_storm_of_its_faults_costs_no_sample(
    workplace: Workplace, server: JudgeServer
) -> None:
    server.says(stormy(seed=50))  # every fault comes before the last reply
    words = ("--judge", "openai:judge-model", "--judge_args", f"base_url={server.url}")
    result = evaluate(workplace, *words, command=("mmie-tasks", "eval"))
    assert FULL.items() <= printed(result, "MIA-Bench").items(), result.output
    # The check, eight replies, one cut off and two empty ones; a reset.
    assert server.statuses == {200: 1 + 8 + 1 + 2, 429: 2, 500: 2, 0: 1}
