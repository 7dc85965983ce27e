"""The drawer `images`: servers of ``/v1/images/generations``, such as OpenAI, vLLM-Omni and
SGLang-Diffusion.

Requests are sent and retried like those of the `openai` judge: see `http.send_all`.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from typing import Annotated, TypeAlias

import openai
from loguru import logger
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.http import access as http_access
from mmie_tasks.http import client as http_client
from mmie_tasks.http.access import Access
from mmie_tasks.http.attempt import Failure, Success
from mmie_tasks.http.bodies import json_list, json_object, parse_json
from mmie_tasks.http.budget import Budget
from mmie_tasks.http.errors import UnusableBody, read_server_error, redact
from mmie_tasks.http.model_list import check_model_lists
from mmie_tasks.http.pace import Pace
from mmie_tasks.http.send_all import send_all
from mmie_tasks.http.sender import Sender, Undelivered
from mmie_tasks.interleaved.drawer import (
    DrawerMisconfigured,
    DrawerRefused,
    DrawerUnavailable,
    DrawingError,
    DrawingOverBudget,
    Picture,
    PictureRequest,
    PictureUnusable,
    drawer_signature,
)
from mmie_tasks.interleaved.pictures import MAX_SIDE_PX, parse_size, picture_of

_KEY_VARIABLES = ("OPENAI_API_KEY",)
_URL_VARIABLES = ("OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")

_MAX_BODY_BYTES = 96 * 2**20  # a PNG of 4096 x 4096 pixels as base64

_OPTIONAL = ("response_format", "seed")  # left out where a server does not know them
_CHOSEN = re.compile(r"\b(?:size|quality|num_inference_steps|guidance_scale|negative_prompt)\b")


_DrawnPicture: TypeAlias = Picture | DrawingError


class _RemotePicture(PictureUnusable):
    """The reply has the address of a picture, which is not fetched; a retry would not help."""


class ImageOptions(ChoiceOptions):
    """The options of the drawer `images`; the README of this folder describes them."""

    model: Annotated[str, Field(min_length=1)]
    base_url: str | None = None
    size: str | None = None
    max_side_px: NonNegativeInt = MAX_SIDE_PX
    api_key_env: str | None = None
    timeout: PositiveFloat = 300.0
    patience: PositiveFloat = 120.0
    max_concurrency: PositiveInt = 20
    price: PositiveFloat | None = None
    max_cost: PositiveFloat | None = None
    quality: str | None = None
    steps: PositiveInt | None = None
    guidance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    negative_prompt: str | None = None


def open_server(options: ImageOptions, environment: Mapping[str, str]) -> ImageServer:
    """Open the drawer; no request is sent yet.

    Raises:
        SettingWrong: An option or variable has an invalid value.
        DrawerMisconfigured: The size cannot be drawn.
    """
    if options.max_cost is not None and options.price is None:
        raise SettingWrong(
            "The drawer option `max_cost` needs a price.",
            hint="add `price=` in US dollars per picture",
        )
    needs_1024_px = "gpt-image-" in options.model or "dall-e-3" in options.model
    width, height = parse_size(options.size or ("1024x1024" if needs_1024_px else "512x512"))
    address = options.base_url or http_access.first_of(environment, _URL_VARIABLES)
    key_variables = _KEY_VARIABLES if options.api_key_env is None else (options.api_key_env,)
    parameters = {
        "size": f"{width}x{height}",
        "quality": options.quality,
        "num_inference_steps": options.steps,
        "guidance_scale": options.guidance,
        "negative_prompt": options.negative_prompt,
    }
    return ImageServer(
        access=Access(
            service=f"The drawer `{options.model}`",
            base_url=http_access.read_base_url("drawer", address),
            api_key=http_access.read_key("drawer", options.api_key_env, key_variables, environment),
            key_variables=key_variables,
            timeout_s=options.timeout,
        ),
        model=options.model,
        parameters={name: value for name, value in parameters.items() if value is not None},
        max_side_px=options.max_side_px,
        max_concurrency=options.max_concurrency,
        patience_s=options.patience,
        price_usd=options.price,
        budget=Budget(
            max_cost_usd=http_access.cost_share_usd(options.max_cost, environment),
            price_usd=options.price,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ImageServer:
    """Requests pictures from a server.

    Attributes:
        parameters: The parameters of requests that options set, as servers name them.
        price_usd: Price of a picture; None if unknown.
        budget: What this process may spend in the object's lifetime.
    """

    access: Access
    model: str
    parameters: Mapping[str, object]
    max_side_px: int
    max_concurrency: int
    patience_s: float
    price_usd: float | None
    budget: Budget
    pace: Pace = field(default_factory=Pace)
    _omitted: set[str] = field(init=False, default_factory=set)
    """Parameters that the server does not know."""

    @property
    def signature(self) -> str:
        """Everything that can change a picture; the host as in the signature of a judge."""
        values = dict(self.parameters)
        if "negative_prompt" in values:
            words = str(values["negative_prompt"])
            values["negative_prompt"] = sha256(words.encode()).hexdigest()[:12]
        values["stored"] = f"{self.max_side_px}px"
        values["host"] = self.access.foreign_host
        return drawer_signature("images", **{"model": self.model, **values})

    @property
    def storage_signature(self) -> str:
        """See `Drawer.storage_signature`."""
        server = self.access.storage_name
        return self.signature if server is None else f"{self.signature},servers={server}"

    def check(self) -> None:
        """See `Drawer.check`: a missing or denied key, or a server that cannot be reached."""
        check_model_lists(self.access, self.model, self.pace.check_s, DrawerMisconfigured)

    def draw(
        self, requests: Sequence[PictureRequest]
    ) -> Generator[tuple[int, _DrawnPicture], None, None]:
        """See `Drawer.draw`. Nothing is sent before the first `next`; closing cancels the requests
        in flight.
        """
        if (missing_key := self.access.missing_key(DrawerMisconfigured)) is not None:
            yield from ((index, missing_key) for index in range(len(requests)))
            return
        if not requests:
            return
        sender = Sender(
            access=self.access,
            budget=self.budget,
            max_concurrency=self.max_concurrency,
            patience_s=self.patience_s,
            pace=self.pace,
        )
        results = send_all(requests, lambda client: partial(self._attempt, client), sender)
        for index, result in results:
            if isinstance(result, Undelivered):
                yield index, _undrawn(result, self.access.service)
            else:
                yield index, result

    def close(self) -> None:
        """Do nothing: a server uses no memory of this machine."""

    async def _attempt(
        self, client: openai.AsyncOpenAI, request: PictureRequest
    ) -> Success[_DrawnPicture] | Failure:
        """Send a request, again at once without parameters that the server does not know.

        They are remembered after a success, so an error of another cause changes nothing.
        """
        omitted = _unknown_to(self.model) | self._omitted
        result = await self._send(client, request, omitted)
        while rejected := _unknown_parameters(result) - omitted:
            omitted |= rejected
            result = await self._send(client, request, omitted)
        if isinstance(result, Success) and not omitted <= _unknown_to(self.model) | self._omitted:
            self._omitted.update(omitted)
            names = " and ".join(f"`{name}`" for name in sorted(omitted))
            drawer = f"{self.access.service} at {self.access.address}"
            logger.warning(f"{drawer} now gets no {names}: it does not know them.")
        return result

    async def _send(
        self, client: openai.AsyncOpenAI, request: PictureRequest, omitted: frozenset[str]
    ) -> Success[_DrawnPicture] | Failure:
        secrets = self.access.secrets
        parameters = {
            "n": 1,
            "response_format": "b64_json",
            "seed": request.seed,
            **self.parameters,
        }
        body = {name: value for name, value in parameters.items() if name not in omitted}
        outcome: _DrawnPicture
        try:
            content, pause_s = await http_client.receive(
                client.images.with_streaming_response.generate(
                    model=self.model, prompt=replace_surrogates(request.prompt), extra_body=body
                ),
                self.access.timeout_s,
                _MAX_BODY_BYTES,
            )
        except UnusableBody as error:
            outcome, pause_s = PictureUnusable(redact(str(error), secrets)), None
        except http_client.ATTEMPT_ERRORS as error:
            failure = http_client.failure_from_error(error, secrets)
            return replace(failure, kind="denied") if _is_wrong_option(failure) else failure
        else:
            outcome = await asyncio.to_thread(read_reply, content, self.max_side_px, secrets)
        is_final = not isinstance(outcome, PictureUnusable) or isinstance(outcome, _RemotePicture)
        return Success(reply=outcome, is_final=is_final, cost_usd=self.price_usd, pause_s=pause_s)


def _undrawn(undelivered: Undelivered, service: str) -> DrawingError:
    match undelivered.cause:
        case "denied":
            return DrawerMisconfigured(
                f"{service} denies access: {undelivered.reason}",
                hint="correct that, then run again: the pictures so far are stored",
            )
        case "over_budget":
            return DrawingOverBudget(undelivered.reason)
        case "rejected":
            return DrawerRefused(undelivered.reason)
    return DrawerUnavailable(undelivered.reason)


def _is_wrong_option(failure: Failure) -> bool:
    """Whether a server rejects a parameter of the user, and therefore every request."""
    error = failure.error
    if failure.kind != "rejected" or error is None or error.is_content_filter:
        return False
    message = "" if "prompt is" in error.message else error.message
    return bool(_CHOSEN.search(error.param or message))


def _unknown_parameters(result: Success[_DrawnPicture] | Failure) -> set[str]:
    """The optional parameters that a server says it does not know."""
    error = result.error if isinstance(result, Failure) else None
    if error is None or not error.is_parameter:
        return set()
    return {name for name in _OPTIONAL if error.concerns(name)}


def _unknown_to(model: str) -> frozenset[str]:
    """The parameters that servers do not know for this model: OpenAI's models take no seed."""
    if "gpt-image-" in model:
        return frozenset(_OPTIONAL)
    return frozenset({"seed"} if "dall-e-" in model else ())


# Replies


def read_reply(content: bytes, max_side_px: int, secrets: Sequence[str]) -> _DrawnPicture:
    """The picture in the body of a reply, or why there is none, without secrets."""
    try:
        body = json_object(parse_json(content))
        entry = json_object(next(iter(json_list(body.get("data"))), None))
        return picture_of(_image_of(entry, body, secrets), max_side_px)
    except UnusableBody as error:
        return PictureUnusable(str(error))
    except (PictureUnusable, DrawerRefused) as error:
        # A new error, since a traceback would keep the body in memory.
        return type(error)(redact(str(error), secrets))


def _image_of(
    entry: Mapping[str, object], body: Mapping[str, object], secrets: Sequence[str]
) -> bytes:
    """The bytes of the image file in a reply."""
    encoded, url = (str(entry.get(key) or "").strip() for key in ("b64_json", "url"))
    text = encoded or url
    if not text:
        raise _missing_image(entry, body, secrets)
    if text.startswith("data:"):
        text = text.partition(",")[2]
    elif not encoded:
        address = url.partition("?")[0]
        raise _RemotePicture(f"the server sent the address {address} in place of a picture")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise PictureUnusable("the server sent a picture whose base64 is damaged") from None


def _missing_image(
    entry: Mapping[str, object], body: Mapping[str, object], secrets: Sequence[str]
) -> PictureUnusable | DrawerRefused:
    message = ""
    for fields in (entry, body):
        error = read_server_error(200, fields, secrets)
        message = message or error.message
        if isinstance(refusal := fields.get("refusal"), str) and refusal.strip():
            return DrawerRefused(f"the drawer refused: {refusal}")
        if error.is_content_filter or fields.get("finish_reason") == "content_filter":
            return DrawerRefused(error.message or "the picture was withheld by a content filter")
    return PictureUnusable(f"the server sent JSON without a picture: {message or 'no reason'}")
