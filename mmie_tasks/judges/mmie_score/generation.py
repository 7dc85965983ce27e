"""What an engine takes and returns: ids and tiles of a request, and the generated tokens."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mmie_tasks.judges.base import JudgeError, JudgeUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """A request as the model reads it.

    Attributes:
        key: Identifies the request; its result has the same key.
        ids: Token ids, one ``<IMG_CONTEXT>`` for each image feature. Never empty.
        tiles: Tiles of all images, uint8 of shape (tiles, side, side, 3); None without images.
        tile_counts: Number of tiles of each image; empty without images.
        max_new_tokens: At least 1.
    """

    key: int
    ids: list[int]
    tiles: NDArray[np.uint8] | None = None
    tile_counts: tuple[int, ...] = ()
    max_new_tokens: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The tokens generated for a prompt.

    Attributes:
        output: Token ids, including the end token if there is one.
        finish: ``length`` if generation reached its limit.
        prompt_tokens: Length of the prompt, including image tokens.
    """

    key: int
    output: list[int]
    finish: Literal["stop", "length"]
    prompt_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedPrompt:
    """Why a request has no completion."""

    key: int
    error: JudgeError

    @classmethod
    def unavailable(cls, prompt: JudgePrompt, reason: str) -> FailedPrompt:
        """A prompt that the engine could not complete."""
        return cls(key=prompt.key, error=JudgeUnavailable(reason))


Result: TypeAlias = Completion | FailedPrompt


class PromptSource(Protocol):
    """Supplies prompts to an engine."""

    def get(self, *, wait: bool) -> JudgePrompt | FailedPrompt | None:
        """The next prompt; None if none is ready yet or, with `wait`, none is left."""
        ...


class Engine(ABC):
    """Generates greedily for many prompts at once, up to ``<|end|>`` or a prompt's limit.

    Apart from rounding in half precision, a result does not depend on what else is computed.
    """

    @abstractmethod
    def run(self, source: PromptSource) -> Iterator[Result]:
        """The result of every prompt of the source, each as it is finished."""

    @abstractmethod
    def close(self) -> None:
        """Release the memory of the device."""
