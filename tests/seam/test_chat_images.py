"""``--model chat_images`` through lmms-eval, on a server whose model is its own judge."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from support.judge_server import Body, JudgeServer, completion
from support.logged_records import signature_of
from support.mmie_judge import content_of, gives, text_of
from support.mmie_seam import KEY, JudgedRun, N, create_workplace, evaluate, samples
from support.pictures import picture

from mmie_tasks.results.commands import report, table

MARK = "judge and tested model are one: judge-model at 127.0.0.1"


def asks_a_judge(body: Body) -> bool:
    return text_of(body).startswith("Rate the")


def image_for(body: Body) -> bytes:
    """The image in the reply to a request for an answer."""
    parts = body["messages"][-1]["content"]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    return picture(text, width=64, height=64)


def reply(body: Body) -> str | Body:
    if asks_a_judge(body):
        return gives(3)
    url = "data:image/png;base64," + base64.b64encode(image_for(body)).decode()
    message: dict[str, Any] = {"content": "See: <image> Done."}
    return completion({**message, "images": [{"type": "image_url", "image_url": {"url": url}}]})


def variables(server: JudgeServer) -> dict[str, str]:
    return {"MMIE_DATA": "data", "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": server.url}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JudgedRun]:
    workplace = create_workplace(tmp_path_factory.mktemp("chat_images"))
    arguments = "model=judge-model,max_retries=1,modalities=image;text"
    model = ("--model", "chat_images", "--model_args", arguments)
    judge = ("--launcher_args", "name=openai,model=judge-model,prompts=words.json")
    with JudgeServer(reply, key=KEY) as server:
        result = evaluate(workplace, *model, *judge, **variables(server))
        assert result.status == 0, result.output
        yield JudgedRun(workplace=workplace, judge=server, result=result)


def test_the_judge_gets_the_images_of_replies(run: JudgedRun) -> None:
    answered = [body for body in run.judge.asked if not asks_a_judge(body)]
    judged = [body for body in run.judge.asked if asks_a_judge(body)]
    assert len(answered) == len(judged) == N
    assert {tuple(body["modalities"]) for body in answered} == {("image", "text")}
    expected = {image_for(body) for body in answered}
    assert len(expected) == N
    (folder,) = (run.workplace.folder / "out").glob("*/images")
    assert {path.read_bytes() for path in folder.iterdir()} == expected
    assert expected <= {part for body in judged for part in content_of(body)}
    assert "reconstruction" not in run.result.output


def test_a_judge_that_is_the_tested_model_is_marked_wherever_the_score_is(run: JudgedRun) -> None:
    workplace, server, output = run.workplace, run.judge, run.result.output
    first = (
        f"judge judge-model at {server.url}, from `OPENAI_BASE_URL`, which the tested model uses "
        "too"
    )
    assert output.count(first) == 1
    assert MARK in output.partition("mmie-tasks: scores in percent")[2]
    (signature,) = {signature_of(line["record"]) for line in samples(workplace)}
    assert "|judges_itself:judge-model at 127.0.0.1|" in signature
    moved = workplace.folder / "moved"
    (workplace.folder / "out").rename(moved)
    assert MARK in table([str(moved)], {})
    report([str(moved), "-o", str(workplace.folder / "report.html")], {})
    assert MARK in (workplace.folder / "report.html").read_text(encoding="utf-8")
    asked, image = len(server), next(moved.glob("*/images/*"))
    image.write_bytes(picture("another", width=64, height=64))
    words = ("rejudge", "moved", "--failed", "--model_args", "missing=stop")
    again = workplace.run("mmie-tasks", *words, **variables(server))
    assert MARK in again.output, again.output
    assert again.output.count("1 image of answers changed since the run") == 1
    assert len(server) == asked + 1  # other replies are found under the server's address
