"""What the tested model tells of itself if it is a pair: its writer and its name."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class ModelPair(Protocol):
    """A model that `interleaved` makes of a writer and a drawer.

    Attributes:
        pair: The name of writer and drawer; see `PairArguments.pair`.
    """

    pair: str

    @property
    def writer(self) -> object:
        """The writer's model of lmms-eval at the moment: it is freed for drawing, and made again
        when it is needed.
        """
