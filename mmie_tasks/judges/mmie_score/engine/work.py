"""What goes into the engine, what is alive in it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One prompt.

    Attributes:
        key: Whose it is; comes back with what came of it.
        ids: The prompt, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Its images, cut, uint8 of shape (tiles, side, side, 3); None without images.
        max_new_tokens: How many tokens may be generated, at least 1.
    """

    key: int
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    max_new_tokens: int = 1024

    @property
    def most_tokens(self) -> int:
        """Keys that are stored for it at most: the last token generated needs none."""
        return len(self.ids) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What was generated: tokens up to and with the end token, where there is one.

    Attributes:
        key: Of the work.
        output: Ids of the tokens.
        finish: ``length`` where generation ran into its limit.
        prompt_tokens: Of the prompt, those of images included.
    """

    key: int
    output: list[int]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """Why a work has no output."""

    key: int
    error: JudgeError


Result: TypeAlias = Finished | Failed


class Feed(Protocol):
    """Hands over prepared work, one after another."""

    def get(self, *, wait: bool) -> Work | Failed | None:
        """The next, or None: nothing is ready now, or, having waited, nothing is left."""
        ...


@dataclass(slots=True, kw_only=True)
class Row:
    """A sequence that is being computed.

    Attributes:
        work: What it is of.
        pages: Where its keys and values lie, in order; enough for all it may become.
        features: Of its images, (image tokens, hidden); None without, and once they are used.
        stored: Tokens of the prompt whose keys are stored.
        output: Tokens generated so far.
    """

    work: Work
    pages: list[int]
    features: torch.Tensor | None = None
    stored: int = 0
    output: list[int] = field(default_factory=list)

    @property
    def left(self) -> int:
        """Tokens of the prompt that are still to be stored."""
        return len(self.work.ids) - self.stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A stretch of a prompt, to be computed in one step.

    Attributes:
        row: Whose.
        start: Its first token in the prompt.
        stop: The token after its last.
    """

    row: Row
    start: int
    stop: int

    @property
    def ends_prompt(self) -> bool:
        """Whether the first token can be generated after it."""
        return self.stop == len(self.row.work.ids)


Watch: TypeAlias = Callable[[int, int, torch.Tensor], None]
"""Is told a work's key, how many tokens it had before, and the logits (vocabulary,) of the next."""
