"""``--model chat_images`` through lmms-eval: the judge sees the images of a server's replies."""

from __future__ import annotations

import base64
import json
from typing import Any

from support.judge_server import Body, JudgeServer, completion
from support.mmie_judge import content_of
from support.mmie_seam import N, evaluate
from support.pictures import picture
from support.runner import Workplace


def asked_text(body: Body) -> str:
    """All texts of a chat request."""
    parts = body["messages"][-1]["content"]
    return "".join(part["text"] for part in parts if part["type"] == "text")


def image_for(body: Body) -> bytes:
    return picture(asked_text(body), width=64, height=64)


def reply(body: Body) -> Body:
    url = "data:image/png;base64," + base64.b64encode(image_for(body)).decode()
    message: dict[str, Any] = {"content": "See: <image> Done."}
    return completion({**message, "images": [{"type": "image_url", "image_url": {"url": url}}]})


def shown(requests: list[Body]) -> set[bytes]:
    """The images in requests to a judge."""
    return {part for body in requests for part in content_of(body) if isinstance(part, bytes)}


def test_the_judge_gets_the_images_of_replies(workplace: Workplace, judge: JudgeServer) -> None:
    with JudgeServer(reply, check=None) as server:
        arguments = f"model=org/drawing,base_url={server.url},max_retries=1,modalities=image;text"
        options = ("--model", "chat_images", "--model_args", arguments)
        result = evaluate(workplace, *options, url=judge.url)
    assert result.status == 0, result.output
    assert len(server) == N
    assert {tuple(body["modalities"]) for body in server.asked} == {("image", "text")}
    expected = {image_for(body) for body in server.asked}
    assert len(expected) == N
    (folder,) = (workplace.folder / "out").glob("*/images")
    assert {path.read_bytes() for path in folder.iterdir()} == expected
    assert expected <= shown(judge.asked)
    assert "reconstruction" not in json.dumps(judge.asked) + result.output
