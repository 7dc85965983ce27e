"""``--model chat_images``: a model on a chat server that answers with text and images.

lmms-eval's model `openai` reads only ``message.content``. Here the images of a reply are also kept:
those in ``message.images`` (OpenRouter), parts of ``message.content``, also in a second choice
(vLLM-Omni), and data URIs in the text (gateways).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lmms_eval.api.instance import Instance
from lmms_eval.models.chat.openai import OpenAICompatible
from loguru import logger
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from mmie_tasks.answers.answer import read_answer
from mmie_tasks.answers.drawn import answer_json, json_text
from mmie_tasks.answers.images import ImageResolver
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.files import cache_dir
from mmie_tasks.record.segment import Segment
from mmie_tasks.runner.evaluation import running_evaluation

_MAX_SHOWN_CHARACTERS = 300  # of an image that cannot be used


class ChatImages(OpenAICompatible):  # type: ignore[misc]  # the runner is untyped
    """lmms-eval's chat model `openai`, whose answers keep the images of replies.

    Images are files in ``images`` in the run's folder, or in our cache without ``--output_path``.
    Files are named by the SHA-256 of their content. The answer to a reply with parts or images is
    the JSON that `read_answer` reads, with the paths of the files. Every other reply, and every
    failure, is what `openai` makes of it. A URL stays a URL. If an image is damaged or too large,
    the beginning of its data URI stays, so that it is counted.

    Args:
        modalities: ``modalities`` of every request, separated by ``;``: ``image;text``. None is
            sent by default.
        options: Those of `openai`: ``model``, ``base_url``, ``num_concurrent`` and others.
    """

    is_simple = False

    def __init__(self, *, modalities: str = "", **options: object) -> None:
        super().__init__(**options)
        self._modalities = re.findall(r"[^;\s]+", modalities)
        completions = self.client.chat.completions
        self._create = completions.create
        completions.create = self._create_and_keep  # `openai` calls it in its threads

    def generate_until(self, requests: Sequence[Instance]) -> list[object]:
        """Ask the server, and write the images of its replies to files.

        Raises:
            SystemExit: The folder of the images cannot be created.
        """
        folder = _image_folder()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = SettingWrong(
                f"The folder `{folder}` for images cannot be created: {error.strerror or error}.",
                hint="name another one with `--output_path`",
            )
            raise SystemExit(str(problem)) from None
        self._files = ImageResolver((), folder)
        return list(super().generate_until(requests))

    def _create_and_keep(self, **request: Any) -> object:  # noqa: ANN401 - the SDK's
        if self._modalities:
            request["modalities"] = self._modalities
        reply = self._create(**request)
        _keep_images(reply, self._files)
        return reply


def _image_folder() -> Path:
    """The folder for the images of this run."""
    evaluation = running_evaluation()
    folder = evaluation.output.folder if evaluation else None
    return (folder / "images" if folder else cache_dir(os.environ) / "answers").absolute()


def _keep_images(reply: ChatCompletion, files: ImageResolver) -> None:
    """Put the answer of all choices into the first message, if they have parts or images: a text
    with its ``images`` at the placeholders, or texts and images in order.
    """
    messages = [choice.message for choice in reply.choices or ()]
    listed = [_kept(url, files) for message in messages for url in _listed(message)]
    if len(messages) == 1 and listed and isinstance(text := messages[0].content, str | None):
        messages[0].content = json_text({"text": text, "images": listed})
        return
    segments = [segment for message in messages for segment in _segments(message.content)]
    is_text = all(isinstance(message.content, str | None) for message in messages)
    if listed or not is_text or any(segment.image for segment in segments):
        kept = [replace(s, image=s.image and _kept(s.image, files)) for s in segments]
        messages[0].content = answer_json([*kept, *(Segment(image=image) for image in listed)])


def _segments(content: object) -> Iterator[Segment]:
    """Texts and images of a message's content; a text is split at its data URIs."""
    for part in content if isinstance(content, list) else [content]:
        match part:
            case str(text) | {"type": "text" | "output_text", "text": str(text)}:
                segments = read_answer([text]).segments if "data:image/" in text else ()
                has_images = any(segment.image for segment in segments)
                yield from segments if has_images else [Segment(text)]
            case {"type": "image_url", "image_url": {"url": str(url)}}:
                yield Segment(image=url)


def _listed(message: ChatCompletionMessage) -> Iterator[str]:
    """The images in ``images`` of a message."""
    for part in (message.model_extra or {}).get("images") or ():
        match part:
            case {"image_url": {"url": str(url)}}:
                yield url


def _kept(url: str, files: ImageResolver) -> str:
    """The file of an image in a data URI; the beginning of any other reference."""
    file = files.resolve(url)
    if file.path is None:
        logger.warning(f"An image in a reply cannot be used: {file.detail}.")
        return url[:_MAX_SHOWN_CHARACTERS]
    return str(file.path)
