"""``--model chat_images`` keeps the images in replies of chat servers."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from lmms_eval.api.instance import GenerationResult, Instance, unwrap_generation_output
from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.models import get_model
from support.judge_server import JudgeServer, completion
from support.pictures import header_only, picture

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.images import ImageResolver

Message = dict[str, Any]


def data_uri(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def image_part(url: str) -> Message:
    return {"type": "image_url", "image_url": {"url": url}}


def text_part(text: str) -> Message:
    return {"type": "text", "text": text}


FIRST, SECOND = picture("first", width=4, height=4), picture("second", width=4, height=4)
A, B = data_uri(FIRST), data_uri(SECOND)
ALL = ["one", FIRST, "two", SECOND]
REPLIES: list[tuple[Message, list[str | bytes]]] = [
    ({"content": [text_part("one"), image_part(A), text_part("two"), image_part(B)]}, ALL),
    ({"content": [text_part("one"), text_part("two")]}, ["one", "two"]),
    ({"content": None, "images": [image_part(A), image_part(B)]}, [FIRST, SECOND]),
    ({"content": "one <image> two", "images": [image_part(A), image_part(B)]}, ALL),
    ({"content": f"one ![a]({A}) two ![b]({B})", "reasoning": "hm"}, ALL),
]
"""Messages with the texts and images that arrive."""


@pytest.fixture
def chat() -> Iterator[JudgeServer]:
    with JudgeServer(check=None, closes=True) as server:
        yield server


@pytest.fixture(autouse=True)
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the images of a run without ``--output_path``."""
    monkeypatch.setenv("MMIE_TASKS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "answers"


def ask(
    chat: JudgeServer, message: Message, name: str = "chat_images", usage: object = None
) -> GenerationResult:
    """The output of a model of the runner for a reply."""
    chat.says(completion(message, usage=usage))
    options = {"api_key": "none", "max_retries": 1, "retry_backoff_s": 0}
    model = get_model(name)(model="m", base_url=chat.url, **options)
    model.task_dict = {"t": {"test": [{"text": "Draw."}]}}
    arguments = ("", messages_of, {"max_new_tokens": 8}, 0, "t", "test")
    metadata = {"task": "t", "doc_id": 0, "repeats": 1}
    (output,) = model.generate_until([Instance("generate_until", arguments, 0, metadata)])
    return output


def messages_of(doc: Mapping[str, str]) -> list[Message]:
    return [{"role": "user", "content": [{"type": "text", "text": doc["text"]}]}]


def arriving(output: GenerationResult) -> object:
    """What the runner hands to ``process_results``, and writes to its log and its cache."""
    return unwrap_generation_output(output)[0]


def test_images_arrive_byte_for_byte_in_files_and_in_order(chat: JudgeServer) -> None:
    counts = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    for (message, expected), usage in itertools.product(REPLIES, (counts, None)):
        output = ask(chat, message, usage=usage)
        text = arriving(output)
        assert isinstance(text, str)
        assert len(text) < 1000
        segments = read_answer([text]).segments
        contents = [one.text or Path(str(one.image)).read_bytes() for one in segments]
        assert contents == expected, message
        if usage:
            assert output.token_counts is not None
            assert (output.token_counts.input_tokens, output.token_counts.output_tokens) == (7, 5)
        assert ResponseCache._is_valid_response(output, "generate_until")


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
    counts = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
    outputs = (ask(chat, message, name, counts) for name in ("chat_images", "openai"))
    assert [*map(arriving, outputs)] == [message["content"]] * 2
    assert not list(images.iterdir())


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        pytest.param(lambda: f"data:image/png;base64,{'A' * 10_000_000}", "unreadable", id="10 MB"),
        pytest.param(lambda: data_uri(FIRST[:-30]), "unreadable", id="cut off"),
        pytest.param(lambda: data_uri(header_only(20_000, 20_000)), "too_large", id="400 Mpx"),
        pytest.param(lambda: "https://example.com/a.png", "remote", id="a URL"),
        pytest.param(lambda: "/does/not/exist.png", "missing", id="a path"),
    ],
)
def test_an_image_that_cannot_be_used_is_counted_and_fills_neither_disk_nor_log(
    chat: JudgeServer, images: Path, reference: Callable[[], str], problem: str
) -> None:
    message = {"content": [text_part("one"), image_part(reference()), image_part(B)]}
    text = str(arriving(ask(chat, message)))
    assert len(text) < 2000
    segments = ImageResolver((), images).resolved(read_answer([text]).segments)
    assert segments[0].text == "one"
    assert [segment.problem for segment in segments if segment.image] == [problem, ""]
    assert [path.read_bytes() for path in images.iterdir()] == [SECOND]
