"""The check of a judge's server before a run."""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from loguru import logger

from mmie_tasks.core.log import warn
from mmie_tasks.http.access import similar_names
from mmie_tasks.http.errors import TIMED_OUT, Fault
from mmie_tasks.http.sender import LONGEST_WAIT_S
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, Outcome
from mmie_tasks.judges.openai.chat import Chat
from mmie_tasks.judges.openai.settings import OWN_ADDRESS_HINT
from mmie_tasks.judges.other_models import warn_of_others
from mmie_tasks.record.reply import JudgeReply

_IMAGE_HINT = (
    "choose a model that takes {images} images in a request; start vLLM with "
    "`--limit-mm-per-prompt '{{\"image\": {images}}}'`, llama.cpp with `--mmproj`"
)
_TIMEOUT_S = 30.0
_LEAST_PER_IMAGE = 40
"""Fewer prompt tokens per image mean that it was not read.

Models count 64 to 2,833 for a photograph: OpenAI 85 at low detail, Gemini 258 (64 at low
resolution), InternVL 256 per tile, Qwen-VL one per 28 x 28 pixels. The exception is Llama 3.2
Vision, whose images count as one token on Ollama (ollama #7592) and Amazon Bedrock (boto3 #4509).
"""
_SIDE_PX = 256  # models that count by size count more than `_LEAST_PER_IMAGE` tokens for it
_QUESTION = "Which colours do the pictures have? Say yes if there are none."
_COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 230, 20),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}


def check(chat: Chat, signature: Mapping[str, object], max_images: int = 0) -> None:
    """Check the server with a short chat request with the run's parameters.

    The request has an image, or two if the run's requests have several. The log warns of a judge
    that does not name their colours, which are random, and of another model that replies.

    Args:
        chat: Gets the parameters that the server accepts.
        signature: The judge's.
        max_images: The most images in one request of the run.

    Raises:
        JudgeMisconfigured: The key is missing or wrong, the model is unknown, or the server does
            not answer or does not take images.
        SettingWrong: A proxy variable of the environment cannot be used.
    """
    access = chat.sender.access
    if (missing_key := access.missing_key(JudgeMisconfigured)) is not None:
        raise missing_key
    colours = random.sample(list(_COLOURS), min(max_images, 2))
    timeout_s = min(_TIMEOUT_S, access.timeout_s)
    short = Chat(
        chat.options.model_copy(update={"max_tokens": None}),
        replace(chat.sender, access=replace(access, timeout_s=timeout_s)),
    )
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        request = JudgeRequest(parts=(_QUESTION, *_images(Path(folder), colours)), max_tokens=50)
        try:  # in a thread: a notebook's has a loop already
            outcome = thread.submit(asyncio.run, _send(short, request)).result()
        except Fault as fault:
            longest_s = max(LONGEST_WAIT_S, chat.sender.patience_s)
            if fault.kind != "busy" or (fault.wait_s or 0.0) > longest_s:
                raise _misconfigured(chat, fault, max_images) from None
            logger.warning(f"The judge at {access.address} is busy: {fault}")
            return
    chat.dialect = short.dialect
    if isinstance(outcome, JudgeReply):
        _warn_if_blind(outcome, colours, f"`{chat.options.model}` at {access.address}")
        warn_of_others(signature, [outcome.model], access.address)


def _images(folder: Path, colours: list[str]) -> list[Path]:
    """Write one image per colour."""
    from PIL import Image  # not needed by a judge without images

    paths = [folder / f"{number}.png" for number in range(len(colours))]
    for path, colour in zip(paths, colours, strict=True):
        Image.new("RGB", (_SIDE_PX, _SIDE_PX), _COLOURS[colour]).save(path)
    return paths


async def _send(chat: Chat, request: JudgeRequest) -> Outcome:
    """The outcome, after some retries; a server that loads its model is waited for.

    Raises:
        Fault: There is no reply.
    """
    access, pace = chat.sender.access, chat.sender.pace
    end = time.monotonic() + chat.sender.patience_s
    waits_s = list(pace.check_s)
    is_loading = False
    async with access.async_client() as client:
        while True:
            try:
                return await chat.send(client, request)
            except Fault as fault:
                if fault.status == 503 and time.monotonic() < end:
                    if not is_loading:
                        is_loading = True
                        patience = f"{chat.sender.patience_s:g} s (`patience=`)"
                        logger.info(f"{access.service} is waited for, up to {patience}: {fault}")
                    wait_s = max(pace.check_s)
                elif fault.kind != "failed" or str(fault) == TIMED_OUT or not waits_s:
                    raise
                else:
                    wait_s = waits_s.pop(0)
            await asyncio.sleep(wait_s)


def _warn_if_blind(reply: JudgeReply, colours: list[str], judge: str) -> None:
    """Warn if neither the words nor the prompt tokens of a reply show that images were seen."""
    named = set(re.findall(r"[a-z]+", reply.text.lower())).intersection(colours)
    tokens = reply.usage.input_tokens
    is_counted_too_low = 0 < tokens < len(colours) * _LEAST_PER_IMAGE
    if len(named) < len(colours) and (is_counted_too_low or (not named and reply.finish == "stop")):
        warn(
            f"The judge {judge} may not see images: asked for the colours of some, "
            f"{' and '.join(colours)}, it replied `{' '.join(reply.text.split())[:100]}`, and its "
            f"server counted {tokens} prompt tokens.",
            hint="a model that takes images",
        )


def _misconfigured(chat: Chat, fault: Fault, max_images: int) -> JudgeMisconfigured:
    """The error for a fault, with the server's words and one hint."""
    access, model = chat.sender.access, chat.options.model or ""
    message = f"The judge `{model}` at {access.address} cannot be used: {str(fault).rstrip('.')}."
    names: list[str] = []
    if fault.status in (400, 404):
        with suppress(Fault):
            names = access.model_names()
    if names and model not in names:
        similar = similar_names(model, names)
        hint, source = f"`model={similar[0]}`", ""
        if access.shared_variable:
            hint = f"{OWN_ADDRESS_HINT}; or {hint}"
            source = f"; the address is from `{access.shared_variable}`"
        listed = ", ".join(f"`{name}`" for name in similar)
        return JudgeMisconfigured(f"{message} It has {listed}{source}.", hint=hint)
    return JudgeMisconfigured(message, hint=_hint(chat, fault, max_images))


def _hint(chat: Chat, fault: Fault, max_images: int) -> str:
    access = chat.sender.access
    if max_images and re.search("image|vision|multimodal", str(fault), re.IGNORECASE):
        return _IMAGE_HINT.format(images=max_images)
    if fault.kind == "denied" and fault.status not in (404, 405):
        variables = ", ".join(f"`{name}`" for name in access.key_variables)
        return f"correct the key, from {variables}, or the credit of its account"
    if fault.status in (400, 413, 422):
        return "change the option that it rejects: `model=`, `temperature=`, `extra_body=`"
    if fault.status == 429:
        wait = f"{(fault.wait_s or 0.0) / 60:,.0f} min"
        return f"run again after the wait that it demands, {wait}, or use another account"
    return access.unreachable_hint
