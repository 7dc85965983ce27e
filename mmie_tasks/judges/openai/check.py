"""The check of a judge's server before a run."""

from __future__ import annotations

import asyncio
import random
import re
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import openai
from loguru import logger

from mmie_tasks.core.log import warn
from mmie_tasks.core.wording import counted
from mmie_tasks.http.access import UNREACHABLE_HINT, Access
from mmie_tasks.http.attempt import Failure, Success
from mmie_tasks.http.client import async_client, run_in_thread
from mmie_tasks.http.errors import ServerError
from mmie_tasks.http.extra_fields import refusal_hint, refused_field
from mmie_tasks.http.model_list import list_models, nearest_names
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.rate_limit import LONGEST_WAIT_S, demand_text
from mmie_tasks.judges.base import JudgeMisconfigured, JudgeRequest, JudgeUnavailable
from mmie_tasks.judges.openai.chat_server import ChatServer
from mmie_tasks.judges.openai.dialect import Adaptations
from mmie_tasks.judges.openai.settings import OWN_ADDRESS_HINT, Settings
from mmie_tasks.judges.other_models import warn_of_others
from mmie_tasks.record.reply import JudgeReply

_IMAGE_HINT = (
    "it answers without images, and the benchmark's requests have up to {images}: choose a model "
    "that takes images; start vLLM with `--limit-mm-per-prompt '{{\"image\": {images}}}'`, "
    "llama.cpp with `--mmproj`"
)
_TIMEOUT_S = 30.0
_LIST_TIMEOUT_S = 5.0  # `list_models` waits at most twice as long
_QUESTION = "Which colours do the pictures have? Say yes if there are none."
_COLOURS = {
    "red": (220, 20, 20),
    "green": (20, 160, 40),
    "blue": (20, 40, 220),
    "yellow": (250, 230, 20),
    "black": (0, 0, 0),
    "white": (255, 255, 255),
}
_SPEAKS_OF_IMAGES = re.compile(
    rf"\b(?:yes|images?|pictures?|photos?|{'|'.join(_COLOURS)})\b", re.IGNORECASE
)
_SIDE_PX = 256  # models that count by size count more than `_LEAST_PER_IMAGE` tokens for it
_LEAST_PER_IMAGE = 40
"""Fewer prompt tokens per image mean that it was not read.

Models count 64 to 2,833 for a photograph: OpenAI 85 at low detail, Gemini 258 (64 at low
resolution), InternVL 256 per tile, Qwen-VL one per 28 x 28 pixels. The exception is Llama 3.2
Vision, whose images count as one token on Ollama (ollama #7592) and Amazon Bedrock (boto3 #4509).
"""


def check(
    settings: Settings,
    *,
    max_images: int = 0,
    pace: Pace | None = None,
    adaptations: Adaptations | None = None,
) -> None:
    """Check the server with a short chat request with the run's parameters.

    The request has an image, or two if the run's requests have several.

    Args:
        settings: The judge's settings.
        max_images: The most images in one request of the run.
        pace: Waiting times between attempts.
        adaptations: Updated with the parameters that the server accepts.

    Raises:
        JudgeMisconfigured: The key is missing or wrong, the model is unknown, or the server does
            not answer or does not take images.
    """
    if (missing_key := settings.access.missing_key(JudgeMisconfigured)) is not None:
        raise missing_key
    shared = (pace or Pace(), adaptations or Adaptations(dialect=settings.dialect))
    # The colours are random, because a model that sees no images may guess.
    colours = random.sample(list(_COLOURS), min(max_images, 2))
    with tempfile.TemporaryDirectory() as folder:
        images = _images(Path(folder), colours)
        ping = JudgeRequest(parts=(_QUESTION, *images), max_tokens=16)
        check_server = _problem(settings, ping, colours, max_images, *shared)
        if (problem := run_in_thread(check_server)) is not None:
            raise problem


def _images(folder: Path, colours: Sequence[str]) -> list[Path]:
    """Write one image per colour."""
    from PIL import Image  # not needed by a judge without images

    paths = []
    for number, colour in enumerate(colours, start=1):
        paths.append(folder / f"{number}.png")
        Image.new("RGB", (_SIDE_PX, _SIDE_PX), _COLOURS[colour]).save(paths[-1])
    return paths


async def _problem(
    settings: Settings,
    ping: JudgeRequest,
    colours: Sequence[str],
    max_images: int,
    pace: Pace,
    adaptations: Adaptations,
) -> JudgeMisconfigured | None:
    """Why the server cannot be used; None if it can be, or is busy."""
    address = settings.access.address
    access = replace(settings.access, timeout_s=min(_TIMEOUT_S, settings.access.timeout_s))
    async with async_client(access) as client:
        short = replace(settings, max_tokens=None, access=access)
        server = ChatServer(short, client, adaptations)
        failure = await _failure(server, ping, pace)
        if isinstance(failure, JudgeReply):
            _warn_if_blind(failure, colours, f"`{settings.model}` at {address}")
            warn_of_others(settings.signature, [failure.model], address)
            return None
        if failure is None:
            return None
        wait_s = max(failure.wait_s or 0.0, failure.pause_s or 0.0)
        longest_s = max(LONGEST_WAIT_S, settings.patience_s)
        if wait_s > longest_s:
            reason = f"{failure.reason.rstrip('.')}; {demand_text(wait_s, longest_s)}"
            failure = replace(failure, reason=reason)
        elif failure.kind == "busy":
            logger.warning(f"The judge at {address} is busy: {failure.reason}")
            return None
        problem = await _describe(settings, address, failure, client, access)
        if max_images and await _refuses_images(failure, server, ping, pace):
            hint = _IMAGE_HINT.format(images=max_images)
            return JudgeMisconfigured(problem.message, hint=hint)
        return problem


async def _refuses_images(
    failure: Failure, server: ChatServer, ping: JudgeRequest, pace: Pace
) -> bool:
    """Whether the same request succeeds without its images."""
    error = failure.error
    if error is None or error.status in (401, 402, 403) or error.is_quota:
        return False
    without = replace(ping, parts=ping.parts[:1])
    return not isinstance(await _failure(server, without, pace), Failure)


def _warn_if_blind(reply: JudgeReply, colours: Sequence[str], judge: str) -> None:
    """Warn if the prompt tokens or the words of a reply show that no image was seen."""
    tokens, images = reply.usage.input_tokens, counted(len(colours), "image")
    named = set(re.findall(r"[a-z]+", reply.text.lower())).intersection(colours)
    if len(named) == len(colours):
        return
    if 0 < tokens < len(colours) * _LEAST_PER_IMAGE:
        reason = f"its server counts {tokens} prompt tokens for a question with {images}"
    elif not named and reply.finish == "stop" and _SPEAKS_OF_IMAGES.search(reply.text):
        words = " ".join(reply.text.split())[:100]
        reason = f"asked for the colours of {images}, {' and '.join(colours)}, it replied `{words}`"
    else:
        return
    warn(f"The judge {judge} may not see images: {reason}.", hint="a model that takes images")


async def _failure(
    server: ChatServer, ping: JudgeRequest, pace: Pace
) -> Failure | JudgeReply | None:
    """The reply after some retries, or why there is none; None for a reply without text."""
    for wait_s in (*pace.check_s, None):
        match await server.attempt(ping):
            case Success(reply=JudgeUnavailable() as incomplete):
                failure = Failure(kind="failed", reason=str(incomplete))
            case Success(reply=JudgeReply() as reply):
                return reply
            case Success():
                return None
            case Failure() as failure:
                pass
        if failure.kind != "failed" or wait_s is None:
            break
        await asyncio.sleep(wait_s)
    return failure


async def _describe(
    settings: Settings, address: str, failure: Failure, client: openai.AsyncOpenAI, access: Access
) -> JudgeMisconfigured:
    judge = f"The judge `{settings.model}` at {address}"
    if failure.kind == "timed_out":
        return JudgeMisconfigured(
            f"{judge} gave no answer in time (at most {access.timeout_s:g} s).",
            hint=f"run again once its model is loaded; if it is not running, {UNREACHABLE_HINT}",
        )
    if (error := failure.error) is None:
        return JudgeMisconfigured(
            f"{judge} is not reachable: {failure.reason}.", hint=UNREACHABLE_HINT
        )
    message = f"{judge} cannot be used: it answered {failure.reason.rstrip('.')}."
    if not error.is_model:
        return JudgeMisconfigured(message, hint=_hint(error, settings))
    short = replace(access, timeout_s=min(_LIST_TIMEOUT_S, access.timeout_s))
    models = await list_models(client, short)
    if isinstance(models, Failure) or not models:
        return JudgeMisconfigured(message, hint="name a model that this server has: `model=...`")
    nearest = nearest_names(settings.model, models)
    names = ", ".join(f"`{name}`" for name in nearest)
    hint = f"`model={nearest[0]}`"
    if variable := access.shared_variable:
        names += f"; the address is from `{variable}`"
        hint = f"{OWN_ADDRESS_HINT}; or {hint}"
    return JudgeMisconfigured(f"{message} It has {names}.", hint=hint)


def _hint(error: ServerError, settings: Settings) -> str:
    if name := refused_field(error, settings.extra_fields):
        return refusal_hint(name, settings.extra_fields, error)
    if error.is_quota or error.status == 402:
        return "the account has no credit left: top it up, or use another account's key"
    if error.is_key or error.status == 403:
        return settings.access.key_hint
    if error.status in (404, 405):
        return "correct `base_url=`; most end in `/v1`"
    if error.status == 429:
        return "run again then, use another server or account, or wait with a longer `patience=`"
    if error.status >= 500:
        return "check the server, or try again later"
    return "change the option that it rejects: `model=`, `temperature=`, `api_version=`"
