"""The store of drawn pictures: every picture is drawn once, also if a run is killed and started again.

A picture's file is named by the SHA-256 of its prompt and seed, in a folder named by that of the drawer's signature
(model, size and everything else that can change it). Files are written in one step, so a file that exists is whole.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from mmie_tasks.core.files import atomic_write
from mmie_tasks.drawing.base import Drawer, DrawerMisconfigured, DrawingError, Picture, PictureNotStored, PictureRequest

_SUFFIXES = (".png", ".jpg", ".webp")


class PictureStore:
    """The pictures of one drawer in a folder. Several processes may use it at once.

    Args:
        folder: Of the pictures of all drawers.
        signature: The drawer's.
    """

    def __init__(self, folder: Path, signature: str) -> None:
        self._folder = folder / hashlib.sha256(signature.encode()).hexdigest()[:16]
        self._signature = signature

    def prepare(self) -> None:
        """Create the folder, with a file that names the drawer, before anything is drawn.

        Raises:
            DrawerMisconfigured: It cannot be written.
        """
        about = self._folder / "drawer.txt"
        try:
            with atomic_write(about) as part:
                part.write_text(f"{self._signature}\n", encoding="utf-8")
        except OSError as error:
            raise DrawerMisconfigured(
                f"Pictures cannot be stored in `{self._folder}`: {error.strerror or error}.",
                hint="name another folder with `pictures=FOLDER`, or make room on the disk",
            ) from error

    def find(self, request: PictureRequest) -> Path | None:
        """The file of a picture; None if it has not been drawn."""
        path = self._path(request)
        return next((file for suffix in _SUFFIXES if (file := path.with_suffix(suffix)).is_file()), None)

    def add(self, request: PictureRequest, picture: Picture) -> Path:
        """Write a picture, and return its file.

        Raises:
            PictureNotStored: The file cannot be written.
        """
        path = self._path(request).with_suffix(picture.suffix)
        try:
            with atomic_write(path) as part:
                part.write_bytes(picture.content)
        except OSError as error:
            raise PictureNotStored(f"`{path.parent}` cannot be written: {error.strerror or error}") from error
        return path

    def _path(self, request: PictureRequest) -> Path:
        """The path of a picture, without its suffix."""
        content = f"{request.seed}\n{request.prompt}".encode(errors="surrogatepass")
        name = hashlib.sha256(content).hexdigest()
        return self._folder / name[:2] / name


def draw_all(
    drawer: Drawer,
    store: PictureStore,
    requests: Iterable[PictureRequest],
    on_start: Callable[[int, int], object],
    on_picture: Callable[[], object],
) -> dict[PictureRequest, Path | DrawingError]:
    """Draw the pictures that the store lacks, and return the file of each picture, or why there is none.

    A picture is stored as soon as it has arrived. Once one cannot be stored, no further one is drawn.

    Args:
        drawer: Draws them.
        store: Of this drawer.
        requests: Those that are equal are one picture.
        on_start: Called once, with the number of pictures and of those that the store has.
        on_picture: Called for each outcome of the drawer.
    """
    outcomes: dict[PictureRequest, Path | DrawingError] = {}
    missing: list[PictureRequest] = []
    for request in dict.fromkeys(requests):
        if (path := store.find(request)) is None:
            missing.append(request)
        else:
            outcomes[request] = path
    on_start(len(outcomes) + len(missing), len(outcomes))
    if not missing:
        return outcomes
    with closing(drawer.draw(missing)) as drawn:
        for index, outcome in drawn:
            request = missing[index]
            try:
                outcomes[request] = store.add(request, outcome) if isinstance(outcome, Picture) else outcome
            except PictureNotStored as error:
                outcomes |= {other: error for other in missing if other not in outcomes}
                return outcomes
            on_picture()
    return outcomes
