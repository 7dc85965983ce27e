"""The drawer `images`: servers of ``/v1/images/generations``, such as OpenAI, vLLM-Omni and
SGLang-Diffusion.

The OpenAI SDK sends the requests, and repeats those that fail by 408, 409, 429, 5xx or a lost
connection.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from pydantic import PositiveFloat, PositiveInt

from mmie_tasks.core.errors import SettingWrong
from mmie_tasks.core.messages import replace_surrogates
from mmie_tasks.drawing.drawer import Drawer, DrawerOptions, ImageRequest, NotDrawn, PngFile, png_of
from mmie_tasks.http.access import Access, first_of, read_base_url, read_key, server_name
from mmie_tasks.http.errors import Fault, fault_of, is_filtered, message_of, redact

if TYPE_CHECKING:
    import openai

_URL_VARIABLES = ("OPENAI_API_URL", "OPENAI_BASE_URL", "OPENAI_API_BASE")
_KEY_VARIABLE = "OPENAI_API_KEY"
_MAX_RETRIES = 8  # with backoff, about 40 s
_SHOWN_BYTES = 2**16


class ServerOptions(DrawerOptions):
    """The options of the drawer `images`.

    Attributes:
        quality: As OpenAI names it.
        base_url: The server; default: that of the variables that lmms-eval's clients read.
        api_key_env: Name of the variable with the key.
        timeout: Seconds that one attempt may take.
        max_concurrency: Most requests in flight.
    """

    quality: str | None = None
    base_url: str | None = None
    api_key_env: str | None = None
    timeout: PositiveFloat = 300.0
    max_concurrency: PositiveInt = 16


class ImageServer(Drawer):
    """Requests images from a server.

    Raises:
        SettingWrong: The address or the key cannot be used.
    """

    def __init__(self, options: ServerOptions, environment: Mapping[str, str]) -> None:
        self._options, self.model = options, options.model
        address = options.base_url or first_of(environment, _URL_VARIABLES)
        variables = (options.api_key_env or _KEY_VARIABLE,)
        self._access = Access(
            service=f"The drawer `{options.model}`",
            base_url=read_base_url("drawer", address),
            api_key=read_key("drawer", options.api_key_env, variables, environment),
            key_variables=variables,
            timeout_s=options.timeout,
        )

    @property
    def signature(self) -> str:
        """See `Drawer.signature`; with the address of a server that is not OpenAI's own, whose
        model may be any, whatever its name.
        """
        text = self._options.text("base_url", "api_key_env", "timeout", "max_concurrency")
        access = self._access
        host = f",host={server_name(access.base_url)}" if access.foreign_host else ""
        return f"images,{text}{host}"

    def check(self) -> None:
        """See `Drawer.check`: asks for the list of models, which a server need not have."""
        access = self._access
        if (missing_key := access.missing_key(SettingWrong)) is not None:
            raise missing_key
        try:
            access.model_names(max_retries=1)
        except Fault as fault:
            if fault.status in (404, 405) or (fault.status and fault.kind != "denied"):
                return
            key = f"correct the key in `{access.key_variables[0]}`"
            raise SettingWrong(
                f"{access.service} at {access.address} cannot be used: {str(fault).rstrip('.')}.",
                hint=key if fault.status else access.unreachable_hint,
            ) from None

    def draw(
        self, requests: Sequence[ImageRequest]
    ) -> Generator[tuple[int, PngFile | NotDrawn], None, None]:
        """See `Drawer.draw`."""
        pool = ThreadPoolExecutor(self._options.max_concurrency)
        with self._access.client(max_retries=_MAX_RETRIES) as client:  # closed, it sends no more
            draw = partial(self._draw, client)
            jobs = {pool.submit(draw, request): i for i, request in enumerate(requests)}
            try:
                for job in as_completed(jobs):
                    yield jobs.pop(job), job.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _draw(self, client: openai.OpenAI, request: ImageRequest) -> PngFile | NotDrawn:
        import openai

        options, secrets = self._options, self._access.secrets
        more: dict[str, object] = {"response_format": "b64_json", "seed": request.seed}
        if "gpt-image-" in options.model:  # which knows neither, and always sends base64
            more = {}
        more |= {
            "size": options.size,
            "quality": options.quality,
            "num_inference_steps": options.steps,
            "guidance_scale": options.guidance,
            "negative_prompt": options.negative_prompt,
        }
        try:
            response = client.images.with_raw_response.generate(
                model=options.model,
                prompt=replace_surrogates(request.prompt),
                n=1,
                extra_body={name: value for name, value in more.items() if value is not None},
            )
        except openai.OpenAIError as error:
            fault = fault_of(error, secrets)
            return NotDrawn("refused" if fault.kind == "rejected" else "unavailable", str(fault))
        return read_reply(response.content, options.max_side_px, secrets)


def read_reply(content: bytes, max_side_px: int, secrets: Sequence[str]) -> PngFile | NotDrawn:
    """The image in the body of a reply, or why there is none. Never raises; an address is not
    fetched.
    """
    body: object = None
    with suppress(ValueError, RecursionError):
        body = json.loads(content)
    match body:
        case {"data": [{"b64_json": str(encoded)}, *_]} if encoded:
            encoded = encoded.rpartition(",")[2]
        case {"data": [{"url": str(url)}, *_]} if url.startswith("data:"):
            encoded = url.partition(",")[2]
        case {"data": [{"url": str(url)}, *_]} if url:
            return NotDrawn("unusable", "the server sent an address in place of an image")
        case _:
            text = content[:_SHOWN_BYTES].decode(errors="replace")
            message = redact(message_of(text), secrets)
            return NotDrawn(
                "refused" if is_filtered(text) else "unusable",
                f"the server sent no image: {message or 'no reason'}",
            )
    try:
        image = base64.b64decode("".join(encoded.split()), validate=True)
    except ValueError:
        return NotDrawn("unusable", "the server sent an image whose base64 is damaged")
    return png_of(image, max_side_px)
