"""The drawer protocol: prompts in, pictures or errors out; and drawers by name.

* DrawingError
  + DrawerUnavailable   no picture after retries: no connection, timeout, 429, 5xx, unusable bodies
  + DrawerRefused       the prompt was refused: moderation, a safety checker
  + PictureUnusable     a reply without a picture that can be used: text, damaged, too many pixels
  + PictureNotStored    the picture cannot be written to the disk
  + DrawingOverBudget   the prompt was not sent: the spending limit is reached
  + DrawerMisconfigured cannot draw as it is set up: no key, 401, unknown model, missing package

The last one stops a run before anything is generated, if it is known by then. All others concern one picture: the
answer goes to the judge without it, and the reason is counted under `DrawingError.name`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mmie_tasks.core import options
from mmie_tasks.core.errors import MmieTasksError, SettingWrong

BUILT_IN: Mapping[str, str] = {
    "images": "mmie_tasks.drawing.server:open_drawer",
    "diffusers": "mmie_tasks.drawing.pipeline:open_drawer",
}
"""Name to factory, as ``module:function``. Its keyword arguments are the drawer's options: see `core.options`."""


class DrawingError(Exception):
    """A picture was not drawn.

    Attributes:
        name: The reason in counts.
    """

    name: ClassVar[str] = "failed"


class DrawerUnavailable(DrawingError):
    """The drawer did not answer within its retries."""

    name = "unavailable"


class DrawerRefused(DrawingError):
    """The drawer refused the prompt."""

    name = "refused"


class PictureUnusable(DrawingError):
    """The drawer answered, but not with a picture that can be used."""

    name = "unusable"


class PictureNotStored(DrawingError):
    """The picture cannot be written to the disk."""

    name = "not_stored"


class DrawingOverBudget(DrawingError):
    """The prompt was not sent: the spending limit is reached."""

    name = "over_budget"


class DrawerMisconfigured(DrawingError, MmieTasksError):
    """The drawer cannot draw as it is set up."""

    name = "misconfigured"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """A picture to draw. Equal requests to one drawer are one picture.

    Attributes:
        prompt: The words that describe the picture; not blank.
        seed: From 0 to 2**31 - 1; drawers that take none ignore it.
    """

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as it is stored and shown to the judge.

    Attributes:
        content: The bytes of an image file that has been decoded once without an error.
        suffix: Of the file: ``.png``, ``.jpg`` or ``.webp``.
    """

    content: bytes
    suffix: str


class Drawer(Protocol):
    """A text-to-image model. Knows a transport or a library, and no benchmark."""

    @property
    def signature(self) -> str:
        """Everything that can change a picture but prompt and seed, without ``|``: ``images,model=flux,size=512x512``.

        Pictures are stored under it. It holds no key or limit, and of an address at most the host. It may download the
        model; `check` comes first.
        """
        ...

    def check(self) -> None:
        """Return if the drawer can be used. It draws nothing, takes no memory of a device, and costs nothing.

        Raises:
            DrawerMisconfigured: It cannot; the message says why and what to do.
            MmieTasksError: The model cannot be downloaded.
        """
        ...

    def draw(self, requests: Sequence[PictureRequest]) -> Generator[tuple[int, Picture | DrawingError], None, None]:
        """Yield one outcome per request, in any order, with the request's index.

        An outcome is yielded as soon as it is there. Closing the iterator early stops the drawing.
        """
        ...

    def close(self) -> None:
        """Free the memory of devices. A later request loads the model again."""
        ...


def open_drawer(choice: str, environment: Mapping[str, str]) -> Drawer:
    """Open a drawer; it draws, sends and loads nothing yet.

    Args:
        choice: ``NAME:MODEL`` or ``NAME:k=v,k=v``, as the user typed it after ``t2i=``.
        environment: Holds keys and addresses of servers.

    Raises:
        SettingWrong: No such drawer or option, or an unusable value; lists the valid ones.
        DrawerMisconfigured: A value makes no sense for the drawer.
    """
    drawer = options.parse_choice(choice, "`t2i`", "drawer")
    if (factory := BUILT_IN.get(drawer.name)) is None:
        hint = f"one of {options.listed(BUILT_IN, drawer.name)}, as in `t2i=images:model=gpt-image-1`"
        raise SettingWrong(f"There is no drawer `{drawer.name}`.", hint=hint)
    opened: Drawer = options.create("drawer", drawer, options.import_factory(factory), environment)
    return opened
