"""MileBench through lmms-eval itself, on the bundled example: saved answers, and a chat server."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from support.example import ANSWERS, DATA
from support.judge_server import Body, JudgeServer, completion
from support.mmie_seam import printed
from support.runner import CommandResult, Workplace

WHOLE = "MileBench"
TABLE = {  # what the example gives: half of it is there for the scores to differ
    "coverage": 100,
    "differ": 10,
    "official": 59.7222,
    "robust": 74.5370,
    "official_real": 59.7222,
    "robust_real": 74.5370,
    "official_diag": 50,
    "robust_diag": 100,
    "official_T-1": 33.3333,
    "official_S-3": 75,
    "official_tasks12": 57.2917,
    "official_datasets26": 57.6923,
    "official_GPR1200": 50,
    "robust_GPR1200": 100,
    "official_nuscenes": 50,
    "official_many": 65.7895,
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Workplace:
    return Workplace(folder=tmp_path_factory.mktemp("milebench"))


def play_back(workplace: Workplace, path: Path, *options: str) -> CommandResult:
    answers = ("--model", "predictions", "--model_args", f"path={path}")
    return workplace.run("lmms-eval", *answers, *options, MILEBENCH_DATA=str(DATA))


@pytest.fixture(scope="module")
def whole(workplace: Workplace) -> CommandResult:
    options = ("--tasks", "milebench", "--output_path", "out", "--log_samples")
    return play_back(workplace, ANSWERS, *options)


def test_the_printed_table_is_the_expected_one(whole: CommandResult) -> None:
    values = printed(whole, WHOLE)
    assert {name: values.get(name) for name in TABLE} == pytest.approx(TABLE, abs=1e-4)


def test_the_log_shows_both_scores_coverage_and_signature(whole: CommandResult) -> None:
    assert "official and robust scores differ: 10" in whole.output
    assert whole.output.count("task:milebench@5-E|variant:test|prompt:official") == 1
    assert "milebench: answers 58 of 58" in whole.output


def test_logged_answers_score_the_same_again_together_and_by_dataset(
    workplace: Workplace, whole: CommandResult
) -> None:
    again = play_back(workplace, workplace.folder / "out", "--tasks", "milebench,milebench_DocVQA")
    tables = [
        {metric: float(value) for (task, metric), value in result.table.items() if task == WHOLE}
        for result in (again, whole)
    ]
    assert tables[0] == pytest.approx(tables[1])
    assert printed(again, "MileBench DocVQA")["official"] == 100
    assert "answers 2 of 2" in again.output


def reply(body: Body) -> str | Body:
    """B; null for a question with many images."""
    return completion(None) if len(body["messages"][0]["content"]) > 60 else "B"


@pytest.fixture(scope="module")
def chat() -> Iterator[JudgeServer]:
    with JudgeServer(reply, check=None, closes=True) as server:
        yield server


@pytest.fixture(scope="module")
def of_server(workplace: Workplace, chat: JudgeServer) -> CommandResult:
    """A run of a chat model of the runner."""
    arguments = f"model=m,api_key=none,max_retries=1,retry_backoff_s=0,base_url={chat.url}"
    tasks = "milebench_GPR1200,milebench_combined1,milebench_adv"
    command = (
        "lmms-eval",
        "--model",
        "openai",
        "--model_args",
        arguments,
        "--tasks",
        tasks,
        "--limit",
        "2",
    )
    return workplace.run(*command, MILEBENCH_DATA=str(DATA))


def pixels(part: dict[str, dict[str, str]]) -> bytes:
    encoded = part["image_url"]["url"].partition("base64,")[2]
    return Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB").tobytes()


def test_the_server_gets_the_official_prompt_with_every_image_in_position(
    chat: JudgeServer, of_server: CommandResult
) -> None:
    whole = json.loads((DATA / "GPR1200" / "GPR1200.json").read_text(encoding="utf-8"))
    first = whole["data"][0]["task_instance"]
    requests = [request["messages"][0]["content"] for request in chat.asked]
    (content,) = [parts for parts in requests if len(parts) == 2 * len(first["images_path"]) + 1]
    assert content[0]["text"] == "Look at the shapes and answer.\nImage1:"
    assert [part["text"] for part in content[2:6:2]] == [" Image2:", " Image3:"]
    assert content[-1]["text"].endswith("\nChoice list: \n" + "\n".join(first["choice_list"])
                                        + "\nYour answer is: ")  # fmt: skip
    folder = DATA / "GPR1200" / "images"
    files = [Image.open(folder / name).convert("RGB").tobytes() for name in first["images_path"]]
    assert [pixels(part) for part in content[1::2]] == files
    assert printed(of_server, "MileBench adv")["coverage"] == 100, of_server.output
    assert printed(of_server, "MileBench combined1")["coverage"] == 100


def test_a_null_reply_is_counted_and_below_the_coverage_floor_there_is_no_score(
    of_server: CommandResult,
) -> None:
    values = printed(of_server, "MileBench GPR1200")
    assert values["coverage"] == 50, of_server.output
    assert "official" not in values
    assert (
        "no official score: only 1 of 2 samples have a score\n  unscored: no_answer (1)\n"
        in of_server.output
    )
