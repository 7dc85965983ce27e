"""``--model chat_images`` keeps the images in replies of chat servers."""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from lmms_eval.api.instance import GenerationResult, Instance, unwrap_generation_output
from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.models import get_model
from PIL import Image
from support.judge_server import Body, JudgeServer
from support.pictures import header_only

from mmie_tasks.answers.answer import Answer, read_answer
from mmie_tasks.answers.images import ImageResolver

Message = Mapping[str, object]

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def png(colour: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (4, 3), (colour % 256, colour // 256, 9)).save(file, "PNG")
    return file.getvalue()


def data_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def image_part(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


def text_part(text: str) -> Message:
    return {"type": "text", "text": text}


A, B = data_uri(png(1)), data_uri(png(2))
PARTS = {"content": [text_part("one"), image_part(A), text_part("two"), image_part(B)]}
REPLIES: dict[str, Message] = {
    "parts": PARTS,
    "only texts in parts": {"content": [text_part("one"), text_part("two")]},
    "null and images": {"content": None, "images": [image_part(A), image_part(B)]},
    "text and images": {"content": "one <image> two", "images": [image_part(A), image_part(B)]},
    "text with data URIs": {"content": f"one ![a]({A}) two ![b]({B})", "reasoning": "hm"},
}


@pytest.fixture
def chat() -> Iterator[JudgeServer]:
    with JudgeServer(body_of([PARTS]), check=None, closes=True) as server:
        yield server


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the images of a run without ``--output_path``."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


def model_for(chat: JudgeServer, name: str = "chat_images", **options: object) -> Any:
    return get_model(name)(
        model="m", base_url=chat.url, api_key="none", max_retries=1, retry_backoff_s=0, **options
    )


def ask(model: Any, count: int = 1) -> list[GenerationResult]:
    """The model's outputs to `count` requests, whose texts are their numbers."""
    model.task_dict = {"t": {"test": [{"text": str(i)} for i in range(count)]}}
    requests = []
    for i in range(count):
        arguments = ("", messages_of, {"max_new_tokens": 8}, i, "t", "test")
        requests.append(
            Instance("generate_until", arguments, i, {"task": "t", "doc_id": i, "repeats": 1})
        )
    return list(model.generate_until(requests))


def messages_of(doc: Mapping[str, str]) -> list[Message]:
    return [{"role": "user", "content": [{"type": "text", "text": doc["text"]}]}]


def arriving(output: GenerationResult) -> object:
    """What the runner hands to ``process_results``, and writes to its log and its cache."""
    result, _ = unwrap_generation_output(output)
    assert json.loads(json.dumps(result)) == result
    return result


def answer_to(message: Message, chat: JudgeServer) -> str:
    """What the model returns for one reply."""
    chat.says(body_of([message]))
    return str(arriving(ask(model_for(chat))[0]))


def contents(answer: Answer) -> list[str | bytes]:
    """The texts and the bytes of the images, in order."""
    return [
        Path(value).read_bytes() if value is segment.image else value
        for segment in answer.segments
        for value in (segment.text, segment.image)
        if value
    ]


def test_images_arrive_byte_for_byte_in_files_and_in_order(chat: JudgeServer) -> None:
    model = model_for(chat)
    fewer = {"only texts in parts": ["one", "two"], "null and images": [png(1), png(2)]}
    for reply, usage in itertools.product(REPLIES, (USAGE, None)):
        chat.says(body_of([REPLIES[reply]], usage))
        (output,) = ask(model)
        text = arriving(output)
        assert isinstance(text, str)
        assert len(text) < 1000
        expected = fewer.get(reply, ["one", png(1), "two", png(2)])
        assert contents(read_answer([text])) == expected, reply
        if usage:
            counts = output.token_counts
            assert counts is not None
            assert (counts.input_tokens, counts.output_tokens) == (7, 5)
        assert ResponseCache._is_valid_response(output, "generate_until")


def body_of(messages: Sequence[Message], usage: object = None) -> Body:
    """The body of a reply with a choice for each message."""
    choices = [
        {"index": i, "finish_reason": "stop", "message": {"role": "assistant", **message}}
        for i, message in enumerate(messages)
    ]
    more = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": usage}
    return {**more, "choices": choices}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "A fox."},
        {"content": "out/a.png"},
        {"content": "see ![a](https://example.com/a.png)", "images": []},
        {"content": '{"text": "A", "images": ["/o/a.png"]}', "images": None},
        {"content": None, "refusal": "No.", "reasoning": "hm"},
    ],
    ids=str,
)
def test_a_reply_without_images_is_what_the_model_openai_makes_of_it(
    chat: JudgeServer, images: Path, message: Message
) -> None:
    chat.says(body_of([message], USAGE))
    ours, theirs = (arriving(ask(model_for(chat, name))[0]) for name in ("chat_images", "openai"))
    assert ours == theirs == message["content"]
    assert not list(images.iterdir())


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        pytest.param(lambda: f"data:image/png;base64,{'A' * 10_000_000}", "unreadable", id="10 MB"),
        pytest.param(lambda: data_uri(png(1)[:-30]), "unreadable", id="cut off"),
        pytest.param(lambda: data_uri(header_only(20_000, 20_000)), "too_large", id="400 Mpx"),
        pytest.param(lambda: "https://example.com/a.png", "remote", id="a URL"),
        pytest.param(lambda: "/does/not/exist.png", "missing", id="a path"),
    ],
)
def test_an_image_that_cannot_be_used_is_counted_and_fills_neither_disk_nor_log(
    chat: JudgeServer, images: Path, reference: Callable[[], str], problem: str
) -> None:
    text = answer_to({"content": [text_part("one"), image_part(reference()), image_part(B)]}, chat)
    assert len(text) < 2000
    segments = ImageResolver((), images).resolved(read_answer([text]).segments)
    assert segments[0].text == "one"
    assert [segment.problem for segment in segments if segment.image] == [problem, ""]
    assert [path.read_bytes() for path in images.iterdir()] == [png(2)]
