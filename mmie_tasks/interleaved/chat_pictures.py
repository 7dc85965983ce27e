"""Keeps pictures in the replies of chat servers for models of lmms-eval, which read only the text.

Servers of models that draw return pictures as parts of ``message.content``, also in a second choice
(vLLM-Omni), in ``message.images`` (OpenRouter), or as data URIs in the text.
"""

from __future__ import annotations

import functools
import inspect
from asyncio import to_thread
from collections.abc import Awaitable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from loguru import logger
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import answer_json, json_text
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.segment import Segment

_MAX_SHOWN_CHARACTERS = 300  # of a picture that cannot be used


def chat_completions(model: object) -> Any | None:  # noqa: ANN401 - of the OpenAI SDK or alike
    """The completions of a model's client of the OpenAI SDK; None without such a client."""
    try:
        completions = attrgetter("client.chat.completions")(model)
        return completions if callable(completions.create) else None
    except AttributeError:
        return None


def add_to_requests(model: object, fields: Mapping[str, object]) -> None:
    """Let a model's chat client, if any, add fields to every request; its own fields win."""
    if (completions := chat_completions(model)) is None or not fields:
        return
    create = completions.create

    @functools.wraps(create)
    def create_with_fields(
        *args: object, extra_body: Mapping[str, object] | None = None, **options: object
    ) -> object:
        return create(*args, extra_body={**fields, **(extra_body or {})}, **options)

    completions.create = create_with_fields


def keep_chat_pictures(model: object, folder: Path) -> bool:
    """Let the chat client of a model write pictures to files and return them as an answer in text.

    A client of the OpenAI SDK in ``client``, synchronous or not, is changed in place. In a reply
    with parts or pictures, ``content`` becomes the JSON that `read_answer` reads, with the path of
    every file. Everything else stays unchanged. A URL stays a URL. If a picture is damaged or too
    large, the beginning of its data URI stays, so that it is counted. Any number of threads and
    event loops may use the client.

    Args:
        model: A model of lmms-eval.
        folder: Folder for the files, which are named by the SHA-256 of their content.

    Returns:
        Whether the model has such a client. If not, `folder` is not created.

    Raises:
        SettingWrong: `folder` cannot be created.
    """
    completions = chat_completions(model)
    if completions is None:
        return False
    create = completions.create
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror or str(error)
        raise SettingWrong(
            f"The folder `{folder}` for pictures cannot be created: {problem}.",
            hint="name one that can",
        ) from error
    resolver = ImageResolver((), folder.absolute())

    @functools.wraps(create)
    def create_and_keep(*args: object, **options: object) -> object:
        reply = create(*args, **options)
        return (
            _keep_later(reply, resolver) if inspect.isawaitable(reply) else _keep(reply, resolver)
        )

    completions.create = create_and_keep
    return True


async def _keep_later(reply: Awaitable[object], resolver: ImageResolver) -> object:
    return await to_thread(_keep, await reply, resolver)


def _keep(reply: object, resolver: ImageResolver) -> object:
    """The same reply; if it has parts or pictures, the first message has the answer of all choices:
    a text with its ``images`` at the placeholders, or texts and pictures in order.
    """
    if not isinstance(reply, ChatCompletion) or not reply.choices:
        return reply
    messages = [choice.message for choice in reply.choices]
    listed = [_kept(url, resolver) for message in messages for url in _listed(message)]
    for message in messages if listed else ():
        (message.model_extra or {}).pop("images", None)  # they are in the content from here on
    if len(messages) == 1 and listed and isinstance(text := messages[0].content, str | None):
        messages[0].content = json_text({"text": text, "images": listed})
        return reply
    segments = [segment for message in messages for segment in _segments(message.content)]
    is_text = all(isinstance(message.content, str | None) for message in messages)
    if listed or not is_text or any(segment.image for segment in segments):
        kept = [replace(s, image=s.image and _kept(s.image, resolver)) for s in segments]
        messages[0].content = answer_json([*kept, *(Segment(image=image) for image in listed)])
    return reply


def _segments(content: object) -> Iterator[Segment]:
    """Texts and pictures of a message's content; a text is split at its data URIs."""
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str(text) | {"type": "text" | "output_text", "text": str(text)}:
                segments = read_answer([text]).segments if "data:image/" in text else ()
                has_images = any(segment.image for segment in segments)
                yield from segments if has_images else [Segment(text)]
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                yield Segment(image=url)


def _listed(message: ChatCompletionMessage) -> Iterator[str]:
    """The pictures in ``images`` of a message."""
    for part in (message.model_extra or {}).get("images") or ():
        match part:
            case {"image_url": {"url": str(url)}}:
                yield url


def _kept(url: str, resolver: ImageResolver) -> str:
    """The file of a picture in a data URI; the beginning of any other reference."""
    file = resolver.resolve(url)
    if file.path is None:
        logger.warning(f"A picture in a reply cannot be used: {file.detail}.")
        return url[:_MAX_SHOWN_CHARACTERS]
    return str(file.path)
