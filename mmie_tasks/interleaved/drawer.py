"""The drawer protocol: prompts in, pictures or errors out.

`DrawerMisconfigured` stops a run before anything is generated, if it is known by then. All other
errors concern one picture: the answer goes to the judge without it, and the reason is counted under
`DrawingError.name`.
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
    """A reply without a picture that can be used: text, damaged, too many pixels."""

    name = "unusable"


class PictureNotStored(DrawingError):
    """The picture cannot be written to the disk."""

    name = "not_stored"


class DrawingOverBudget(DrawingError):
    """The prompt was not sent: the spending limit is reached."""

    name = "over_budget"


class DrawerMisconfigured(DrawingError, MmieTasksError):
    """The drawer cannot draw as it is set up: no key, 401, unknown model, missing package."""

    name = "misconfigured"


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureRequest:
    """A picture to draw: words, not blank, and a seed from 0 to 2**31 - 1. Equal requests are one
    picture.
    """

    prompt: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A picture as it is stored: the bytes of a ``.png``, ``.jpg`` or ``.webp`` file that has been
    decoded once.
    """

    content: bytes
    suffix: str


def drawer_signature(name: str, **values: object) -> str:
    """The signature of a drawer: its name and what can change a picture; None is left out.

    >>> drawer_signature("images", model="flux", size=None, stored="768px")
    'images,model=flux,stored=768px'
    """
    pairs = (f"{key}={value}" for key, value in values.items() if value is not None)
    return ",".join((name, *pairs)).replace("|", " ")


class Drawer(Protocol):
    """A text-to-image model. Knows a transport or a library, and no benchmark."""

    @property
    def signature(self) -> str:
        """Everything that can change a picture but prompt and seed, without ``|``:
        ``images,model=flux,size=512x512``.

        It holds no key or limit, and of an address at most the host. It may download the model;
        `check` comes first.
        """
        ...

    @property
    def storage_signature(self) -> str:
        """What pictures are stored under: the signature, and the servers with a port."""
        ...

    def check(self) -> None:
        """Raise `DrawerMisconfigured` if the drawer cannot be used; takes no memory of a device,
        and costs nothing.
        """
        ...

    def describe(self) -> str:
        """Check as far as nothing large is downloaded for it, and return what draws, in one line;
        raises as `check`.
        """
        ...

    @property
    def price_usd(self) -> float | None:
        """Of a picture in US dollars; 0 in this process, None if unknown."""
        ...

    def draw(
        self, requests: Sequence[PictureRequest]
    ) -> Generator[tuple[int, Picture | DrawingError], None, None]:
        """Yield one outcome per request as it arrives, with the request's index; closing the
        iterator stops it.
        """
        ...

    def close(self) -> None:
        """Free the memory of devices. A later request loads the model again."""
        ...
