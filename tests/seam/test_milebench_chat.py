"""MileBench with a chat model of the runner: the requests that its server receives."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from support.example import DATA
from support.judge_server import JudgeServer
from support.runner import CommandResult, Workplace


@pytest.fixture
def chat() -> Iterator[JudgeServer]:
    with JudgeServer("B", check=None, closes=True) as server:
        yield server


def run(chat: JudgeServer, folder: Path, dataset: str) -> CommandResult:
    settings = "model=m,api_key=none,max_retries=1,retry_backoff_s=0"
    return Workplace(folder=folder).run(
        *("lmms-eval", "--model", "openai", "--tasks", f"milebench_{dataset}"),
        *("--model_args", f"{settings},base_url={chat.url}"),
        MILEBENCH_DATA=str(DATA),
    )


def pixels(part: dict[str, dict[str, str]]) -> bytes:
    encoded = part["image_url"]["url"].partition("base64,")[2]
    return Image.open(io.BytesIO(base64.b64decode(encoded))).convert("RGB").tobytes()


def test_the_server_gets_the_official_prompt_with_every_image_in_position(
    chat: JudgeServer, tmp_path: Path
) -> None:
    result = run(chat, tmp_path, "GPR1200")
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
    assert {request["max_tokens"] for request in chat.asked} == {512}
    assert result.values["MileBench GPR1200", "coverage"] == "100", result.output
