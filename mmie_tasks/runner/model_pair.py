"""What the tested model tells of itself if it is a pair: its writer, its name, its progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mmie_tasks.interleaved.protocols import PictureProtocol
    from mmie_tasks.runner.stage_progress import StageProgress


@runtime_checkable
class ModelPair(Protocol):
    """A model that `interleaved` makes of a writer and a drawer.

    Attributes:
        pair: The name of writer and drawer; see `PairArguments.pair`.
        words: The protocol whose words the writer gets; None if it gets the bare question.
        price_usd: Of a picture; see `Drawer.price_usd`.
        stages: The progress of the last call by title, of writing and drawing.
    """

    pair: str
    words: PictureProtocol | None
    price_usd: float | None
    stages: Mapping[str, StageProgress]

    @property
    def writer(self) -> object:
        """The writer's model of lmms-eval at the moment: it is freed for drawing, and made again
        when it is needed.
        """
