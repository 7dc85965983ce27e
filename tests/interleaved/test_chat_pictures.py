"""Pictures in the replies of chat servers: what models of lmms-eval make of them, alone and with
`chat_pictures`.
"""

from __future__ import annotations

import base64
import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lmms_eval.api.instance import GenerationResult, Instance, unwrap_generation_output
from lmms_eval.caching.response_cache import ResponseCache
from lmms_eval.models import get_model
from openai import OpenAI
from PIL import Image
from support.judge_server import Body, JudgeServer
from support.pictures import header_only

from mmie_tasks.answers.answer import Answer, read_answer
from mmie_tasks.answers.images import ImageFile, ImageResolver
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.interleaved.chat_pictures import add_to_requests, keep_chat_pictures

Message = Mapping[str, object]

USAGE = {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}
SENTINEL = "[LMMS_EVAL_REQUEST_FAILED after 1 retries] '{}' object has no attribute 'split'"
NO_TEXT = 'Error: can only concatenate str (not "{}") to str'
MODELS = [
    pytest.param("openai", False, id="openai"),
    pytest.param("openai", True, id="openai-simple"),
    pytest.param("async_openai", False, id="async_openai"),
]


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


def model_for(chat: JudgeServer, name: str, simple: bool, **options: object) -> Any:
    model = get_model(name, force_simple=simple)(
        model="m", base_url=chat.url, api_key="none", max_retries=1, retry_backoff_s=0, **options
    )
    assert model.is_simple is simple
    return model


def ask(model: Any, count: int = 1) -> list[GenerationResult]:
    """The model's outputs to `count` requests, whose texts are their numbers."""
    model.task_dict = {"t": {"test": [{"text": str(i)} for i in range(count)]}}
    requests = []
    for i in range(count):
        arguments: tuple[object, ...] = ("", messages_of, {"max_new_tokens": 8}, i, "t", "test")
        if model.is_simple:
            arguments = (str(i), {"max_new_tokens": 8}, lambda _: [], i, "t", "test")
        requests.append(
            Instance("generate_until", arguments, i, {"task": "t", "doc_id": i, "repeats": 1})
        )
    return list(model.generate_until(requests))


def messages_of(doc: Mapping[str, str]) -> list[Message]:
    return [{"role": "user", "content": [{"type": "text", "text": doc["text"]}]}]


def number_in(request: Mapping[str, Any]) -> int:
    return int(request["messages"][0]["content"][0]["text"])


def arriving(output: GenerationResult) -> object:
    """What the runner hands to ``process_results``, and writes to its log and its cache."""
    result, _ = unwrap_generation_output(output)
    assert json.loads(json.dumps(result)) == result
    return result


def contents(answer: Answer) -> list[str | bytes]:
    """The texts and the bytes of the pictures, in order."""
    return [
        Path(value).read_bytes() if value is segment.image else value
        for segment in answer.segments
        for value in (segment.text, segment.image)
        if value
    ]


# What lmms-eval 0.7.3 makes of such replies without us. `answers/README.md` says which servers need
# the wrapper.


@pytest.mark.parametrize(
    ("name", "simple", "reply", "with_usage", "without_usage"),
    [
        ("openai", False, "parts", PARTS["content"], SENTINEL.format("list")),
        ("openai", False, "null and images", None, SENTINEL.format("NoneType")),
        ("openai", True, "parts", "onetwo", "onetwo"),
        ("openai", True, "text and images", "one <image> two", "one <image> two"),
        ("async_openai", False, "parts", NO_TEXT.format("list"), NO_TEXT.format("list")),
    ],
    ids=lambda value: str(value)[:16],
)
def test_alone_only_the_chat_model_openai_passes_pictures_on_and_only_of_a_reply_in_parts(
    chat: JudgeServer,
    name: str,
    simple: bool,
    reply: str,
    with_usage: object,
    without_usage: object,
) -> None:
    model = model_for(chat, name, simple)
    for usage, expected in ((USAGE, with_usage), (None, without_usage)):
        chat.says(body_of([REPLIES[reply]], usage))
        (output,) = ask(model)
        assert arriving(output) == expected


# With the wrapper.


@pytest.mark.parametrize(("name", "simple"), MODELS)
def test_pictures_arrive_byte_for_byte_in_files_and_in_order(
    chat: JudgeServer, tmp_path: Path, name: str, simple: bool
) -> None:
    model = model_for(chat, name, simple)
    assert keep_chat_pictures(model, tmp_path / "pictures")
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
    ("messages", "expected"),
    [
        pytest.param(
            [{"content": "one"}, {"content": [image_part(A)]}],
            ["one", png(1)],
            id="vLLM-Omni: text and picture in two choices",
        ),
        pytest.param(
            [{"content": [image_part(A)]}, {"content": "one"}],
            [png(1), "one"],
            id="vLLM-Omni: the picture first",
        ),
        pytest.param([{"content": f"one {A} two"}], ["one", png(1), "two"], id="URI in prose"),
        pytest.param(
            [{"content": [text_part("one"), {"type": "audio"}], "images": [image_part(A)]}],
            ["one", png(1)],
            id="parts and images",
        ),
    ],
)
def test_pictures_are_read_where_servers_put_them(
    chat: JudgeServer, tmp_path: Path, messages: Sequence[Message], expected: object
) -> None:
    chat.says(body_of(messages))
    answer = read_answer([completion(client_of(chat, tmp_path)).choices[0].message.content])
    assert contents(answer) == expected


@pytest.mark.parametrize(("name", "simple"), MODELS)
def test_many_requests_at_once_get_their_own_pictures_and_a_second_run_writes_no_file(
    chat: JudgeServer, tmp_path: Path, name: str, simple: bool
) -> None:
    def reply(request: Mapping[str, Any]) -> Message:
        number = number_in(request)
        return {
            "content": str(number),
            "images": [image_part(data_uri(png(number))), image_part(A)],
        }

    chat.says(lambda request: body_of([reply(request)]))
    concurrency = {"num_cpus": 8} if name == "async_openai" else {"num_concurrent": 8}
    files: list[dict[str, int]] = []
    for _ in range(2):
        model = model_for(chat, name, simple, **concurrency)
        assert keep_chat_pictures(model, tmp_path)
        for number, output in enumerate(ask(model, 60)):
            pictures = [png(number), png(1)] if number != 1 else [png(1), png(1)]
            assert contents(read_answer([arriving(output)])) == [str(number), *pictures]
        files.append({path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()})
    assert files[0] == files[1]
    assert len(files[0]) == 60


def test_a_reply_without_pictures_is_not_changed(chat: JudgeServer, tmp_path: Path) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages: list[Message] = [
        {"content": "A fox."},
        {"content": "out/a.png"},
        {"content": "see ![a](https://example.com/a.png)", "images": []},
        {"content": '{"text": "A", "images": ["/o/a.png"]}', "images": None},
        {"content": None, "refusal": "No.", "reasoning": "hm"},
        {"content": "", "tool_calls": [call]},
        {"content": "A fox.", "b64_json": None, "part": {"inlineData": ""}},
    ]
    plain, wrapped = client_of(chat), client_of(chat, tmp_path)
    for message in messages:
        chat.says(body_of([message]))
        assert completion(wrapped).model_dump_json() == completion(plain).model_dump_json()
    assert not list(tmp_path.iterdir())


def client_of(chat: JudgeServer, folder: Path | None = None) -> OpenAI:
    """A client of the SDK, wrapped if there is a folder for pictures."""
    client = OpenAI(api_key="none", base_url=chat.url, max_retries=0)
    assert folder is None or keep_chat_pictures(SimpleNamespace(client=client), folder)
    return client


def completion(client: OpenAI) -> Any:
    return client.chat.completions.create(model="m", messages=[])


def test_everything_else_in_a_reply_stays_and_a_second_wrapper_changes_nothing(
    chat: JudgeServer, tmp_path: Path
) -> None:
    message = {**REPLIES["text and images"], "reasoning": "hm", "refusal": None}
    chat.says(body_of([message], USAGE))
    client = client_of(chat, tmp_path)
    assert keep_chat_pictures(SimpleNamespace(client=client), tmp_path)
    wrapped = completion(client).model_dump(warnings=False)
    plain = completion(client_of(chat)).model_dump(warnings=False)
    message = wrapped["choices"][0]["message"]
    answer = read_answer([message.pop("content")])
    assert contents(answer) == ["one", png(1), "two", png(2)]
    for name in ("content", "images"):
        plain["choices"][0]["message"].pop(name)
    assert wrapped == plain


@pytest.mark.parametrize(("name", "simple"), MODELS)
def test_the_extra_body_is_in_every_request_and_the_models_own_keys_stay(
    chat: JudgeServer, tmp_path: Path, name: str, simple: bool
) -> None:
    own = {"enable_thinking_kwarg": False} if (name, simple) == ("openai", False) else {}
    model = model_for(chat, name, simple, **own)
    extra_body = {"modalities": ["image", "text"], "chat_template_kwargs": {"a": 1}}
    assert keep_chat_pictures(model, tmp_path)
    add_to_requests(model, extra_body)
    ask(model, 2)
    assert [request["modalities"] for request in chat.asked] == [["image", "text"]] * 2
    expected = {"enable_thinking": False} if own else {"a": 1}
    assert [request["chat_template_kwargs"] for request in chat.asked] == [expected] * 2


def test_a_model_without_a_chat_client_is_left_alone(tmp_path: Path) -> None:
    engine = SimpleNamespace(chat=print)  # an engine with a method of that name
    for attributes in ({}, {"client": None}, {"client": engine}):
        assert not keep_chat_pictures(SimpleNamespace(**attributes), tmp_path / "pictures")
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_created_is_a_clear_error(
    chat: JudgeServer, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingWrong, match="file/pictures"):
        client_of(chat, tmp_path / "file" / "pictures")


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
def test_a_picture_that_cannot_be_used_is_counted_and_fills_neither_disk_nor_log(
    chat: JudgeServer, tmp_path: Path, reference: Callable[[], str], problem: str
) -> None:
    url = reference()
    chat.says(body_of([{"content": [text_part("one"), image_part(url), image_part(B)]}]))
    text = completion(client_of(chat, tmp_path)).choices[0].message.content
    assert len(text) < 2000
    segments = read_answer([text]).segments
    assert segments[0].text == "one"
    files = [resolved(segment.image, tmp_path) for segment in segments if segment.image]
    assert [file.problem for file in files] == [problem, ""]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [png(2)]


def resolved(reference: str, folder: Path) -> ImageFile:
    return ImageResolver((), folder).resolve(reference)


def test_a_failure_in_parts_is_a_failure(chat: JudgeServer, tmp_path: Path) -> None:
    chat.says(body_of([{"content": [text_part("[ERROR] no")]}]))
    text = completion(client_of(chat, tmp_path)).choices[0].message.content
    assert read_answer([text]).failure
