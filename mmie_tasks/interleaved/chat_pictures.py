"""Keeps pictures in the replies of chat servers for models of lmms-eval, which read only the text.

Servers of models that draw return pictures as parts of ``message.content``, in a second choice
(vLLM-Omni), in ``message.images`` (OpenRouter) or ``message.image`` (LiteLLM), as parts of OpenAI's
responses or Gemini's, or as data URIs in the text. Pictures in other fields of a choice or of the
reply are read as if they were in the first message. The table in
``tests/interleaved/test_chat_pictures.py`` has what the models of lmms-eval 0.7.3 make of such
replies.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from asyncio import to_thread
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from loguru import logger
from openai.types.chat import ChatCompletion, ChatCompletionMessage
from pydantic import BaseModel

from mmie_tasks.answers.content_json import content_json
from mmie_tasks.answers.failures import not_an_answer
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.answers.objects import IMAGES_KEY
from mmie_tasks.answers.parsed_answer import ParsedAnswer
from mmie_tasks.answers.parser import parse_answer
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.record.segment import Segment

_PARTS_FIELDS = ("output", "parts")  # in responses of OpenAI, of Gemini
_PICTURE = re.compile(r'data:image/|"(?:b64_json|inlineData|inline_data)": (?!null|"")')
_MAX_HEAD_CHARACTERS = 300
_MAX_BASE64_CHARACTERS = 400  # a multiple of 4; enough for the picture's size in most headers


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
    with pictures, or with a content that is not text, ``content`` becomes the JSON that
    `parse_answer` reads, with the path of every file. Everything else stays unchanged. A URL stays
    a URL. If a picture is damaged or too large, the beginning of its data URI stays, so that it is
    counted. Any number of threads and event loops may use the client.

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
    """The same reply; if it has pictures, the first message becomes the answer of all choices.

    vLLM-Omni sends text and pictures in two choices.
    """
    if not isinstance(reply, ChatCompletion) or not reply.choices:
        return reply
    messages = [choice.message for choice in reply.choices if choice.message is not None]
    if not messages:
        return reply
    outer_fields = [field for part in (reply, *reply.choices) for field in _picture_fields(part)]
    contents = [_content(messages[0], outer_fields), *map(_content, messages[1:])]
    answer = parse_answer([content for content in contents if content is not None] or [None])
    is_text = all(isinstance(content, str | None) for content in contents)
    images = [segment.image for segment in answer.segments if segment.image]
    if not is_text or any(map(_is_data_uri, images)):
        messages[0].content = _written(answer, resolver)
        if getattr(messages[0], IMAGES_KEY, None):
            setattr(messages[0], IMAGES_KEY, None)
    return reply


def _picture_fields(part: BaseModel) -> list[tuple[str, object]]:
    """The fields with pictures that the SDK does not know."""
    fields = (part.model_extra or {}).items()
    return [field for field in fields if _PICTURE.search(json.dumps(dict([field]), default=str))]


def _content(
    message: ChatCompletionMessage, outer_fields: Sequence[tuple[str, object]] = ()
) -> object:
    """The text of a message, or an object for `parse_answer`, with fields from outside the message;
    None if it has no content.
    """
    fields = message.model_dump(warnings=False)
    for name, value in outer_fields:
        fields[name] = _listed(fields.get(name)) + _listed(value)
    if image := fields.pop("image", None):
        fields[IMAGES_KEY] = _listed(fields.get(IMAGES_KEY)) + _listed(image)
    for name in _PARTS_FIELDS:
        if isinstance(fields.get(name), list) and not fields.get("content"):
            fields["content"] = fields.pop(name)
    content = fields.get("content")
    is_text = isinstance(content, str | None) and not fields.get(IMAGES_KEY)
    return content if is_text and not outer_fields and not _picture_fields(message) else fields


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else [value] if value else []


def _written(answer: ParsedAnswer, resolver: ImageResolver) -> str:
    """The JSON that `parse_answer` reads as this answer, with the same counts."""
    if answer.failure:
        return not_an_answer(answer.failure)
    segments = [
        replace(segment, image=segment.image and _file_of(segment.image, resolver))
        for segment in answer.segments
    ]
    # An object without a text or an image would not be an answer.
    segments = segments or [Segment(text="")]
    # `parse_answer` counts placeholders, and images without a place, only if images are listed. All
    # images are listed or none, since next to others they might get a place.
    listed = segments[len(segments) - answer.unplaced_images :]
    has_others = listed != [segment for segment in segments if segment.image]
    listed = [] if has_others or answer.unfilled_placeholders else listed
    has_list = answer.unfilled_placeholders or listed
    fields = {IMAGES_KEY: [segment.image for segment in listed]} if has_list else None
    parts = segments[: len(segments) - len(listed)]
    return content_json(parts, more_parts=_parts_to_count(answer), fields=fields)


def _parts_to_count(answer: ParsedAnswer) -> list[Mapping[str, object]]:
    """Parts that give the counts of this answer again, since lmms-eval passes on only a text."""
    unread = answer.unread.items()
    parts = [{"type": name, name: {"not_read": ["x"] * count}} for name, count in unread]
    return [*parts, *[{"type": "thinking"}] * answer.thinking_removed]


def _file_of(reference: str, resolver: ImageResolver) -> str:
    """The file of a picture in a data URI; other references unchanged."""
    if not _is_data_uri(reference):
        return reference
    file = resolver.resolve(reference)
    if file.path:
        return str(file.path)
    logger.warning(f"A picture in a reply cannot be used: {file.detail}.")
    head, comma, encoded = reference.partition(",")
    return head[:_MAX_HEAD_CHARACTERS] + comma + encoded[:_MAX_BASE64_CHARACTERS]


def _is_data_uri(reference: str) -> bool:
    return reference[:5].lower() == "data:"
