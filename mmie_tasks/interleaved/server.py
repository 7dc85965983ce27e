"""The drawer `images`: servers of ``/v1/images/generations``, such as OpenAI, vLLM-Omni and
SGLang-Diffusion.

Requests are sent and retried like those of the `openai` judge: see `http.sender`.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import Annotated, TypeAlias

import openai
from loguru import logger
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.log import warn
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.http import access as http_access
from mmie_tasks.http.access import Access
from mmie_tasks.http.errors import Fault, fault_of, is_filtered, message_of, redact
from mmie_tasks.http.sender import Budget, Pace, Sender, Undelivered
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

_MAX_REPLIES = 3
"""A request whose picture cannot be used is sent so often."""

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
            max_usd=http_access.cost_share_usd(options.max_cost, environment),
            request_usd=options.price or 0.0,
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
        access, name = self.access, f"{self.access.service} at {self.access.address}"
        if (missing_key := access.missing_key(DrawerMisconfigured)) is not None:
            raise missing_key
        try:
            models = access.model_names(max_retries=len(self.pace.check_s))
        except Fault as fault:
            is_denied = fault.kind == "denied" and fault.status not in (404, 405)
            if fault.status and (not is_denied or "scope" in str(fault)):
                return  # not every server has a list, and not every key may read it
            variables = ", ".join(f"`{name}`" for name in access.key_variables)
            raise DrawerMisconfigured(
                f"{name} cannot be used: {str(fault).rstrip('.')}.",
                hint=f"correct the key, from {variables}"
                if fault.status
                else access.unreachable_hint,
            ) from None
        if models and self.model not in models:
            others = ", ".join(f"`{o}`" for o in http_access.similar_names(self.model, models))
            warn(
                f"{name} is not in the server's list of models. It has {others}.",
                hint="check `model=`",
            )

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
        send = partial(self._send, sender)
        for index, result in sender.send_all(requests, send):
            if isinstance(result, Undelivered):
                yield index, _undrawn(result, self.access.service)
            else:
                yield index, result

    def close(self) -> None:
        """Do nothing: a server uses no memory of this machine."""

    async def _send(
        self, sender: Sender, client: openai.AsyncOpenAI, request: PictureRequest
    ) -> _DrawnPicture:
        """Send a request, again at once without parameters that the server does not know, and if
        its picture cannot be used.

        The parameters are remembered after a reply, so an error of another cause changes nothing.
        """
        omitted = known = _unknown_to(self.model) | self._omitted
        replies = 0
        while True:
            try:
                outcome = await self._attempt(client, request, omitted)
            except Fault as fault:
                if not (
                    name := fault.rejects(*(name for name in _OPTIONAL if name not in omitted))
                ):
                    raise
                omitted |= {name}
                continue
            replies += 1
            is_final = not isinstance(outcome, PictureUnusable) or isinstance(
                outcome, _RemotePicture
            )
            if is_final or replies == _MAX_REPLIES or not sender.may_send_again:
                break
        if not omitted <= known | self._omitted:
            self._omitted.update(omitted)
            names = " and ".join(f"`{name}`" for name in sorted(omitted))
            drawer = f"{self.access.service} at {self.access.address}"
            logger.warning(f"{drawer} now gets no {names}: it does not know them.")
        return outcome

    async def _attempt(
        self, client: openai.AsyncOpenAI, request: PictureRequest, omitted: frozenset[str]
    ) -> _DrawnPicture:
        secrets = self.access.secrets
        parameters = {
            "n": 1,
            "response_format": "b64_json",
            "seed": request.seed,
            **self.parameters,
        }
        body = {name: value for name, value in parameters.items() if name not in omitted}
        generate = client.images.with_raw_response.generate
        try:
            response = await asyncio.wait_for(
                generate(
                    model=self.model, prompt=replace_surrogates(request.prompt), extra_body=body
                ),
                self.access.timeout_s,
            )
        except (openai.OpenAIError, asyncio.TimeoutError) as error:
            fault = fault_of(error, secrets)
            if fault.kind == "rejected" and _is_wrong_option(fault):
                raise Fault("denied", str(fault), status=fault.status, body=fault.body) from None
            raise fault from None
        self.budget.spend(self.price_usd)
        return await asyncio.to_thread(read_reply, response.content, self.max_side_px, secrets)


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


def _is_wrong_option(fault: Fault) -> bool:
    """Whether a server rejects a parameter of the user, and therefore every request."""
    is_of_prompt = is_filtered(fault.body) or "prompt is" in fault.body
    return not is_of_prompt and _CHOSEN.search(fault.body) is not None


def _unknown_to(model: str) -> frozenset[str]:
    """The parameters that servers do not know for this model: OpenAI's models take no seed."""
    if "gpt-image-" in model:
        return frozenset(_OPTIONAL)
    return frozenset({"seed"} if "dall-e-" in model else ())


# Replies


def read_reply(content: bytes, max_side_px: int, secrets: Sequence[str]) -> _DrawnPicture:
    """The picture in the body of a reply, or why there is none, without secrets."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        return PictureUnusable("the server sent a body that is no JSON")
    entry: dict[str, object] = {}
    match body:
        case {"data": [dict() as first, *_]}:
            entry = first
    try:
        return picture_of(_image_of(entry, body), max_side_px)
    except (PictureUnusable, DrawerRefused) as error:
        # A new error, since a traceback would keep the body in memory.
        return type(error)(redact(str(error), secrets))


def _image_of(entry: Mapping[str, object], body: object) -> bytes:
    """The bytes of the image file in a reply."""
    encoded, url = (str(entry.get(key) or "").strip() for key in ("b64_json", "url"))
    text = encoded or url
    if not text:
        raise _missing_image(entry, body)
    if text.startswith("data:"):
        text = text.partition(",")[2]
    elif not encoded:
        address = url.partition("?")[0]
        raise _RemotePicture(f"the server sent the address {address} in place of a picture")
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except ValueError:
        raise PictureUnusable("the server sent a picture whose base64 is damaged") from None


def _missing_image(entry: Mapping[str, object], body: object) -> PictureUnusable | DrawerRefused:
    if refusal := entry.get("refusal"):
        return DrawerRefused(f"the drawer refused: {refusal}")
    text = json.dumps(body)
    message = message_of(text)
    if is_filtered(text):
        return DrawerRefused(message or "the picture was withheld by a content filter")
    return PictureUnusable(f"the server sent JSON without a picture: {message or 'no reason'}")
