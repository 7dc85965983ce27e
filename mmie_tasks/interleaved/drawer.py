"""The drawer protocol: prompts in, pictures or errors out.

`DrawerMisconfigured` stops a run before anything is generated, if it is known by then. Other errors
concern one picture: the answer is judged without it, and counted under `DrawingError.name`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from mmie_tasks.core.errors import MmieTasksError


class DrawingError(Exception):
    """A picture was not drawn; its name is the reason in counts."""

    name: ClassVar[str] = "failed"


class DrawerUnavailable(DrawingError):
    """No picture after retries: no connection, timeout, 429, 5xx, unusable bodies."""

    name = "unavailable"


class DrawerRefused(DrawingError):
    """The prompt was refused: moderation, a safety checker."""

    name = "refused"


class PictureUnusable(DrawingError):
    """The reply has no usable picture: it is text, damaged, or has too many pixels."""

    name = "unusable"


class PictureNotStored(DrawingError):
    """The picture could not be written to the disk."""

    name = "not_stored"


class DrawingOverBudget(DrawingError):
    """The prompt was not sent: the spending limit is reached."""

    name = "over_budget"


class DrawerMisconfigured(DrawingError, MmieTasksError):
    """The drawer cannot draw as it is set up: no key, 401, unknown model, missing package."""

    name = "misconfigured"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """A picture to draw: a prompt, not blank, and a seed from 0 to 2**31 - 1. Equal requests are
    one picture.
    """

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The bytes of a ``.png``, ``.jpg`` or ``.webp`` file that could be decoded."""

    content: bytes
    suffix: str


def drawer_signature(name: str, **values: object) -> str:
    """The signature of a drawer: its name and what can change a picture, without None.

    >>> drawer_signature("images", model="flux", size=None, stored="768px")
    'images,model=flux,stored=768px'
    """
    pairs = (f"{key}={value}" for key, value in values.items() if value is not None)
    return ",".join((name, *pairs)).replace("|", " ")


class Drawer(Protocol):
    """A text-to-image model. Knows a transport or a library, and no benchmark."""

    @property
    def signature(self) -> str:
        """Everything that can change a picture, except prompt and seed, without ``|``:
        ``images,model=flux,size=512x512``.

        It has no key, no limit and no address (at most its host). It may download the model, so
        `check` comes first.
        """
        ...

    @property
    def storage_signature(self) -> str:
        """The signature with the server and its port, which names the folder of pictures."""
        ...

    def check(self) -> None:
        """Raise `DrawerMisconfigured` if the drawer cannot be used; free of cost, and uses no
        memory of a device.
        """
        ...

    def draw(
        self, requests: Sequence[PictureRequest]
    ) -> Generator[tuple[int, Picture | DrawingError], None, None]:
        """Yield one outcome per request as it arrives, with the request's index; closing the
        iterator cancels the rest.
        """
        ...

    def close(self) -> None:
        """Free the memory of devices. A later request loads the model again."""
        ...
