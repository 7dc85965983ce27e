"""What the functions of a task remember about samples during one evaluation.

lmms-eval calls the functions that a task file names (``doc_to_messages``, ``process_results``) with
a sample and nothing about the run, so what they remember is in module variables. A process may
evaluate several times: the hooks clear all memories when an evaluation begins.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_MEMORIES: WeakSet[RunMemory[Any]] = WeakSet()  # of this process


class RunMemory(Generic[T]):
    """One value for each sample, until the next evaluation of this process begins."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        _MEMORIES.add(self)

    def remember(self, sample_id: str, value: T) -> None:
        """Remember the value of a sample, in place of an earlier one."""
        self._values[sample_id] = value

    def of(self, sample_id: str) -> T | None:
        """The value of a sample, if there is one."""
        return self._values.get(sample_id)

    def forget(self) -> None:
        """Forget the values of all samples."""
        self._values.clear()


def forget_last_run() -> None:
    """Clear all memories of this process."""
    for memory in list(_MEMORIES):
        memory.forget()
