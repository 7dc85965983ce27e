"""The class `Drawer`, a text-to-image model: prompts in, images or reasons out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field, NonNegativeInt, PositiveInt

from mmie_tasks.core.choice import ChoiceOptions
from mmie_tasks.hub.images import ImageBroken, open_bounded

if TYPE_CHECKING:
    from PIL import Image

_MAX_PIXELS = 4096 * 4096  # larger images are not decoded


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRequest:
    """An image to draw: a prompt, not blank, and a seed from 0 to 2**31 - 1. Equal requests are one
    image.
    """

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True)
class NotDrawn:
    """Why there is no image.

    Attributes:
        reason: ``unavailable``: the drawer is at fault, and may draw it in another run;
            ``refused``: the prompt was, by moderation or a safety checker; ``unusable``: what was
            drawn is not an image, or has one colour.
        detail: For messages, without secrets.
    """

    reason: Literal["unavailable", "refused", "unusable"]
    detail: str


PngFile: TypeAlias = bytes


class DrawerOptions(ChoiceOptions):
    """The options of every drawer.

    Attributes:
        model: Name on the server, or a repository or folder of diffusers.
        size: ``WIDTHxHEIGHT`` of the drawn image, in pixels; default: that of the model.
        max_side_px: Longest side of the stored image; 0 for no limit. MMIE's judge cuts larger
            images into many tiles of 448 pixels.
        steps, guidance, negative_prompt: Default: those of the model.
    """

    model: Annotated[str, Field(min_length=1)]
    size: Annotated[str, Field(pattern=r"^[1-9]\d{1,3}x[1-9]\d{1,3}$")] | None = None
    max_side_px: NonNegativeInt = 512
    steps: PositiveInt | None = None
    guidance: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    negative_prompt: str | None = None

    def text(self, *unrelated: str) -> str:
        """The options that can change an image, as ``key=value,...``; without `unrelated` ones."""
        pairs = self.model_dump(exclude_none=True, exclude={*unrelated}).items()
        return ",".join(f"{key}={value}" for key, value in pairs).replace("|", " ")


class Drawer(ABC):
    """A text-to-image model. It knows a transport or a library, and no benchmark.

    Attributes:
        model: A name on a server, a repository or a folder.
    """

    model: str

    @property
    def name(self) -> str:
        """The model without its owner or folder, for the name of a run."""
        return Path(self.model).name

    @property
    @abstractmethod
    def signature(self) -> str:
        """Everything that can change an image, except prompt and seed, without ``|``:
        ``images,model=flux,size=512x512,max_side_px=512``. Raises the errors of `check`.
        """

    @abstractmethod
    def check(self) -> None:
        """Raise a `MmieTasksError` if the drawer cannot be used; free of cost, and nothing large is
        downloaded.
        """

    @abstractmethod
    def draw(
        self, requests: Sequence[ImageRequest]
    ) -> Generator[tuple[int, PngFile | NotDrawn], None, None]:
        """Yield one outcome per request as it arrives, with the request's index; closing the
        iterator cancels the rest. Raises a `MmieTasksError` if nothing can be drawn.
        """

    def close(self) -> None:  # noqa: B027 - a default that does nothing
        """Free the memory of devices."""


def png_of(content: bytes | Image.Image, max_side_px: int) -> PngFile | NotDrawn:
    """An image as a PNG in RGB, scaled down to a longest side (0: no limit).

    An image of one colour, as after a safety checker or an overflow, is unusable.
    """
    from PIL.Image import Resampling

    image = content
    if isinstance(image, bytes):
        try:
            image = open_bounded(Path("of the drawer"), _MAX_PIXELS, image)
        except ImageBroken as error:
            return NotDrawn("unusable", error.reason)
    rgb = image.convert("RGB")
    if rgb.getcolors(1):  # None for more
        return NotDrawn("unusable", "all its pixels have one colour")
    if max_side_px and max(rgb.size) > max_side_px:
        rgb.thumbnail((max_side_px, max_side_px), Resampling.LANCZOS)
    file = BytesIO()
    rgb.save(file, "PNG")
    return file.getvalue()
