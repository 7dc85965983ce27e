"""The seam between a request's ids and tiles and the tokens that an engine generates for them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A request as the model reads it.

    Attributes:
        key: Identifies the request; its result has the same key.
        ids: Token ids, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Of its images, uint8 of shape (tiles, side, side, 3); None without images.
        tile_counts: How many of them each image has; empty without images.
        max_new_tokens: At least 1.
    """

    key: int
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    tile_counts: tuple[int, ...] = ()
    max_new_tokens: int = 1024

    @property
    def max_stored_tokens(self) -> int:
        """The most keys that are stored for it: the last generated token needs none."""
        return len(self.ids) + self.max_new_tokens - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The tokens generated for a prompt, up to and with the end token if there is one.

    Attributes:
        output: Token ids.
        digits: For each token that is a digit, by its index in the output: log-probabilities of the
            digits 0 to 9.
        finish: ``length`` if generation ran into its limit.
        prompt_tokens: Length of the prompt, image tokens included.
    """

    key: int
    output: list[int]
    digits: Mapping[int, tuple[float | None, ...]]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrompt:
    """Why a request has no completion."""

    key: int
    error: JudgeError


Result: TypeAlias = Completion | FailedPrompt


class PromptSource(Protocol):
    """Supplies prompts to an engine."""

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        """The next prompt. None: none is ready yet, or, with `wait`, none is left."""
        ...


class Engine(ABC):
    """Generates greedily, up to ``<|end|>`` or a prompt's limit, many prompts at once.

    The result of a prompt does not depend on what else is computed, but for the rounding of half
    precision.
    """

    @abstractmethod
    def run(self, source: PromptSource) -> Iterator[Result]:
        """The result of every prompt of the source, each as it is finished."""

    @abstractmethod
    def close(self) -> None:
        """Release the memory of the device."""
